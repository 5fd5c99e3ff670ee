"""Things that nobody should pass, to methods that have to say so."""

import numpy as np
from gymnasium import spaces


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
