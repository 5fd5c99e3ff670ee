"""A store may be larger than memory: its rows are in files, of which the system keeps what fits."""

import subprocess
import sys

import pytest

# A process that may take 64 MB more than it has; the store has 200 MB.
PROGRAM = """
import resource, sys
import numpy as np
from pathlib import Path
from episodia import SingleAgentEpisode
from episodia.episodes import EpisodeStore

EPISODES, STEPS = 100, 50
path = Path(sys.argv[1])

def walk(number):
    frames = np.full((STEPS + 1, 200, 200), number, np.uint8)  # 2 MB
    return SingleAgentEpisode(f"walk-{number}", observations=frames, actions=np.full(STEPS, number), rewards=np.zeros(STEPS),
                              terminated=True, len_lookback_buffer=0).finalize()

used = int(next(line for line in open("/proc/self/status") if line.startswith("VmData")).split()[1]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (used + 64 * 2**20, resource.RLIM_INFINITY))
with EpisodeStore(path) as store:
    for number in range(EPISODES):
        store.append([walk(number)])
stored = EpisodeStore(path).episodes()
for start in range(0, EPISODES, 10):
    for number, episode in enumerate(stored[start : start + 10], start=start):
        assert (episode.get_observations() == number).all()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no bound on anonymous memory")
def test_a_store_of_200_mb_is_written_and_read_in_little_memory(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "store")], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr[-2000:]
