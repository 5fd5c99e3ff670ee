"""Goal: the learner pipeline is at least 6 times as fast as RLlib's, the env-to-module pipeline at least 5 times.

python benchmarks/connectors.py [--quick] [--json PATH] [--only TEXT]

Learner rows are `Learner.batch_of` of a PPO learner with its default pipeline, against that of RLlib's PPO learner.
Observations are float32[4], actions Discrete(2). The value network has one hidden layer of 32 units (an LSTM layer of 32
units in the recurrent row), so that what is measured is the pipeline. Rows against "bare loop" tell how close it comes to
concatenations by hand from plain arrays, which know nothing of episodes.
"""

from __future__ import annotations

import sys

from _harness import main

if __name__ == "__main__":
    sys.exit(main("connector_cases", __doc__, peers=("rllib",)))
