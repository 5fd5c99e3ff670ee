"""Claim: a `MultiAgentEpisode` is never slower than RLlib's to build, read, cut and slice.

python benchmarks/multi_agent_episodes.py [--quick] [--json PATH] [--only TEXT]
"""

from __future__ import annotations

import sys

from _harness import main

if __name__ == "__main__":
    sys.exit(main("multi_agent_episode_cases", __doc__, peers=("rllib",)))
