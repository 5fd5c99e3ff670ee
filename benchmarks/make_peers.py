"""Make the virtual environments of the libraries that the benchmarks compare with.

    python benchmarks/make_peers.py            # all peers
    python benchmarks/make_peers.py rllib      # only this one

They go to `$EPISODIA_PEERS` (default `.bench/`). A peer that is complete is left alone.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

from _peers import PEERS, Peer, peer_python, peers_directory

MARK = "episodia-peer.txt"  # Written last: holds the requirements that were installed.


class PeerError(Exception):
    """A peer could not be made; the message says which step failed and what to try."""


def main() -> int:
    """Make the peers named on the command line; return the number of those that failed."""
    arguments = _parse()
    names = arguments.names or sorted(PEERS)
    print(f"peers go to {peers_directory()}", flush=True)
    failures = 0
    for position, name in enumerate(names, start=1):
        print(f"[{position}/{len(names)}] {name}", flush=True)
        try:
            make(PEERS[name], python=arguments.python, fresh=arguments.fresh)
        except PeerError as error:
            failures += 1
            print(f"    failed: {error}", file=sys.stderr, flush=True)
    return failures


def make(peer: Peer, *, python: str, fresh: bool) -> None:
    """Bring `peer` into being, unless it is there already with the same requirements."""
    home = peers_directory() / peer.name
    mark = home / MARK
    wanted = "\n".join(peer.requirements) + "\n"
    if fresh and home.exists():
        print(f"    removing {home}", flush=True)
        shutil.rmtree(home)
    if mark.exists() and mark.read_text() == wanted and _works(peer):
        print("    already complete", flush=True)
        return
    started = time.monotonic()
    mark.unlink(missing_ok=True)
    _make_environment(peer, home, python)
    _install(peer)
    if not _works(peer, show=True):
        raise PeerError(f"installed, but `{peer.probe}` fails. Try again with --fresh.")
    mark.write_text(wanted)
    print(f"    done in {time.monotonic() - started:.0f} s", flush=True)


def _make_environment(peer: Peer, home: Path, python: str) -> None:
    if peer_python(peer.name).exists():
        print(f"    found an environment in {home}", flush=True)
        return
    print(f"    making a virtual environment in {home}", flush=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    _run([python, "-m", "venv", str(home)], "making the virtual environment", "Is the `venv` module installed?")


def _install(peer: Peer) -> None:
    print(f"    installing {' '.join(peer.requirements)} (some minutes the first time)", flush=True)
    command = [str(peer_python(peer.name)), "-m", "pip", "install", "--disable-pip-version-check"]
    _run(
        [*command, *peer.requirements],
        "pip install",
        "Its own message is above; PIP_EXTRA_INDEX_URL and PIP_FIND_LINKS name further sources.",
    )


def _run(command: list[str], what: str, remedy: str) -> None:
    try:
        code = subprocess.run(command, check=False).returncode
    except OSError as error:
        raise PeerError(f"{what}: cannot start {command[0]!r} ({error}). {remedy}") from error
    if code:
        raise PeerError(f"{what} ended with exit code {code}. {remedy}")


def _works(peer: Peer, *, show: bool = False) -> bool:
    output = None if show else subprocess.DEVNULL
    try:
        probe = [str(peer_python(peer.name)), "-c", peer.probe]
        return subprocess.run(probe, check=False, stdout=output, stderr=output).returncode == 0
    except OSError:
        return False


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which peers, of: {', '.join(sorted(PEERS))}")
    parser.add_argument("--python", default=sys.executable, help="interpreter to make the environments with")
    parser.add_argument("--fresh", action="store_true", help="remove what is there and start again")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.names) - set(PEERS)):
        parser.error(f"unknown peer {', '.join(unknown)}; known are {', '.join(sorted(PEERS))}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
