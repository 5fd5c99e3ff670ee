"""Goal: a runner reaches 0.75 of a loop written by hand (vectorised 0.70), and 5 times RLlib where that is slowest.

    python benchmarks/rollouts.py [--quick] [--json PATH] [--only TEXT]

With a piece that a user puts in front of the module, it keeps most of that: rows against "default pipeline" tell how much.

CartPole, two hidden layers of 64 units; actions are drawn, and stored with their log-probabilities and logits. Real
transitions per second, in rows with several agents those of agents. `--quick` compares with the loop by hand and RLlib, and
leaves out the pieces without a speed to reach (FrameStacking, PrevActionsPrevRewards, FlattenObservations) unless `--only`
names them; a full run also compares with the collectors of Stable-Baselines3, Tianshou and TorchRL.
"""

from __future__ import annotations

import sys

from _harness import Effort, main

if __name__ == "__main__":
    quick, full = Effort(rounds=5, budget_s=0.04), Effort(rounds=15, budget_s=0.2)
    everybody = ("rllib", "sb3", "tianshou", "torchrl")
    sys.exit(main("rollout_cases", __doc__, peers=everybody, quick_peers=("rllib",), efforts=(quick, full)))
