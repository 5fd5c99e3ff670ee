"""A memory-mapped buffer may be larger than the memory that its process may use."""

import subprocess
import sys

import pytest

# A process that may take 64 MB more than it has; the buffer has 200 MB of observations.
PROGRAM = """
import resource, sys
import numpy as np
from episodia import SingleAgentEpisode
from episodia.replay import InMemory, MemoryMapped, ReplayBuffer

status = dict(line.split(":", 1) for line in open("/proc/self/status"))
now = int(status["VmData"].split()[0]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (now + 64 * 2**20, resource.RLIM_INFINITY))
storage = MemoryMapped(sys.argv[1]) if len(sys.argv) > 1 else InMemory()
buffer = ReplayBuffer(12_500, storage=storage, seed=0)
for number in range(120):
    observations = np.full((101, 4096), number, np.float32)
    buffer.add([SingleAgentEpisode(observations=observations, actions=np.full(100, number), rewards=np.zeros(100),
                                   truncated=True, len_lookback_buffer=0)])
sampled = buffer.sample(256)
found = sampled.flat("obs").values
assert len(buffer) == 12_000 and (found == sampled.flat("actions").values[:, None]).all()
print("done")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no bound on anonymous memory")
def test_a_buffer_in_files_may_be_larger_than_the_memory_of_its_process(tmp_path):
    mapped, in_memory = (
        subprocess.run([sys.executable, "-c", PROGRAM, *where], capture_output=True, text=True, check=False)
        for where in ([str(tmp_path)], [])
    )

    assert mapped.stdout == "done\n", mapped.stderr
    assert "MemoryError" in in_memory.stderr
