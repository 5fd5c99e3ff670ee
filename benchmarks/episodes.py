"""Claim: a hand-built `SingleAgentEpisode` is never slower than RLlib's, and usually twice as fast.

python benchmarks/episodes.py [--quick] [--json PATH] [--only TEXT]
"""

from __future__ import annotations

import sys

from _harness import main

if __name__ == "__main__":
    sys.exit(main("episode_cases", __doc__, peers=("rllib",)))
