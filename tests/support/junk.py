"""Invalid arguments, and checks that methods reject them with a helpful message."""

import numpy as np
from gymnasium import spaces

from episodia import EpisodiaError
from refusals import same


class Odd:
    def __repr__(self):
        return "Odd()"


JUNK = {
    "None": None,
    "a string": "x",
    "an empty string": "",
    "a fraction": 1.5,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "a negative number": -7,
    "a large number": 10**30,
    "True": True,
    "an object": Odd(),
    "a ragged list": [[1], [1, 2]],
    "a list of None": [None],
    "a mixed list": [1, "a", None],
    "an empty list": [],
    "a tuple": (1, "a"),
    "an empty tuple": (),
    "a set": {1, 2},
    "a dict": {"a": 1},
    "an empty dict": {},
    "lists in a dict": {"a": [[1], [1, 2]]},
    "a class": int,
    "a function": len,
    "bytes": b"x",
    "a slice of words": slice("a", 2),
    "a slice without a step": slice(0, 5, 0),
    "a matrix": np.zeros((2, 3)),
    "an array of words": np.array(["a", "b"]),
    "an array of objects": np.array([Odd(), None], object),
    "an array without axes": np.array(1.5),
    "an imaginary number": 1j,
    "a date": np.datetime64("2020-01-01"),
    "records": np.zeros(2, [("a", int)]),
    "a space": spaces.Discrete(2),
}


def problem_with(call):
    """Return what `call` does wrong, and whether it raised; foreign exceptions are wrong, and messages that do not help."""
    try:
        call()
    except EpisodiaError as error:
        helps = "found" in str(error) and "xpected" in str(error)
        return (None if helps else f"says {error}"), True
    except Exception as error:  # noqa: BLE001 -- any other exception is what is looked for
        return f"raises {error!r}", True
    return None, False


def problems(make, call, take_snapshot):
    """Return what `call(make(), junk)` does wrong, by junk: it may work, or reject and leave the object as it was."""
    found = {}
    target = before = None
    for name, junk in JUNK.items():
        if target is None:
            target = make()
            before = take_snapshot(target)
        problem, raised = problem_with(lambda target=target, junk=junk: call(target, junk))
        if problem is None and raised and not same(take_snapshot(target), before):
            problem = "has changed it"
        if problem or not raised:
            # Only an object that has rejected all junk so far is used again.
            target = None
        if problem:
            found[name] = problem
    return found


def problems_of_making(call):
    """Return what `call(junk)`, which needs no object, does wrong, by junk."""
    found = {name: problem_with(lambda junk=junk: call(junk))[0] for name, junk in JUNK.items()}
    return {name: problem for name, problem in found.items() if problem}


def arrays(value):
    """Return a state with copies of its tensors as arrays, so that `same` can compare it."""
    if isinstance(value, dict):
        return {key: arrays(part) for key, part in value.items()}
    if isinstance(value, list):
        return [arrays(part) for part in value]
    # Known by what they can do: tests of episodes do without torch.
    return value.numpy().copy() if hasattr(value, "detach") else value
