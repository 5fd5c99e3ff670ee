"""F10: a notebook kernel that is interrupted while a runner samples stays alive, and the next cell works."""

import random
import time
from contextlib import suppress
from queue import Empty

import pytest
from jupyter_client.manager import start_new_kernel

# What a kernel says of itself when it starts is not ours to mend.
pytestmark = pytest.mark.filterwarnings("default")

BEGIN = """
import multiprocessing
from episodia import SingleAgentEnvRunner
from interrupts import Certified, assert_right
runner = SingleAgentEnvRunner(Certified, num_envs=3, seed=0, vectorization={vectorization!r}, max_restarts=10_000)
chunks = []
"""
PLAY = """
print("begun", flush=True)
while True:
    sample = runner.sample(num_timesteps=20)
    chunks.append(sample)
"""
CHECK = """
chunks.append(runner.sample(num_timesteps=20))
print("steps", sum(map(len, chunks[-1])))
"""
END = """
runner.close()
print("left", len(multiprocessing.active_children()))
"""


def text_of(content):
    """Return what a message of a kernel shows: what was printed, or an error."""
    return content.get("text", "") + content.get("evalue", "")


class Kernel:
    """A kernel of its own, and what it prints."""

    def __init__(self, folder):
        self.manager, self.client = start_new_kernel(kernel_name="python3", cwd=str(folder))
        self.num_interrupts = 0

    def run(self, code):
        status, printed = "aborted", []
        # Right after an error, a kernel aborts what it is asked.
        while status == "aborted":
            reply = self.client.execute_interactive(
                code, timeout=60, output_hook=lambda message: printed.append(text_of(message["content"]))
            )
            status = reply["content"]["status"]
        return status, "".join(printed)

    def run_interrupted(self, code, after_s):
        """Interrupt `code` so long after it has printed something, and return the error that ended it."""
        request = self.client.execute(code)
        while "text" not in self.client.get_iopub_msg(timeout=60)["content"]:
            pass
        time.sleep(after_s)
        for _ in range(3):
            self.manager.interrupt_kernel()
            self.num_interrupts += 1
            with suppress(Empty):
                while True:
                    reply = self.client.get_shell_msg(timeout=10)
                    if reply["parent_header"].get("msg_id") == request:
                        return reply["content"].get("ename")
        return None

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.mark.slow
@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_f10_a_kernel_that_is_interrupted_200_times_goes_on_with_the_next_cell(vectorization, request):
    chosen = random.Random(0)
    kernel = Kernel(request.config.rootpath / "tests" / "support")
    try:
        assert kernel.run(BEGIN.format(vectorization=vectorization)) == ("ok", "")
        for _ in range(200):
            assert kernel.run_interrupted(PLAY, 0.05 + 0.2 * chosen.random()) == "KeyboardInterrupt"
            status, printed = kernel.run(CHECK)
            assert status == "ok", printed
            assert int(printed.removeprefix("steps ")) >= 20
        assert kernel.run(END) == ("ok", "left 0\n")
        assert kernel.manager.is_alive()
        # Python ignores an interrupt that comes in a callback of a weak reference or in a destructor; the next one counts.
        assert kernel.num_interrupts < 220
    finally:
        kernel.close()
