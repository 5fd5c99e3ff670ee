"""Figures of recorded columns: exact ones of integers, bools and ids, rounded ones of floats, and how they differ.

Another CPU or another build of torch computes floats that differ in their last digits, so floats are compared by some
sums, within a tolerance. A permutation of the rows changes the sum with rising weights.
"""

import hashlib
import json

import numpy as np
import torch

TOLERANCE = 1e-4
SHOWN = 100  # characters


def figures_of(columns):
    """Return the figure of each leaf of nested dicts of columns, by its path; JSON values only."""
    return {path: _figure(leaf) for path, leaf in _leaves("", columns)}


def differences(recorded, found):
    """Return one line for each column that differs, in words."""
    lines = [f"{path}: recorded, but missing now" for path in recorded if path not in found]
    lines += [f"{path}: found now, but not recorded" for path in found if path not in recorded]
    for path in recorded:
        if path in found and not _agree(recorded[path], found[path]):
            lines.append(f"{path}:\n    recorded {recorded[path]}\n    found    {found[path]}")
    return lines


def _leaves(path, value):
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _leaves(f"{path}/{key}" if path else str(key), part)
    else:
        yield path, value


def _figure(leaf):
    if isinstance(leaf, torch.Tensor):
        leaf = leaf.detach().cpu().numpy()
    if not isinstance(leaf, np.ndarray | np.generic | float):
        return _exact(leaf)
    array = np.asarray(leaf)
    told = {"type": f"{array.dtype}{list(array.shape)}"}
    if array.dtype.kind == "f":
        return told | {"sums": _sums(array.astype(np.float64).ravel())}
    return told | {"values": _exact(array.astype(object).ravel().tolist())}


def _sums(values):
    """Return the sum, the sum of sizes, the sum with rising weights, the mean size, the first and the last value."""
    if not len(values):
        return []
    weights, size = np.linspace(0.0, 1.0, len(values)), abs(values).sum()
    sums = values.sum(), size, (weights * values).sum(), size / len(values), values[0], values[-1]
    return [_rounded(value) for value in sums]


def _rounded(value):
    return float(f"{value:.6g}")


def _exact(value):
    """Return `value` if it is short, otherwise how it begins and a hash of the whole."""
    text = json.dumps(value, default=str)
    if not isinstance(value, list) or len(text) <= SHOWN:
        return json.loads(text)
    told = {"count": len(value), "sha256": hashlib.sha256(text.encode()).hexdigest()[:12]}
    return told | {"first": json.loads(json.dumps(value[0], default=str))}


def _agree(recorded, found):
    if not (_has_sums(recorded) and _has_sums(found)):
        return recorded == found
    if recorded["type"] != found["type"]:
        return False
    # Sums of values with different signs are as exact as the values are large.
    _, size, _, mean, *_ = recorded["sums"]
    scales = np.array([size, size, size, mean, mean, mean])
    far = abs(np.subtract(recorded["sums"], found["sums"]))
    return bool((far <= TOLERANCE * np.maximum(np.maximum(scales, np.abs(recorded["sums"])), 1e-6)).all())


def _has_sums(figure):
    return isinstance(figure, dict) and bool(figure.get("sums"))
