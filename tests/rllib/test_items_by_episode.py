"""Connectors that index columns by the ids of episodes, as RLlib's do, in all three pipelines, for one agent and many."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from episodia import Columns, MultiAgentEnvRunner, SingleAgentEnvRunner, rllib
from episodia.connectors import (
    AddObservationsFromEpisodesToBatch,
    ConnectorV2,
    EnvToModulePipeline,
    LearnerConnectorPipeline,
    ModuleToEnvPipeline,
    NormalizeAndClipActions,
    defaults,
)
from episodia.env_runners import MultiAgentEnv
from episodia.errors import ConnectorError
from episodia.modules import LSTMActorCritic, MLPActorCritic
from tiny_connectors import AddObservations, run, walk

BASES = [ConnectorV2, rllib.ConnectorV2]


def piece_of(base, work):
    """Return a connector with the base class `base` that does `work(batch, episode, key, self)` for each episode."""

    class Piece(base):
        def __call__(self, *, rl_module, batch, episodes, **kwargs):
            for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
                ids = (episode.multi_agent_episode_id, episode.agent_id, episode.module_id)
                work(batch, episode, (episode.id_,) if episode.agent_id is None else ids)
            return batch

    return Piece()


class Countdown(MultiAgentEnv):
    """Two agents, each with a module of its own."""

    possible_agents = agents = ("red", "blue")
    observation_spaces = dict.fromkeys(agents, spaces.Box(0.0, 5.0, (1,)))
    action_spaces = dict.fromkeys(agents, spaces.Discrete(4))

    def reset(self, *, seed=None, options=None):
        self.left = 5
        return self.seen(), {}

    def step(self, actions):
        self.left -= 1
        return self.seen(), dict.fromkeys(actions, 1.0), {"__all__": self.left == 0}, {"__all__": False}, {}

    def seen(self):
        return {agent: np.array([self.left], np.float32) for agent in self.agents}


class BlueLeaves(Countdown):
    """`blue` ends at the second step of five."""

    def step(self, actions):
        observations, rewards, terminateds, truncateds, infos = super().step(actions)
        if self.left == 3:
            terminateds["blue"] = True
        agents = self.agents if self.left >= 3 else ["red"]
        mine = ({agent: part[agent] for agent in agents} for part in (observations, rewards))
        return *mine, terminateds, truncateds, infos


def module(agent="red"):
    return MLPActorCritic(Countdown.observation_spaces[agent], Countdown.action_spaces[agent], hidden=(4,))


# --- From the module to the environment -----------------------------------------------------------------------------


def test_ported_connectors_replace_the_list_of_an_episode_and_the_item_in_it():
    def work(batch, episode, key):
        assert len(batch[Columns.ACTIONS][key]) == 1
        if episode.id_ == "a":
            batch[Columns.ACTIONS][key] = [1]
        else:
            batch[Columns.ACTIONS][key][0] += 1

    actions = np.array([0, 2])
    made = run(
        ModuleToEnvPipeline(connectors=[piece_of(rllib.ConnectorV2, work)]),
        [walk("a"), walk("b")],
        batch={"actions": actions},
    )

    assert type(made[Columns.ACTIONS]) is np.ndarray
    assert made[Columns.ACTIONS].tolist() == [1, 3]
    assert actions.tolist() == [0, 2]


def test_other_connectors_read_and_write_the_row_of_an_episode():
    def work(batch, _episode, key):
        batch[Columns.ACTIONS][key] = batch[Columns.ACTIONS][key] * 2

    batch = {"actions": np.array([[1.0], [2.0]])}
    made = run(ModuleToEnvPipeline(connectors=[piece_of(ConnectorV2, work)]), [walk("a"), walk("b")], batch=batch)

    assert type(made[Columns.ACTIONS]) is np.ndarray
    assert made[Columns.ACTIONS].tolist() == [[2.0], [4.0]]


@pytest.mark.parametrize("base", BASES)
def test_columns_tell_whether_an_episode_has_items_in_them(base):
    seen = {}

    def work(batch, episode, key):
        seen[episode.id_] = [other in batch[Columns.OBS] for other in (key, ("nobody",))]

    run(LearnerConnectorPipeline(connectors=[AddObservationsFromEpisodesToBatch(), piece_of(base, work)]), [walk("a")])
    run(ModuleToEnvPipeline(connectors=[piece_of(base, work)]), [walk("b")], batch={"obs": np.zeros((1, 2))})

    assert seen == {"a": [True, False], "b": [True, False]}


@pytest.mark.parametrize("base", BASES)
def test_columns_of_several_modules_tell_whether_an_agent_has_a_row_in_them(base):
    seen = []

    def work(batch, _episode, key):
        seen.append([other in batch[Columns.ACTIONS] for other in (key, (*key[:2], "nobody"))])

    with MultiAgentEnvRunner(Countdown, module(), module_to_env=[piece_of(base, work)], seed=0) as runner:
        runner.sample(num_timesteps=1)

    assert seen == [[True, False]] * 2


def test_other_connectors_see_arrays_as_before():
    seen = []

    class Look(ConnectorV2):
        def __call__(self, *, batch, **kwargs):
            column = batch["actions"]
            seen.extend(
                [isinstance(column, np.ndarray), type(column[0:1]), type(column.sum()), [type(row) for row in column]]
            )
            return {**batch, "actions": np.clip(column, 0, 1), "more": {"twice": column * 2}}

    made = run(ModuleToEnvPipeline(connectors=[Look()]), [walk("a"), walk("b")], batch={"actions": np.array([1, 2])})

    assert seen == [True, np.ndarray, np.int64, [np.int64, np.int64]]
    assert type(made["actions"]) is np.ndarray
    assert type(made["more"]["twice"]) is np.ndarray


@pytest.mark.parametrize("base", BASES)
def test_the_key_of_another_episode_is_an_error(base):
    def work(batch, _episode, _key):
        batch[Columns.ACTIONS][("c",)]

    with pytest.raises(ConnectorError, match=r"\('c',\)"):
        run(ModuleToEnvPipeline(connectors=[piece_of(base, work)]), [walk("a")], batch={"actions": np.array([1])})


def test_a_row_that_the_array_cannot_hold_is_an_error():
    def work(batch, _episode, key):
        batch[Columns.ACTIONS][key] = 0.5

    with pytest.raises(ConnectorError, match=r"values that int64 can hold"):
        run(
            ModuleToEnvPipeline(connectors=[piece_of(ConnectorV2, work)]), [walk("a")], batch={"actions": np.array([1])}
        )


def test_nested_actions_are_items_too():
    def work(batch, _episode, key):
        batch[Columns.ACTIONS][key][0]["gear"] = 7

    batch = {"actions": {"gear": np.array([1, 2]), "gas": np.array([0.5, 1.0])}}
    made = run(ModuleToEnvPipeline(connectors=[piece_of(rllib.ConnectorV2, work)]), [walk("a"), walk("b")], batch=batch)

    assert {name: leaf.tolist() for name, leaf in made[Columns.ACTIONS].items()} == {"gear": [7, 7], "gas": [0.5, 1.0]}


def test_a_ported_connector_acts_in_a_runner():
    def work(batch, episode, key):
        batch[Columns.ACTIONS][key] = [1]
        rllib.ConnectorV2.add_batch_item(batch, "seen", 0.5, episode)

    env = gym.make("CartPole-v1")
    piece = piece_of(rllib.ConnectorV2, work)
    policy = MLPActorCritic(env.observation_space, env.action_space, hidden=(4,))
    with SingleAgentEnvRunner("CartPole-v1", policy, num_envs=3, module_to_env=[piece], seed=0) as runner:
        episodes = runner.sample(num_timesteps=30)

    assert all(set(episode.get_actions().tolist()) <= {1} for episode in episodes)
    assert all(set(episode.get_extra_model_outputs("seen").tolist()) <= {0.5} for episode in episodes)


@pytest.mark.parametrize("own_modules", [False, True])
def test_a_ported_connector_acts_for_many_agents(own_modules):
    def work(batch, episode, key):
        batch[Columns.ACTIONS][key] = [{"red": 2, "blue": 3}[episode.agent_id]]
        rllib.ConnectorV2.add_batch_item(batch, "seen", 0.5, episode)

    modules = {"red": module(), "blue": module()} if own_modules else module()
    options = {"agent_to_module_mapping_fn": lambda agent, _: agent} if own_modules else {}
    piece = piece_of(rllib.ConnectorV2, work)
    with MultiAgentEnvRunner(Countdown, modules, num_envs=2, module_to_env=[piece], seed=0, **options) as runner:
        games = runner.sample(num_episodes=2)

    for game in games:
        singles = game.agent_episodes
        assert singles["red"].get_actions().tolist() == [2] * 5
        assert singles["blue"].get_actions().tolist() == [3] * 5
        assert singles["red"].get_extra_model_outputs("seen").tolist() == [0.5] * 5


def test_other_connectors_find_the_rows_of_agents_in_the_columns_of_their_modules():
    def work(batch, episode, key):
        batch[episode.module_id][Columns.ACTIONS][key] = {"red": 2, "blue": 3}[episode.agent_id]

    modules = {"red": module(), "blue": module()}
    with MultiAgentEnvRunner(
        Countdown,
        modules,
        module_to_env=[piece_of(ConnectorV2, work)],
        agent_to_module_mapping_fn=lambda agent, _: agent,
        seed=0,
    ) as runner:
        (game,) = runner.sample(num_episodes=1)

    assert game.agent_episodes["blue"].get_actions().tolist() == [3] * 5


def test_other_connectors_find_the_rows_of_agents_in_columns_of_several_modules():
    def work(batch, episode, key):
        batch[Columns.ACTIONS][key] = {"red": 2, "blue": 3}[episode.agent_id] + 0 * batch[Columns.ACTIONS][key]

    modules = {"red": module(), "blue": module()}
    piece = piece_of(ConnectorV2, work)
    with MultiAgentEnvRunner(
        Countdown, modules, module_to_env=[piece], agent_to_module_mapping_fn=lambda agent, _: agent, seed=0
    ) as runner:
        (game,) = runner.sample(num_episodes=1)

    assert game.agent_episodes["red"].get_actions().tolist() == [2] * 5
    assert game.agent_episodes["blue"].get_actions().tolist() == [3] * 5


def test_a_key_without_a_known_module_is_an_error():
    def work(batch, _episode, _key):
        batch[Columns.ACTIONS][("game", "red", "green")]

    modules = {"red": module(), "blue": module()}
    piece = piece_of(ConnectorV2, work)
    with (
        MultiAgentEnvRunner(
            Countdown, modules, module_to_env=[piece], agent_to_module_mapping_fn=lambda agent, _: agent
        ) as runner,
        pytest.raises(ConnectorError, match=r"one of the modules \['red', 'blue'\]"),
    ):
        runner.sample(num_episodes=1)


def test_rows_of_agents_are_written_before_the_mapping_to_modules():
    def work(batch, episode, key):
        batch[Columns.OBS][key] = batch[Columns.OBS][key] + (10.0 if episode.agent_id == "red" else 0.0)

    rl_module, episodes, _ = games()
    pipeline = LearnerConnectorPipeline(connectors=[AddObservationsFromEpisodesToBatch(), piece_of(ConnectorV2, work)])
    plain = LearnerConnectorPipeline(connectors=[AddObservationsFromEpisodesToBatch()])(
        rl_module=rl_module, episodes=episodes
    )[Columns.OBS]
    made = pipeline(rl_module=rl_module, episodes=episodes)[Columns.OBS]

    np.testing.assert_array_equal(made["red"], plain["red"] + 10.0)
    np.testing.assert_array_equal(made["blue"], plain["blue"])


# --- From the environment to the module -----------------------------------------------------------------------------


@pytest.mark.parametrize("base", BASES)
def test_observations_are_changed_by_the_id_of_their_episode(base):
    def work(batch, episode, key):
        batch[Columns.OBS][key] = [batch[Columns.OBS][key][0] + (10.0 if episode.id_ == "b" else 0.0)]

    episodes = [walk("a", 2), walk("b", 3, start=5.0)]
    plain = run(EnvToModulePipeline(connectors=[AddObservations()]), episodes)[Columns.OBS]
    made = run(EnvToModulePipeline(connectors=[AddObservations(), piece_of(base, work)]), episodes)

    np.testing.assert_array_equal(made[Columns.OBS], plain + np.array([[0.0], [10.0]], np.float32))
    assert episodes[0].get_observations(-1).tolist() == plain[0].tolist()


def observed_by_pieces(env, base, kind, own_modules):
    """Return the last observations that a connector finds item by item, `[(agent, item)]`, and those that modules act on."""
    found, acted_on = [], []

    class Shift(base):
        def __call__(self, *, batch, episodes, **kwargs):
            for episode in self.single_agent_episode_iterator(episodes):
                key = (episode.multi_agent_episode_id, episode.agent_id, episode.module_id)
                (item,) = batch[Columns.OBS][key]
                found.append((episode.agent_id, float(item[0])))
                batch[Columns.OBS][key] = [item + {"red": 10.0, "blue": 20.0}[episode.agent_id]]
            return batch

    class Noted(kind):
        def forward_exploration(self, batch):
            acted_on.extend(batch[Columns.OBS].flatten().tolist())
            return super().forward_exploration(batch)

    own = Countdown.observation_spaces["red"], Countdown.action_spaces["red"]
    modules = {name: Noted(*own, hidden=(4,)) for name in (("red", "blue") if own_modules else ("shared",))}
    pipeline = defaults.env_to_module(multi_agent=True, stateful=kind is LSTMActorCritic)
    pipeline.insert_after(AddObservationsFromEpisodesToBatch, Shift())
    mapping = (lambda agent, _: agent) if own_modules else (lambda *_: "shared")
    with MultiAgentEnvRunner(
        env, modules, env_to_module=pipeline, agent_to_module_mapping_fn=mapping, seed=0
    ) as runner:
        (game,) = runner.sample(num_episodes=1)
    return game, found, acted_on


@pytest.mark.parametrize("own_modules", [False, True])
@pytest.mark.parametrize("kind", [MLPActorCritic, LSTMActorCritic])
@pytest.mark.parametrize("base", BASES)
def test_items_of_agents_that_end_are_found_and_reach_no_module(base, kind, own_modules):
    game, found, acted_on = observed_by_pieces(BlueLeaves, base, kind, own_modules)

    assert sorted(found) == [("blue", left) for left in (3, 4, 5)] + [("red", left) for left in range(6)]
    assert sorted(acted_on) == [10.0 + left for left in range(1, 6)] + [20.0 + left for left in (4, 5)]
    assert {agent: len(single) for agent, single in game.agent_episodes.items()} == {"red": 5, "blue": 2}


@pytest.mark.parametrize("own_modules", [False, True])
@pytest.mark.parametrize("base", BASES)
def test_items_of_all_agents_are_found_when_their_episode_ends(base, own_modules):
    _, found, acted_on = observed_by_pieces(Countdown, base, MLPActorCritic, own_modules)

    assert sorted(found) == [(agent, left) for agent in ("blue", "red") for left in range(6)]
    assert sorted(acted_on) == [start + left for start in (10.0, 20.0) for left in range(1, 6)]


# --- Learner --------------------------------------------------------------------------------------------------------


def test_all_observations_of_an_episode_are_its_items_and_the_last_one_too():
    seen = {}

    def work(batch, _episode, key):
        seen[key] = len(batch[Columns.OBS][key])

    run(
        LearnerConnectorPipeline(connectors=[AddObservations(), piece_of(rllib.ConnectorV2, work)]),
        [walk("a", 2), walk("b", 4)],
    )

    assert seen == {("a",): 3, ("b",): 5}


def test_other_connectors_write_the_steps_of_an_episode():
    def work(batch, episode, key):
        batch[Columns.OBS][key] = batch[Columns.OBS][key] * (2 if episode.id_ == "b" else 1)

    episodes = [walk("a", 2, start=1.0), walk("b", 3, start=1.0)]
    plain = run(LearnerConnectorPipeline(connectors=[AddObservations()]), episodes)[Columns.OBS]
    made = run(LearnerConnectorPipeline(connectors=[AddObservations(), piece_of(ConnectorV2, work)]), episodes)

    np.testing.assert_array_equal(made[Columns.OBS], np.concatenate([plain[:2], 2 * plain[2:]]))


class Same(rllib.ConnectorV2):
    """Does nothing."""

    def __call__(self, *, batch, **kwargs):
        return batch


class SamePlain(ConnectorV2):
    """Does nothing."""

    def __call__(self, *, batch, **kwargs):
        return batch


def games():
    modules = {"red": module(), "blue": module()}
    with MultiAgentEnvRunner(Countdown, modules, seed=0, agent_to_module_mapping_fn=lambda agent, _: agent) as runner:
        return modules, runner.sample(num_episodes=2), (None, None)


def walks(kind):
    env = gym.make("CartPole-v1")
    own = env.observation_space, env.action_space
    with SingleAgentEnvRunner("CartPole-v1", kind(*own, hidden=(4,)), seed=0, num_envs=2) as runner:
        return runner.module, runner.sample(num_timesteps=40), own


@pytest.mark.parametrize("same", [Same, SamePlain])
@pytest.mark.parametrize("case", ["one agent", "recurrent", "many agents"])
def test_a_piece_that_does_nothing_changes_nothing_wherever_it_is(same, case):
    makers = {
        "one agent": lambda: walks(MLPActorCritic),
        "recurrent": lambda: walks(LSTMActorCritic),
        "many agents": games,
    }
    rl_module, episodes, own = makers[case]()
    stateful = case == "recurrent"
    expected = defaults.learner(*own, stateful=stateful)(rl_module=rl_module, episodes=episodes)

    for position in range(len(defaults.learner(*own, stateful=stateful)) - 1):
        pipeline = defaults.learner(*own, stateful=stateful)
        pipeline.insert_after(position, same())
        made = pipeline(rl_module=rl_module, episodes=episodes)
        assert made.keys() == expected.keys()
        for module_id, columns in expected.items():
            assert made[module_id].keys() == columns.keys()
            for name, column in columns.items():
                np.testing.assert_equal(*map(rllib.convert_to_numpy, (made[module_id][name], column)))


class AddMirrored(rllib.ConnectorV2):
    """Adds rows of a mirrored copy of each episode to all columns that are there."""

    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        for episode in list(self.single_agent_episode_iterator(episodes)):
            copy = walk(f"mirrored {episode.id_}", len(episode))
            columns = {
                Columns.OBS: [-obs for obs in episode.get_observations(slice(0, len(episode)))],
                Columns.ACTIONS: copy.get_actions(),
                Columns.REWARDS: copy.get_rewards(),
                Columns.TERMINATEDS: [False] * len(episode),
                Columns.TRUNCATEDS: [False] * len(episode),
            }
            for column, items in columns.items():
                self.add_n_batch_items(batch, column, list(items), len(episode), copy)
        return batch


def test_mirrored_rows_are_added_to_columns_that_are_there():
    pipeline = defaults.learner()
    pipeline.insert_after("AddColumnsFromEpisodesToTrainBatch", AddMirrored())

    made = run(pipeline, [walk("a", 2), walk("b", 1)])[rllib.DEFAULT_POLICY_ID]

    assert made[Columns.OBS][:, 0].tolist() == [0, 1, 0, 0, -1, 0]
    assert [len(column) for column in made.values()] == [6] * 5


@pytest.mark.parametrize("base", BASES)
def test_actions_that_change_behind_those_for_the_environment_are_an_error(base):
    def change(batch, _, key):
        batch[Columns.ACTIONS][key] = [[0.5]] if base is rllib.ConnectorV2 else [0.5]

    space = spaces.Box(-1.0, 1.0, (1,))
    pipeline = ModuleToEnvPipeline(
        input_action_space=space, connectors=[NormalizeAndClipActions(), piece_of(base, change)]
    )

    with pytest.raises(ConnectorError, match="before the one that writes `actions_for_env`"):
        pipeline(batch={Columns.ACTIONS: np.zeros((1, 1), np.float32)}, episodes=[walk("a", 1)])


@pytest.mark.parametrize("base", BASES)
def test_the_environment_gets_actions_that_are_changed_before(base):
    def change(batch, _, key):
        batch[Columns.ACTIONS][key] = [[0.5]] if base is rllib.ConnectorV2 else [0.5]

    space = spaces.Box(-2.0, 2.0, (1,))
    pipeline = ModuleToEnvPipeline(
        input_action_space=space, connectors=[piece_of(base, change), NormalizeAndClipActions()]
    )

    made = pipeline(batch={Columns.ACTIONS: np.zeros((1, 1), np.float32)}, episodes=[walk("a", 1)])

    assert made[Columns.ACTIONS_FOR_ENV].tolist() == [[1.0]]
