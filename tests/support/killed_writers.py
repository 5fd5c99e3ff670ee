"""Rounds with writers that are killed, and with readers beside a writer; run as a script, because it forks.

Prints what was found wrong, and a line of numbers last.
"""

import os
import random
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

from episodia.episodes import EpisodeStore
from episodia.errors import StoreError, StoreWarning
from episodia.testing import assert_same_episode
from stored_walks import numbered


def write(path, acknowledged):
    """Append until killed, and say after each append how many episodes there are."""
    with EpisodeStore(path) as store:
        count = len(store)
        while True:
            more = 1 + count % 3
            store.append([numbered(number) for number in range(count, count + more)])
            count += more
            os.write(acknowledged, count.to_bytes(8, "little"))


def forked(function, *arguments):
    child = os.fork()
    if not child:
        code = 1
        try:
            function(*arguments)
            code = 0
        except BaseException:  # noqa: BLE001  # the process ends here, and its parent only learns the code
            traceback.print_exc()
        finally:
            os._exit(code)
    return child


def last_of(pipe):
    """Return the last number that was written to a pipe; 0 if there is no number."""
    content = b""
    while part := os.read(pipe, 1 << 16):
        content += part
    whole = content[: len(content) // 8 * 8]
    return int.from_bytes(whole[-8:], "little")


def killed_round(path, choices):
    """Kill a writer at a random time; return how many episodes were acknowledged."""
    reading, writing = os.pipe()
    child = forked(write, path, writing)
    os.close(writing)
    first = os.read(reading, 8) if choices.random() < 0.8 else b""
    time.sleep(choices.uniform(0.0, 0.03))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    acknowledged = last_of(reading) or int.from_bytes(first, "little")
    os.close(reading)
    return acknowledged


def check(path, start, acknowledged):
    """Compare the episodes from `start` on with the numbered ones, and return how many there are."""
    if not (path / "schema.json").exists():
        assert acknowledged == 0, f"{acknowledged} episodes were acknowledged, and there is no store"
        return 0
    episodes = EpisodeStore(path).episodes()
    assert len(episodes) >= acknowledged, f"{len(episodes)} episodes, {acknowledged} acknowledged"
    for number in range(start, len(episodes)):
        assert_same_episode(episodes[number], numbered(number), ignore=("times",))
    return len(episodes)


def kills(path, rounds, choices):
    count = most = 0
    for number in range(rounds):
        if number % 50 == 0:
            path, count = path.with_name(f"store-{number}"), 0
        count = check(path, count, killed_round(path, choices))
        most = max(most, count)
    return most


def read_beside(path, until):
    """Read what is new until there are enough episodes; each is the numbered one."""
    store, count = EpisodeStore(path), 0
    while count < until:
        if not store.path.joinpath("schema.json").exists():
            continue
        episodes = store.episodes()
        for number in range(count, len(episodes)):
            assert_same_episode(episodes[number], numbered(number), ignore=("times",))
        count = len(episodes)


def append_many(path, rounds, attempts):
    """Append two episodes in each round in which no other writer is in the way; closes in between."""
    for _ in range(rounds):
        store = EpisodeStore(path)
        try:
            store.append([])
            count = len(store)
            store.append([numbered(count), numbered(count + 1)])
            os.write(attempts, b".")
        except StoreError as error:
            if "is writing to it" not in str(error):
                raise
        store.close()


def crowd(path, rounds):
    """Two writers and two readers at once; return how many appends were acknowledged."""
    reading, writing = os.pipe()
    readers = [forked(read_beside, path, 20) for _ in range(2)]
    writers = [forked(append_many, path, rounds, writing) for _ in range(2)]
    assert all(os.waitpid(child, 0)[1] == 0 for child in writers), "a writer failed"
    os.close(writing)
    acknowledged = 0
    while part := os.read(reading, 1 << 16):
        acknowledged += len(part)
    os.close(reading)
    with EpisodeStore(path) as store:
        while len(store) < 20:
            store.append([numbered(len(store))])
    assert all(os.waitpid(child, 0)[1] == 0 for child in readers), "a reader failed"
    assert check(path, 0, 2 * acknowledged) == max(20, 2 * acknowledged)
    return acknowledged


if __name__ == "__main__":
    warnings.simplefilter("ignore", StoreWarning)
    verb, folder, rounds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    done = (
        kills(folder / "store", rounds, random.Random(rounds)) if verb == "kills" else crowd(folder / "store", rounds)
    )
    sys.stdout.write(f"{done}\n")
