"""The trajectory of one agent, whole."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Mapping
from time import perf_counter
from typing import Any, Literal, TypeAlias

import numpy as np
from gymnasium import Space
from numpy import False_ as NUMPY_FALSE
from numpy import ndarray

from episodia.arguments import checked_ids, reject_unknown
from episodia.episodes.columns.indexing import Index, as_count, as_flag, as_int, is_single
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.columns.rewards import REWARD_TYPES, as_reward, check_rewards
from episodia.episodes.columns.storage import NO_INFO
from episodia.episodes.display import episode_plots as plots
from episodia.episodes.display import episode_tables as display
from episodia.episodes.single_agent import logged_arrays
from episodia.episodes.single_agent import single_agent_chunks as chunks
from episodia.episodes.single_agent import single_agent_state as episode_state
from episodia.episodes.single_agent import weights_versions as versions
from episodia.episodes.single_agent.single_agent_columns import (
    adopt_stacked,
    are_finalized,
    as_extras,
    as_infos,
    as_observation,
    cannot_step,
    extra_columns,
    fill_columns,
    names,
    raise_with_place,
    stacked,
    take_back,
)
from episodia.errors import EpisodeError, EpisodeKeyError, EpisodiaError
from episodia.spaces import as_space
from episodia.types import AgentID, Item, ModuleID

# The builtin: inside of the class, `slice` is a method.
Slice: TypeAlias = slice


class SingleAgentEpisode:
    """One agent's trajectory, or a chunk of it: T steps, and T + 1 observations from the first to the last.

    While it grows, getters return lists of items. `finalize` turns the columns into arrays; from then on getters return
    arrays, nested for nested spaces. Arrays that come out are read-only; what goes in is copied.

    Attributes that a subclass adds are carried to chunks and copies, shared and not copied, and pickled. They are not in
    `get_state()`, and `from_state` leaves them to the subclass's constructor.

    >>> episode = SingleAgentEpisode(id_="walk")
    >>> episode.add_env_reset(observation=0)
    >>> episode.add_env_step(observation=1, action=5, reward=0.5)
    >>> episode.add_env_step(observation=2, action=6, reward=1.0, terminated=True)
    >>> episode
    SingleAgentEpisode(len=2, return=1.5, terminated, id_='walk')
    >>> episode.get_observations(), episode.get_actions(-1)
    ([0, 1, 2], 6)
    >>> episode.finalize().get_rewards()
    array([0.5, 1. ])
    """

    id_: str
    agent_id: Any
    module_id: Any
    multi_agent_episode_id: str | None
    env_index: int | None
    agent_index: int
    t: int
    t_started: int
    is_terminated: bool
    is_truncated: bool
    observations: LookbackBuffer
    infos: LookbackBuffer
    actions: LookbackBuffer
    rewards: LookbackBuffer
    extra_model_outputs: dict[str, LookbackBuffer]

    __slots__ = (
        "__weakref__",
        "_action_space",
        "_custom_data",
        "_last_step_time",
        "_observation_space",
        "_start_time",
        "_weights_versions",
        "actions",
        "agent_id",
        "agent_index",
        "env_index",
        "extra_model_outputs",
        "id_",
        "infos",
        "is_terminated",
        "is_truncated",
        "module_id",
        "multi_agent_episode_id",
        "observations",
        "rewards",
        "t",
        "t_started",
    )

    def __init__(
        self,
        id_: str | None = None,
        *,
        observations: Item = None,
        observation_space: Space[Any] | None = None,
        infos: Any = None,
        actions: Item = None,
        action_space: Space[Any] | None = None,
        rewards: Item = None,
        terminated: bool = False,
        truncated: bool = False,
        extra_model_outputs: Mapping[str, Any] | None = None,
        t_started: int | None = None,
        len_lookback_buffer: int | Literal["auto"] = "auto",
        agent_id: AgentID | None = None,
        module_id: ModuleID | None = None,
        multi_agent_episode_id: str | None = None,
        **unknown: object,
    ) -> None:
        """Create an episode, empty or from data.

        Args:
            id_: A name for the episode; a random one by default. Chunks of one episode share it.
            observations: T + 1 observations: a list of items, arrays with time as the first axis, or a `LookbackBuffer`.
                If any column is given as arrays, the episode is finalized.
            observation_space: Checked at each step (structure, shape, dtype) and at `finalize` (bounds); data given here is
                not checked, but float64 observations are cast where the space says float32.
            infos: T + 1 dicts; empty ones by default.
            actions: T actions.
            action_space: As `observation_space`, for actions.
            rewards: T numbers.
            terminated: Whether the episode has ended by the rules of the environment.
            truncated: Whether the episode was stopped from outside.
            extra_model_outputs: Further columns of T items, by name.
            t_started: The time step of the first item after the lookback; 0 by default.
            len_lookback_buffer: How many of the given steps are the past. "auto" means all of them: the episode then has
                length 0 and continues after the given data. Pass 0 for an episode made of the given data.
            agent_id: The agent whose trajectory this is, in a multi-agent episode.
            module_id: The module that acts for the agent.
            multi_agent_episode_id: The multi-agent episode that this one is part of.
            **unknown: Rejected, with the names of the flags.

        Raises:
            EpisodeError: If the columns have different lengths.
        """
        if unknown:
            reject_unknown(SingleAgentEpisode.__init__, unknown, "terminated", "truncated")
        id_, *ids = checked_ids(EpisodeError, "SingleAgentEpisode", (id_, agent_id, module_id, multi_agent_episode_id))
        self._begin(
            uuid.uuid4().hex if id_ is None else id_,
            (ids[0], ids[1], ids[2]),
            (as_space(observation_space, "observation_space"), as_space(action_space, "action_space")),
        )
        self._set_history((), {})
        self.is_terminated = as_flag(terminated)
        self.is_truncated = as_flag(truncated)
        self.t = self.t_started = 0 if t_started is None else as_count("t_started", t_started, f"episode {self.id_!r}")
        fill_columns(
            self,
            {"observations": observations, "actions": actions, "rewards": rewards, "infos": infos},
            as_extras(extra_model_outputs),
            len_lookback_buffer,
        )

    def _begin(
        self,
        id_: str,
        ids: tuple[Any, Any, str | None],
        spaces: tuple[Space[Any] | None, Space[Any] | None],
        place: tuple[int | None, int] = (None, 0),
    ) -> None:
        """Set names (agent, module, multi-agent episode), spaces (observations, actions), and indices (environment, agent)."""
        self.id_ = id_
        self.env_index, self.agent_index = place
        self.agent_id, self.module_id, self.multi_agent_episode_id = ids
        self._observation_space, self._action_space = spaces

    def _set_history(
        self,
        weights_versions: versions.Versions,
        custom_data: dict[Any, Any],
        start_time: float | None = None,
        last_step_time: float | None = None,
    ) -> None:
        """Set the versions of the weights, the user's data, and the times of the reset and the last step."""
        self._weights_versions = weights_versions
        self._custom_data = custom_data
        self._start_time = start_time
        self._last_step_time = last_step_time

    # --- Building it step by step -----------------------------------------------------------------------------------

    def add_env_reset(self, observation: Item, infos: Mapping[str, Any] | None = None) -> None:
        """Store what `env.reset()` returned; the episode must be new.

        Raises:
            EpisodeError: If the episode was reset before, or does not start at time step 0.
            SpaceError: If the observation does not fit the observation space.
        """
        if self.is_reset or self.is_done or self.t or self.t_started:
            raise EpisodeError(
                f"episode {self.id_!r}: found a second reset, expected `add_env_reset` once, on a new episode "
                f"(this one is at t={self.t} and started at t={self.t_started}). Make a new `SingleAgentEpisode` for each "
                "reset; continue this one with `add_env_step`."
            )
        place = "observation of the reset"
        try:
            observation = as_observation(self.observations, observation)
            place = "infos of the reset"
            infos = as_infos(infos)
        except EpisodiaError as error:
            raise_with_place(self, error, place)
        self.observations.push(observation)
        self.infos.push(infos)
        self._start_time = perf_counter()

    def add_env_step(
        self,
        observation: Item,
        action: Item,
        reward: Item,
        infos: Mapping[str, Any] | None = None,
        *,
        terminated: bool | np.bool_ = False,
        truncated: bool | np.bool_ = False,
        extra_model_outputs: Mapping[str, Any] | None = None,
        **unknown: object,
    ) -> None:
        """Store one transition: the action and its reward, and the observation that followed.

        Args:
            observation: The observation after the action.
            action: The action that was taken at the previous observation.
            reward: A number.
            infos: The info dict that came with `observation`.
            terminated: Whether the episode ended by the rules of the environment.
            truncated: Whether the episode was stopped from outside.
            extra_model_outputs: What else the module computed for `action`, by name; the same names in all steps of a chunk.
            **unknown: Rejected, with the names of the flags.

        Raises:
            EpisodeError: If the episode is done or was not reset, or a column is missing. Nothing is stored then.
            SpaceError: If observation or action does not fit its space.
        """
        if unknown:
            reject_unknown(SingleAgentEpisode.add_env_step, unknown, "terminated", "truncated")
        if self.is_terminated or self.is_truncated or (self.t == self.t_started and not self.is_reset):
            raise cannot_step(self)
        column, columns = self.observations, self.extra_model_outputs
        extras: Any = extra_model_outputs
        if (
            (terminated is not False and terminated is not NUMPY_FALSE)
            or (truncated is not False and truncated is not NUMPY_FALSE)
            or column.finalized
            or (columns if extras is None else type(extras) is not dict or len(extras) != len(columns))
        ):
            self._add_with_care(observation, action, reward, infos, extras, (terminated, truncated))
            return
        # Every step of every hand-built episode runs this code, so frequent cases are handled without calls. A step unlike
        # the steps before is removed again, and added with care.
        try:
            push, shape = column.push, column.row_shape
            if (
                type(observation) is ndarray
                and observation.dtype is column.row_dtype
                and (
                    shape is None
                    or (observation.ndim == 1 and len(observation) == column.row_length)
                    or observation.shape == shape
                )
            ):
                push(observation.copy())
            else:
                push(column.admit(observation))
            column = self.actions
            push = column.push
            push(action if type(action) in column.free_types else column.admit(action))
            push = self.rewards.push
            push(reward if type(reward) is float or type(reward) in REWARD_TYPES else as_reward(reward))
            push = self.infos.push
            push(NO_INFO if infos is None or (type(infos) is dict and not infos) else as_infos(infos))
            for key in extras or ():
                value, column = extras[key], columns[key]
                push = column.push
                push(value if type(value) in column.free_types else column.admit(value))
            self.t += 1
        except BaseException as error:  # an interrupt must not leave half a step either
            take_back(self)
            if not isinstance(error, Exception):
                raise
        else:
            self._last_step_time = perf_counter()
            return
        self._add_with_care(observation, action, reward, infos, extras, (False, False))

    def _add_with_care(
        self,
        observation: Any,
        action: Any,
        reward: Any,
        infos: Any,
        extras: Any,
        ends: tuple[Any, Any],
    ) -> None:
        """Store one step of any kind, or reject it and say where it is wrong.

        An array may change its dtype when it takes an item, so all columns admit their items before any of them stores one.
        """
        place = "terminated and truncated"
        try:
            is_terminated, is_truncated = map(as_flag, ends)
            place = "observation"
            steps = [(self.observations, as_observation(self.observations, observation))]
            place = "action"
            steps.append((self.actions, self.actions.admit(action)))
            place = "reward"
            rewards = self.rewards
            steps.append((rewards, reward if type(reward) in rewards.free_types else rewards.admit(as_reward(reward))))
            place = "infos"
            steps.append((self.infos, as_infos(infos)))
            place = "extra_model_outputs"
            extras = as_extras(extras)
            columns = extra_columns(self, extras)
            steps += [(columns[key], columns[key].admit(value)) for key, value in extras.items()]
        except EpisodiaError as error:
            raise_with_place(self, error, place)
        before = self.t
        try:
            for column, item in steps:
                column.push(item)
            self.extra_model_outputs = columns
            self.is_terminated, self.is_truncated = is_terminated, is_truncated
            self.t += 1
        except BaseException:  # an interrupt, or no memory: no half a step is left
            if self.t == before:
                self.is_terminated = self.is_truncated = False
            take_back(self)
            raise
        self._last_step_time = perf_counter()

    # --- Reading and overwriting ------------------------------------------------------------------------------------

    # What an index, a fill and new data mean stands at `LookbackBuffer.get` and `LookbackBuffer.set`; errors add the episode
    # and the column.

    def get_observations(
        self,
        indices: Index = None,
        *,
        neg_index_as_lookback: bool = False,
        fill: Item = None,
        one_hot_discrete: bool = False,
    ) -> Any:
        """Return observations, of which there are `len(self) + 1`; indices are those of `LookbackBuffer.get`.

        >>> episode = SingleAgentEpisode(observations=[7, 8, 9], actions=[0, 1], rewards=[0.0, 1.0], len_lookback_buffer=1)
        >>> episode.get_observations()
        [8, 9]
        >>> episode.get_observations(slice(-2, 1), neg_index_as_lookback=True, fill=0)
        [0, 7, 8]
        """
        try:
            return self.observations.read(indices, neg_index_as_lookback, fill, one_hot_discrete)
        except EpisodiaError as error:
            raise_with_place(self, error, "observations")

    def get_infos(self, indices: Index = None, *, neg_index_as_lookback: bool = False, fill: Item = None) -> Any:
        """Return info dicts, of which there are `len(self) + 1`, always as dicts in lists."""
        try:
            return self.infos.read(indices, neg_index_as_lookback, fill, False)
        except EpisodiaError as error:
            raise_with_place(self, error, "infos")

    def get_actions(
        self,
        indices: Index = None,
        *,
        neg_index_as_lookback: bool = False,
        fill: Item = None,
        one_hot_discrete: bool = False,
    ) -> Any:
        """Return actions; indices are those of `LookbackBuffer.get`."""
        try:
            return self.actions.read(indices, neg_index_as_lookback, fill, one_hot_discrete)
        except EpisodiaError as error:
            raise_with_place(self, error, "actions")

    def get_rewards(self, indices: Index = None, *, neg_index_as_lookback: bool = False, fill: Item = None) -> Any:
        """Return rewards; indices are those of `LookbackBuffer.get`."""
        try:
            return self.rewards.read(indices, neg_index_as_lookback, fill, False)
        except EpisodiaError as error:
            raise_with_place(self, error, "rewards")

    def get_extra_model_outputs(
        self, key: str, indices: Index = None, *, neg_index_as_lookback: bool = False, fill: Item = None
    ) -> Any:
        """Return items of the extra column `key`; indices are those of `LookbackBuffer.get`.

        Raises:
            EpisodeKeyError: If there is no such column.
        """
        column = self._extra(key)
        try:
            return column.read(indices, neg_index_as_lookback, fill, False)
        except EpisodiaError as error:
            raise_with_place(self, error, key)

    def get_return(self) -> float:
        """Return the undiscounted sum of this chunk's rewards."""
        rewards = self.rewards.lend(slice(self.rewards.lookback, self.rewards.len_incl_lookback()))
        if isinstance(rewards, np.ndarray):
            rewards = rewards.tolist()
        # Starts with a float, so that no narrow NumPy number is added to another.
        total = sum(rewards, 0.0)
        # A total of another type comes from NumPy scalars, which add up in their own precision. Python floats give the same
        # sum in both forms of an episode.
        return total if type(total) is float else sum(map(float, rewards), 0.0)

    def set_observations(
        self, *, new_data: Item, at_indices: Index = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Overwrite observations; indices and data are those of `LookbackBuffer.set`."""
        try:
            self.observations.write(new_data, at_indices, neg_index_as_lookback)
        except EpisodiaError as error:
            raise_with_place(self, error, "observations")

    def set_actions(self, *, new_data: Item, at_indices: Index = None, neg_index_as_lookback: bool = False) -> None:
        """Overwrite actions; indices and data are those of `LookbackBuffer.set`."""
        try:
            self.actions.write(new_data, at_indices, neg_index_as_lookback)
        except EpisodiaError as error:
            raise_with_place(self, error, "actions")

    def set_rewards(self, *, new_data: Item, at_indices: Index = None, neg_index_as_lookback: bool = False) -> None:
        """Overwrite rewards, with numbers; indices and data are those of `LookbackBuffer.set`."""
        try:
            several = isinstance(new_data, (list, tuple, np.ndarray, LookbackBuffer)) and not is_single(at_indices)
            given = new_data.data if isinstance(new_data, LookbackBuffer) else new_data
            check_rewards(given if several else [given])
            self.rewards.write(new_data, at_indices, neg_index_as_lookback)
        except EpisodiaError as error:
            raise_with_place(self, error, "rewards")

    def set_extra_model_outputs(
        self, *, key: str, new_data: Item, at_indices: Index = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Overwrite items of the extra column `key`; indices and data are those of `LookbackBuffer.set`.

        Raises:
            EpisodeKeyError: If there is no such column.
        """
        column = self._extra(key)
        try:
            column.write(new_data, at_indices, neg_index_as_lookback)
        except EpisodiaError as error:
            raise_with_place(self, error, key)

    def _extra(self, key: str) -> LookbackBuffer:
        try:
            return self.extra_model_outputs[key]
        except (KeyError, TypeError):
            known = names(self.extra_model_outputs)
            raise EpisodeKeyError(
                f"episode {self.id_!r}: found the extra model output {key!r}, expected one of {known}. "
                "Extra columns are created by `add_env_step(extra_model_outputs=...)`."
            ) from None

    # --- Chunks -----------------------------------------------------------------------------------------------------

    def cut(self, len_lookback_buffer: int = 0) -> SingleAgentEpisode:
        """Return the chunk that continues this episode: no steps yet, the last observation, and some lookback.

        Args:
            len_lookback_buffer: How many of the last steps the new chunk can look back to.

        Raises:
            EpisodeError: If the episode is done.
        """
        return chunks.cut(self, len_lookback_buffer)

    def slice(self, slice_: Slice, *, len_lookback_buffer: int | None = None) -> SingleAgentEpisode:
        """Return the steps that `slice_` picks from `range(len(self))`, and the observation that follows the last.

        With a step k, every k-th step is kept, and the last observation is the one at the next kept place or at the end of
        the slice, whichever comes first. The flags of the end are kept if the slice reaches the end.

        Args:
            slice_: Which steps; bounds are clipped as for a list.
            len_lookback_buffer: How many steps of lookback to keep in front, as far as there are any; by default as many as
                this episode has.
        """
        return chunks.part(self, slice_, len_lookback_buffer)

    def __getitem__(self, slice_: Slice) -> SingleAgentEpisode:
        return chunks.part(self, slice_, None)

    def concat_episode(self, other: SingleAgentEpisode) -> None:
        """Append `other`, the chunk that continues this one; `other` is not changed.

        Where only one of the two has an extra column, the missing part is filled with zeros, and a boolean column
        `<name>_mask` tells which steps are real.

        Raises:
            EpisodeError: If `other` is not the continuation: another id, another time, another observation at the seam.
        """
        chunks.concat(self, other)
        if other._last_step_time is not None:
            self._last_step_time = other._last_step_time

    def __copy__(self) -> SingleAgentEpisode:
        return chunks.fork(self)

    def _derived(
        self,
        *,
        track: chunks.ColumnPart,
        steps: chunks.ColumnPart,
        weights_versions: versions.Versions,
        goes_on: bool = False,
    ) -> SingleAgentEpisode:
        """Return an episode with everything that this one has, and columns that `track` and `steps` make of its columns.

        If it `goes_on`, it begins at the present time step.
        """
        derived = type(self).__new__(type(self))
        added = getattr(self, "__dict__", None)  # by a subclass
        if added:
            derived.__dict__.update(added)
        ids = self.agent_id, self.module_id, self.multi_agent_episode_id
        place = self.env_index, self.agent_index
        derived._begin(self.id_, ids, (self._observation_space, self._action_space), place)
        custom_data = copy.deepcopy(self._custom_data) if self._custom_data else {}
        times = (self._last_step_time, None) if goes_on else (self._start_time, self._last_step_time)
        derived._set_history(weights_versions, custom_data, *times)
        derived.is_terminated, derived.is_truncated = self.is_terminated, self.is_truncated
        derived.t_started, derived.t = self.t if goes_on else self.t_started, self.t
        derived.observations, derived.infos = track(self.observations), track(self.infos)
        derived.actions, derived.rewards = steps(self.actions), steps(self.rewards)
        derived.extra_model_outputs = {key: steps(column) for key, column in self.extra_model_outputs.items()}
        return derived

    # --- Form -------------------------------------------------------------------------------------------------------

    def finalize(self) -> SingleAgentEpisode:
        """Turn all columns into arrays, in place, and return this episode; infos stay dicts.

        Raises:
            EpisodeError: If columns were overwritten by data of other lengths.
            ShapeError: If the items of a column differ in structure or shape.
            SpaceError: If an observation or action lies outside of its space.
        """
        if not are_finalized(self):
            adopt_stacked(self, stacked(self))
        return self

    to_numpy = finalize

    @property
    def is_finalized(self) -> bool:
        """Whether getters return arrays."""
        return are_finalized(self)

    is_numpy = is_finalized

    def to_arrays(self) -> dict[str, Any]:
        """Return this chunk as a plain dictionary of arrays, without lookback; see `from_arrays` for its keys.

        >>> episode = SingleAgentEpisode(observations=[7, 8], actions=[0], rewards=[1.0], len_lookback_buffer=0)
        >>> sorted(episode.to_arrays())
        ['actions', 'obs', 'rewards', 'terminateds', 'truncateds']
        """
        return logged_arrays.to_arrays(self)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], **kwargs: Any) -> SingleAgentEpisode:
        """Return a finalized episode from logged data, which is copied.

        Args:
            arrays: `obs` with T + 1 rows (or T rows together with `new_obs`), `actions` and `rewards` with T rows;
                `terminateds` and `truncateds` with T flags of which only the last may be true; `infos` as T + 1 dicts. All
                but `obs` may be left out if T is 0. Every other key is an extra model output with T rows.
            **kwargs: Ids, spaces and `t_started`, as for the constructor.

        Raises:
            EpisodeError: If lengths do not fit, or a flag is set before the last step.
        """
        return logged_arrays.from_arrays(cls, arrays, **kwargs)

    # --- What it is -------------------------------------------------------------------------------------------------

    # An episode is not a sequence of items. Without this, Python would iterate over it with `__getitem__`.
    __iter__ = __reversed__ = __contains__ = None

    def __len__(self) -> int:
        return self.t - self.t_started

    def env_steps(self) -> int:
        """Return the number of steps in this chunk, without lookback."""
        return len(self)

    agent_steps = env_steps

    @property
    def is_reset(self) -> bool:
        """Whether there is an observation to act on."""
        return len(self.observations) > 0

    @property
    def is_done(self) -> bool:
        """Whether the episode is terminated or truncated."""
        return self.is_terminated or self.is_truncated

    @property
    def observation_space(self) -> Space[Any] | None:
        """The space of one observation, if it is known."""
        return self._observation_space

    @observation_space.setter
    def observation_space(self, space: Space[Any] | None) -> None:
        self._observation_space = self.observations.space = as_space(space, "observation_space")

    @property
    def action_space(self) -> Space[Any] | None:
        """The space of one action, if it is known."""
        return self._action_space

    @action_space.setter
    def action_space(self, space: Space[Any] | None) -> None:
        self._action_space = self.actions.space = as_space(space, "action_space")

    @property
    def custom_data(self) -> dict[Any, Any]:
        """A dictionary for your own use. It travels with the episode: copied by `cut` and `slice`, merged by `concat`."""
        return self._custom_data

    @property
    def weights_version(self) -> int | None:
        """The version of the weights that choose the actions; setting it holds from the current step on."""
        return versions.version_at(self._weights_versions, self.t)

    @weights_version.setter
    def weights_version(self, version: int) -> None:
        self._weights_versions = versions.with_version(self._weights_versions, self.t, version)

    @property
    def weights_versions(self) -> versions.Versions:
        """All known versions of the weights: pairs of a time step and the version in use from that step on."""
        return self._weights_versions

    def weights_version_at(self, t: int) -> int | None:
        """Return the version of the weights that chose the action of time step `t`, None if it is not known."""
        return versions.version_at(self._weights_versions, as_int(t))

    def validate(self) -> None:
        """Check that all columns have the lengths they should, and all their items lie in their spaces; rewards are numbers.

        Raises:
            EpisodeError: Saying which column is wrong, and how.
        """
        stacked(self)

    def get_data_dict(self) -> dict[str, Any]:
        """Return the T transitions of this chunk as columns, with flags, time steps and the episode's id.

        Raises:
            EpisodeError: If an extra model output has the name of one of these columns.
        """
        return logged_arrays.data_dict(self)

    def get_duration_s(self) -> float:
        """Return the seconds from the reset, or the cut, to the last step; 0.0 if it is not known."""
        if self._start_time is None or self._last_step_time is None:
            return 0.0
        return self._last_step_time - self._start_time

    def get_state(self) -> dict[str, Any]:
        """Return the episode as plain data: numbers, strings, lists, dicts and arrays."""
        return episode_state.get_state(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> SingleAgentEpisode:
        """Return the episode that `get_state` described; the arrays in `state` are copied."""
        return episode_state.from_state(cls, state)

    def __reduce__(self) -> tuple[Any, ...]:
        added = getattr(self, "__dict__", None)  # by a subclass
        return episode_state.restore, (type(self), episode_state.compact_state(self)), added or None

    @classmethod
    def _without_subclass(cls, id_: str, **kwargs: Any) -> SingleAgentEpisode:
        """Return an episode without calling the constructor of a subclass, which may take other arguments."""
        episode = cls.__new__(cls)
        SingleAgentEpisode.__init__(episode, id_, **kwargs)
        return episode

    def plot(self, *columns: str, ax: Any = None) -> Any:
        """Draw columns over time, with the lookback shaded and the end marked, and return matplotlib's figure.

        Args:
            *columns: Which ones: `"obs"`, `"actions"`, `"rewards"`, or extra model outputs; by default the first three, as far
                as they are numbers. Images are drawn as a strip of frames.
            ax: Draw into this axes, or into these, one for each panel; by default into a new figure.

        Raises:
            EpisodeKeyError: If there is no such column.
            EpisodeError: If a column that is named has nothing that can be drawn, or `ax` is not as many axes.
            MissingExtraError: If matplotlib is not installed.
        """
        return plots.plot(self, columns, ax)

    def __repr__(self) -> str:
        return display.episode_text(self)

    def _repr_html_(self) -> str:
        return display.episode_html(self)
