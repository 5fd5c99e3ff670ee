"""What a view shows, by plain Python: lists, and an index that is inside or not."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from episodia.connectors import View
from episodia.testing import spaces as drawn_spaces
from episodia.testing import trajectories
from piece_calls import VECTOR_KINDS

# Sources that are known when a module acts, up to the observation that it acts on.
AT_OBSERVATIONS = ("obs", "infos", "t", "eps_id", "agent_id", "module_id", "agent_index")


def zero_item(item):
    """Return an item of zeros, nested like `item`."""
    if isinstance(item, dict):
        return {key: zero_item(value) for key, value in item.items()}
    if isinstance(item, tuple):
        return tuple(map(zero_item, item))
    return np.zeros_like(item)[()]


def source_items(trajectory, source):
    """Return the items of a column of a trajectory that begins with its episode."""
    steps = len(trajectory.rewards)
    lists = {
        "obs": trajectory.observations,
        "actions": trajectory.actions,
        "rewards": list(map(float, trajectory.rewards)),
        "infos": [{}] * (steps + 1) if trajectory.infos is None else trajectory.infos,
        "t": list(range(steps + 1)),
        "terminateds": [trajectory.terminated and t == steps - 1 for t in range(steps)],
        "truncateds": [trajectory.truncated and t == steps - 1 for t in range(steps)],
        "eps_id": [trajectory.multi_agent_episode_id or trajectory.id_] * (steps + 1),
        "agent_id": [trajectory.agent_id] * (steps + 1),
        "module_id": [trajectory.module_id or "default_policy"] * (steps + 1),
        "agent_index": [0] * (steps + 1),
        "weights_version": [version_at(trajectory, t) for t in range(steps)],
        **trajectory.extra_model_outputs,
    }
    return lists[source]


def version_at(trajectory, t):
    """Return the version of the weights at step `t`, -1 if it is not known."""
    begun = [start for start in trajectory.weights_versions if start <= t]
    return trajectory.weights_versions[max(begun)] if begun else -1


def row(items, t, shift, fill):
    """Return what a view shows at step `t`."""
    if not isinstance(shift, int):
        return [row(items, t, one, fill) for one in shift]
    return items[t + shift] if 0 <= t + shift < len(items) else fill


def from_birth_with_everything(max_length=5):
    """Draw trajectories without lookback that have infos, ids and extra outputs."""
    return (
        st.tuples(drawn_spaces(kinds=VECTOR_KINDS, max_leaves=3), drawn_spaces(kinds=VECTOR_KINDS, max_leaves=2))
        .flatmap(
            lambda both: trajectories(
                observation_space=both[0],
                action_space=both[1],
                lengths=st.integers(0, max_length),
                lookbacks=st.just(0),
                fields=("ids", "infos", "extra_model_outputs", "weights_versions"),
            )
        )
        .map(lambda trajectory: replace(trajectory, t_started=0))
    )


def shifts(low=-4, high=4):
    """Draw a shift, or several."""
    return st.integers(low, high) | st.lists(st.integers(low, high), min_size=1, max_size=3)


def causal_views(sources):
    """Draw a few views that can be seen at the moment of acting."""
    one = st.sampled_from(sources).flatmap(
        lambda source: st.builds(View, st.just(source), shift=shifts(-4, 0 if source in AT_OBSERVATIONS else -1))
    )
    return st.dictionaries(st.sampled_from("abcde"), one, min_size=1)
