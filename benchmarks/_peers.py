"""Which other libraries are measured, and where their virtual environments live."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
TORCH = "torch==2.13.0"


@dataclass(frozen=True)
class Peer:
    """One row of the table: a library with requirements of its own."""

    name: str
    requirements: tuple[str, ...]
    probe: str  # A statement that only works when the installation does.


PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            "rllib",
            ("ray[rllib]==2.60.0", "gymnasium==1.2.2", TORCH),
            "from ray.rllib.env.single_agent_episode import SingleAgentEpisode",
        ),
        Peer("sb3", ("stable-baselines3==2.9.2", TORCH), "from stable_baselines3 import PPO"),
        Peer("tianshou", ("tianshou==2.0.1", TORCH), "from tianshou.data import Collector"),
        # tensordict 0.15 is shut out by torchrl itself; named here so that the resolver does not search.
        Peer(
            "torchrl", ("torchrl==0.14.1", "tensordict==0.14.3", "gymnasium==1.2.2", TORCH), "import torchrl.collectors"
        ),
    )
}


# Code that is written here, and runs in the environment of a peer.
RUNS_IN = {"cleanrl": "sb3"}


def peers_directory() -> Path:
    """Return `$EPISODIA_PEERS`, or `.bench` in the repository."""
    return Path(os.environ.get("EPISODIA_PEERS") or REPOSITORY / ".bench").resolve()


def peer_python(name: str) -> Path:
    """Return the interpreter of the peer's virtual environment, which may not exist yet."""
    folder, program = ("Scripts", "python.exe") if sys.platform == "win32" else ("bin", "python")
    return peers_directory() / RUNS_IN.get(name, name) / folder / program


def is_installed(name: str) -> bool:
    """Tell whether `make_peers.py` (or a hand) has made this peer's interpreter."""
    return peer_python(name).exists()
