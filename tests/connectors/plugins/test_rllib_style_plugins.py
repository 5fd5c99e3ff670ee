"""The kinds of connectors that RLlib's users write run here; only their imports would change.

They need no shipped piece: where a pipeline has to add observations, a piece of this test suite does.
"""

from collections import Counter

import gymnasium as gym
import numpy as np
import pytest

from episodia import Columns, MultiAgentEpisode, SingleAgentEpisode
from episodia.connectors import (
    ConnectorV2,
    EnvToModulePipeline,
    LearnerConnectorPipeline,
    ModuleToAgentUnmapping,
    ModuleToEnvPipeline,
    NormalizeAndClipActions,
    defaults,
)
from episodia.episodes.lists.ragged import Ragged
from tiny_connectors import AddObservations, Call, run, walk

# --- An observation preprocessor that writes back another shape and dtype --------------------------------------------


class OneHotLastObservation(ConnectorV2):
    def recompute_output_observation_space(self, input_observation_space, input_action_space):
        return gym.spaces.Box(0.0, 1.0, (input_observation_space.n,), np.float32)

    def __call__(self, *, rl_module, batch, episodes, explore=None, persistent_data=None, **kwargs):
        for sa_episode in self.single_agent_episode_iterator(episodes):
            observation = sa_episode.get_observations(-1)
            new_observation = np.zeros(self.input_observation_space.n, np.float32)
            new_observation[observation] = 1.0
            sa_episode.set_observations(at_indices=-1, new_data=new_observation)
            sa_episode.observation_space = self.observation_space
        return batch


def counting(length):
    episode = SingleAgentEpisode("counting", observation_space=gym.spaces.Discrete(5))
    episode.add_env_reset(0)
    for t in range(length):
        episode.add_env_step(t + 1, 0, 0.0)
    return episode


def test_a_preprocessor_writes_back_another_shape_and_dtype():
    pipeline = EnvToModulePipeline(gym.spaces.Discrete(5), connectors=[OneHotLastObservation(), AddObservations()])
    episode = counting(0)
    batch = run(pipeline, [episode], explore=True)

    assert batch[Columns.OBS].tolist() == [[1.0, 0.0, 0.0, 0.0, 0.0]]
    assert batch[Columns.OBS].dtype == np.float32
    assert episode.get_observations(-1).tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert pipeline.observation_space == gym.spaces.Box(0.0, 1.0, (5,), np.float32)


# --- Adding a column item by item -----------------------------------------------------------------------------------


class AddTimeStep(ConnectorV2):
    """With arguments of its own, which it passes on, as RLlib's examples do."""

    def __init__(self, input_observation_space=None, input_action_space=None, *, scale=1.0, as_list=False, **kwargs):
        super().__init__(input_observation_space, input_action_space, scale=scale, as_list=as_list, **kwargs)
        self.scale, self.as_list = scale, as_list

    def __call__(self, *, rl_module, batch, episodes, explore=None, shared_data=None, metrics=None, **kwargs):
        for sa_episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            times = [self.scale * (sa_episode.t_started + t) for t in range(len(sa_episode))]
            self.add_n_batch_items(
                batch,
                "time",
                items_to_add=times if self.as_list else np.array(times),
                num_items=len(sa_episode),
                single_agent_episode=sa_episode,
            )
        return batch


@pytest.mark.parametrize("as_list", [True, False])
def test_a_column_is_added_item_by_item(as_list):
    pipeline = LearnerConnectorPipeline(connectors=[AddTimeStep(scale=10.0, as_list=as_list)])
    batch = run(pipeline, [walk("a", 2), walk("b", 1)])

    flat = {
        key: np.concatenate([np.atleast_1d(item) for item in items]).tolist() for key, items in batch["time"].items()
    }
    assert flat == {("a",): [0.0, 10.0], ("b",): [0.0]}


class AddLastAction(ConnectorV2):
    """With the data under its older name, and without spaces."""

    def __call__(self, *, rl_module, data, episodes, explore=None, shared_data=None, **kwargs):
        for sa_episode in self.single_agent_episode_iterator(episodes):
            self.add_batch_item(
                data, "last_action", item_to_add=sa_episode.get_actions(-1), single_agent_episode=sa_episode
            )
        return data


def test_a_plugin_that_calls_the_batch_data_works():
    batch = run(EnvToModulePipeline(connectors=[AddLastAction()]), [walk("a", 2), walk("b", 3)])

    assert batch == {"last_action": {("a",): [1], ("b",): [0]}}


# --- Changing items, also per agent ---------------------------------------------------------------------------------


class Negate(ConnectorV2):
    def __init__(self, *args, agent_ids, **kwargs):
        super().__init__(*args, **kwargs)
        self.agent_ids = agent_ids

    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        self.foreach_batch_item_change_in_place(
            batch=batch,
            column=Columns.OBS,
            func=lambda item, _eps_id, agent_id, _module_id: -item if agent_id in self.agent_ids else item,
        )
        return batch


def game():
    return MultiAgentEpisode(
        "game",
        observations=[{"left": np.ones(1), "right": np.ones(1)}] * 3,
        actions=[{"left": 0, "right": 0}] * 2,
        rewards=[{"left": 1.0, "right": 1.0}] * 2,
        len_lookback_buffer=0,
        agent_to_module_mapping_fn=lambda _agent, _: "shared",
    )


@pytest.mark.parametrize(("kind", "rows"), [(EnvToModulePipeline, [-1, 1]), (LearnerConnectorPipeline, [-1, -1, 1, 1])])
def test_items_of_one_agent_are_changed(kind, rows):
    batch = run(kind(connectors=[AddObservations(), Negate(agent_ids={"left"})]), [game()])

    assert batch[Columns.OBS].ravel().tolist() == rows


def test_the_row_that_values_are_bootstrapped_from_is_changed_too():
    seen = []
    look = Call(lambda batch, _: seen.append(batch[Columns.OBS]))
    run(
        LearnerConnectorPipeline(connectors=[AddObservations(), Negate(agent_ids={None}), look]),
        [walk("a", 2, start=5.0)],
    )

    assert isinstance(seen[0], Ragged)
    assert seen[0].tails()[:, 0].tolist() == [-7.0]


class SwapObservations(ConnectorV2):
    """A multi-agent preprocessor: what an agent sees depends on another agent."""

    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        for ma_episode in episodes:
            observations = ma_episode.get_observations(-1)
            swapped = {"left": observations["right"] * 2, "right": observations["left"] * 3}
            ma_episode.set_observations(new_data=swapped, at_indices=-1)
        return batch


def test_a_multi_agent_preprocessor_sees_all_agents():
    batch = run(EnvToModulePipeline(connectors=[SwapObservations(), AddObservations()]), [game()])

    assert batch[Columns.OBS].ravel().tolist() == [2.0, 3.0]


# --- Intrinsic rewards in the learner pipeline ----------------------------------------------------------------------


class CountBasedCuriosity(ConnectorV2):
    def __init__(self, input_observation_space=None, input_action_space=None, *, coefficient=1.0, **kwargs):
        super().__init__(input_observation_space, input_action_space)
        self._counts = Counter()
        self.coefficient = coefficient

    def __call__(self, *, rl_module, batch, episodes, explore=None, shared_data=None, **kwargs):
        for sa_episode in self.single_agent_episode_iterator(episodes=episodes, agents_that_stepped_only=False):
            observations = sa_episode.get_observations(slice(None, -1))
            for index, (obs, reward) in enumerate(zip(observations, sa_episode.get_rewards(), strict=True)):
                key = tuple(obs)
                self._counts[key] += 1
                sa_episode.set_rewards(new_data=reward + self.coefficient / self._counts[key], at_indices=index)
        return batch


class AddRewards(ConnectorV2):
    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        for sa_episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            self.add_n_batch_items(batch, Columns.REWARDS, list(sa_episode.get_rewards()), len(sa_episode), sa_episode)
        return batch


@pytest.mark.parametrize("finalized", [False, True])
def test_intrinsic_rewards_reach_the_batch_and_not_the_episodes_of_the_caller(finalized):
    episode = walk("a", 2)
    if finalized:
        episode.finalize()
    pipeline = LearnerConnectorPipeline(connectors=[CountBasedCuriosity(), AddRewards()])

    assert run(pipeline, [episode])[Columns.REWARDS] == {("a",): [1.0, 2.0]}
    assert run(pipeline, [episode])[Columns.REWARDS] == {("a",): [0.5, 1.5]}
    assert list(episode.get_rewards()) == [0.0, 1.0]


# --- An action post-processor ---------------------------------------------------------------------------------------


class RepeatLastAction(ConnectorV2):
    """Reads the episode of each action, and writes what the environment gets into a column of its own."""

    def __call__(self, *, rl_module, batch, episodes, explore=None, shared_data=None, **kwargs):
        for sa_episode, action in self.single_agent_episode_iterator(
            episodes, zip_with_batch_column=batch[Columns.ACTIONS]
        ):
            item = sa_episode.get_actions(-1) if action < 0 else action
            self.add_batch_item(batch, Columns.ACTIONS_FOR_ENV, item, sa_episode)
        return batch


@pytest.mark.parametrize(
    "actions",
    [[7, -1], {("a",): [7], ("b",): [-1]}, Ragged(np.array([7, -1]), np.array([0, 1, 2]))],
    ids=["list", "by episode", "stretches"],
)
def test_an_action_post_processor_sees_the_episode_of_each_action(actions):
    batch = run(
        ModuleToEnvPipeline(connectors=[RepeatLastAction()]),
        [walk("a", 2), walk("b", 2)],
        batch={Columns.ACTIONS: actions},
    )

    assert batch[Columns.ACTIONS_FOR_ENV] == {("a",): [7], ("b",): [1]}


class ClipActions(ConnectorV2):
    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        self.foreach_batch_item_change_in_place(batch, Columns.ACTIONS, lambda action, *_: min(action, 3))
        return batch


def test_actions_are_clipped_item_by_item():
    batch = {Columns.ACTIONS: np.array([1, 5])}

    assert run(ModuleToEnvPipeline(connectors=[ClipActions()]), [walk(), walk()], batch=batch)["actions"].tolist() == [
        1,
        3,
    ]


class Stop(ConnectorV2):
    """Lets one agent stand still."""

    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        self.foreach_batch_item_change_in_place(
            batch, Columns.ACTIONS, lambda action, _eps_id, agent_id, _module_id: 0 if agent_id == "left" else action
        )
        return batch


def test_an_action_post_processor_is_told_whose_action_it_is_where_there_are_several_modules():
    shared_data = {}
    episode = MultiAgentEpisode(
        "game",
        observations=[{"left": 1, "right": 2, "up": 3}],
        agent_to_module_mapping_fn=lambda agent, _: "flat" if agent in ("left", "right") else "steep",
    )
    run(defaults.env_to_module(multi_agent=True), [episode], shared_data=shared_data)
    pieces = [Stop(), ModuleToAgentUnmapping()]
    actions = {"flat": {"actions": np.array([7, 8])}, "steep": {"actions": np.array([9])}}
    batch = run(ModuleToEnvPipeline(connectors=pieces), [episode], batch=actions, shared_data=shared_data)

    assert batch[Columns.ACTIONS] == [{"left": 0, "right": 8, "up": 9}]


@pytest.mark.parametrize(
    ("actions", "seen"),
    [
        ({"gear": np.array([1, 2])}, [{"gear": 1}, {"gear": 2}]),
        ((np.array([1, 2]), np.array([3, 4])), [(1, 3), (2, 4)]),
    ],
    ids=["Dict", "Tuple"],
)
def test_nested_actions_are_paired_with_their_episodes_row_by_row(actions, seen):
    pairs = ConnectorV2.single_agent_episode_iterator([walk("a"), walk("b")], zip_with_batch_column=actions)

    assert [(episode.id_, item) for episode, item in pairs] == list(zip("ab", seen, strict=True))


# --- Several columns by modules -------------------------------------------------------------------------------------


class SortByModules(ConnectorV2):
    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        by_module = {column: {} for column in batch}
        for column, items in batch.items():
            for (_, _, module_id), values in items.items():
                by_module[column].setdefault(module_id, []).extend(values)
        return self.switch_batch_from_column_to_module_ids(by_module)


def test_a_plugin_may_sort_the_batch_by_modules():
    pipeline = LearnerConnectorPipeline(connectors=[AddRewards(), SortByModules()])

    assert run(pipeline, [game()]) == {"shared": {"rewards": [1.0] * 4}}


class ActionsForEnv(ConnectorV2):
    """Decides item by item what the environment receives."""

    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        for number, episode in enumerate(self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False)):
            self.add_batch_item(batch, Columns.ACTIONS_FOR_ENV, np.array([number / 2], np.float32), episode)
        return batch


def test_actions_for_the_environment_may_be_written_item_by_item_before_they_are_brought_into_bounds():
    space = gym.spaces.Box(-4.0, 4.0, (1,))
    pipeline = ModuleToEnvPipeline(input_action_space=space, connectors=[ActionsForEnv(), NormalizeAndClipActions()])
    actions = np.zeros((3, 1), np.float32)

    made = pipeline(rl_module=None, batch={Columns.ACTIONS: actions}, episodes=[walk("a"), walk("b"), walk("c")])

    np.testing.assert_array_equal(made[Columns.ACTIONS_FOR_ENV], np.array([[0.0], [2.0], [4.0]], np.float32))
    np.testing.assert_array_equal(made[Columns.ACTIONS], actions)
