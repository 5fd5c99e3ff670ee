"""Episodes of Minari data sets. The only importer of minari and h5py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import MissingExtraError, ReplayError
from episodia.trees import describe, map_batch


def minari_episodes(dataset: Any, *, episodes: Iterable[int] | None = None) -> Iterator[SingleAgentEpisode]:
    """Yield the episodes of a Minari data set, one after another, so that they need not fit into memory together.

    A data set is read with minari alone: nothing is downloaded, and no environment is made.

    Args:
        dataset: A `minari.MinariDataset`, or the name of one that is on this machine.
        episodes: The numbers of the episodes; by default all of them.

    Raises:
        MissingExtraError: If minari or h5py is not installed.
        ReplayError: If the data set is not on this machine, if its file points to other files, or if an episode is cut.
    """
    found = _loaded(dataset) if isinstance(dataset, str) else dataset
    if not hasattr(found, "iterate_episodes"):
        raise ReplayError(
            f"minari_episodes: found `dataset={describe(dataset)}`, expected a data set of Minari, or its name. Pass one."
        )
    _check_own_file(found)
    numbers = None if episodes is None else [int(number) for number in episodes]
    for data in found.iterate_episodes(numbers):
        yield _episode(data, found)


def _loaded(name: str) -> Any:
    try:
        # An optional dependency.
        import minari  # noqa: PLC0415
    except ImportError as error:
        raise _missing("minari") from error
    try:
        return minari.load_dataset(name)
    except (FileNotFoundError, ValueError) as error:
        raise ReplayError(
            f"minari_episodes: found no data set {name!r} on this machine ({error}). Download it first with "
            f"`minari download {name}`."
        ) from error


def _missing(name: str) -> MissingExtraError:
    return MissingExtraError(
        f"minari_episodes: found that {name} is not installed, expected it, because it reads the data set. Run "
        '`pip install "episodia[minari]"`, which installs minari and h5py.'
    )


def _check_own_file(dataset: Any) -> None:
    """Reject a file that takes its content from other files: it could show any file of this machine as observations."""
    folder = getattr(getattr(dataset, "storage", None), "data_path", None)
    file = None if folder is None else Path(folder) / "main_data.hdf5"
    if file is None or not file.is_file():
        return
    try:
        # An optional dependency, with which minari reads this file.
        import h5py  # noqa: PLC0415
    except ImportError as error:
        raise _missing("h5py") from error

    def check(group: Any, path: str) -> None:
        for name in group:
            link, place = group.get(name, getlink=True), f"{path}/{name}"
            if not isinstance(link, h5py.HardLink):
                raise _foreign(file, place, f"a {type(link).__name__}")
            child = group[name]
            if isinstance(child, h5py.Group):
                check(child, place)
            elif child.external or child.is_virtual:
                raise _foreign(file, place, "content in another file")

    with h5py.File(file, "r") as content:
        check(content, "")


def _foreign(file: Path, place: str, found: str) -> ReplayError:
    return ReplayError(
        f"{file}: found {found} at {place!r}, expected all data in the file itself. Do not use this data set."
    )


def _episode(data: Any, dataset: Any) -> SingleAgentEpisode:
    rewards, ends = np.asarray(data.rewards, np.float64), [np.asarray(data.terminations), np.asarray(data.truncations)]
    where, steps = f"minari_episodes: episode {data.id}", len(rewards)
    wanted = _num_steps(dataset, data.id)
    if wanted not in (None, steps) or any(len(flags) != steps for flags in ends):
        raise ReplayError(
            f"{where}: found {steps} rewards and {list(map(len, ends))} flags, expected {wanted} of each. The episode is cut; "
            "use another format or another copy of the data set."
        )
    if not steps or any(flags[:-1].any() for flags in ends):
        raise ReplayError(
            f"{where}: found an end before the last of {steps} steps, expected one episode. Leave it out."
        )
    return SingleAgentEpisode(
        f"{getattr(dataset, 'id', 'minari')}-{data.id}",
        observations=_batch(data.observations, steps + 1, f"{where}, observations"),
        actions=_batch(data.actions, steps, f"{where}, actions"),
        rewards=rewards,
        infos=_infos(data.infos, steps + 1),
        observation_space=dataset.observation_space,
        action_space=dataset.action_space,
        terminated=bool(ends[0][-1]),
        truncated=bool(ends[1][-1]),
        len_lookback_buffer=0,
    )


def _num_steps(dataset: Any, number: int) -> int | None:
    """Return how many steps the data set says that an episode has; None if it says nothing."""
    storage = getattr(dataset, "storage", None)
    if storage is None:
        return None
    (metadata,) = storage.get_episode_metadata([number])
    return int(metadata["total_steps"])


def _batch(values: Any, count: int, where: str) -> Any:
    """Return a column, whose items are rows of arrays, or the items of a list for spaces such as `Text`."""
    if not isinstance(values, list):
        values = map_batch(np.asarray, values)
    leaf = values
    while isinstance(leaf, (dict, tuple)):
        leaf = next(iter(leaf.values() if isinstance(leaf, dict) else leaf))
    if len(leaf) != count:
        raise ReplayError(
            f"{where}: found {len(leaf)} items ({describe(values)}), expected {count}. The episode is cut."
        )
    return values


def _infos(infos: Any, count: int) -> list[dict[str, Any]] | None:
    """Return the infos of each time step, of dicts of arrays."""
    if not infos:
        return None
    return [map_batch(lambda rows, t=t: rows[t], infos) for t in range(count)]
