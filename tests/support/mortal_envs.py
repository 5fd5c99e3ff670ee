"""Environments whose processes die or hang at a chosen moment."""

import os
import time
from multiprocessing.connection import Connection

import numpy as np

from scripted_envs import ScriptedEnv

LONGEST = 4
NUM_DEATHS = 2


def die():
    os._exit(1)


def hang():
    time.sleep(3600)


def cut_answers(end):
    """Let the next answer stop in the middle."""
    send = Connection._send

    def half(pipe, message, *args):
        send(pipe, message[: len(message) // 2], *args)
        end()

    Connection._send = half


def die_after_answers():
    send_bytes = Connection._send_bytes

    def whole(pipe, message):
        send_bytes(pipe, message)
        die()

    Connection._send_bytes = whole


class Mortal(ScriptedEnv):
    """One of its lanes dies in the second step of its second episode, in two workers one after another."""

    def __init__(self, folder, place, do, *, size=0):
        super().__init__(LONGEST)
        self._folder, self._place, self._do, self._size = folder, place, do, size
        self._is_chosen = self._is_dying = False

    def _trouble(self, place):
        if self._place != place or not self._is_chosen or self._episode < 1:
            return
        deaths = len(list(self._folder.glob("death*")))
        if deaths < NUM_DEATHS:
            (self._folder / f"death{deaths}").touch()
            self._is_dying = True
            self._do()

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self._is_chosen = self._chosen(seed)
        self._trouble("reset")
        return super().reset(seed=seed, options=options)

    def _chosen(self, seed):
        """Belong to the lane that is chosen: the first that asks, and those that replace it."""
        path = self._folder / "seeds"
        known = path.read_text().split() if path.exists() else []
        if str(seed) in known:
            return True
        if not known or len(list(self._folder.glob("death*"))) > len(known) - 1:
            try:
                descriptor = os.open(self._folder / f"claim{len(known)}", os.O_CREAT | os.O_EXCL)
            except FileExistsError:
                return False
            os.close(descriptor)
            path.write_text(" ".join([*known, str(seed)]))
            return True
        return False

    def step(self, action):
        self._trouble("step")
        *result, _ = super().step(action)
        return *result, {"data": np.zeros(self._size, np.uint8)} if self._is_dying else {}


class SleepsAtTheEnd(ScriptedEnv):
    def close(self):
        hang()


class Silent(ScriptedEnv):
    def reset(self, **_):
        hang()
