"""Public functions that are given junk raise errors of the library, and change nothing in silence."""

from functools import partial

import numpy as np
import pytest
import torch

from episodia import returns
from episodia.connectors import (
    ConnectorV2,
    MeanStdFilter,
    add_column,
    change_column,
    change_observations,
    load_connector,
)
from episodia.connectors.batches.batch_items import as_ragged
from episodia.connectors.batches.episode_iteration import single_agent_episode_iterator
from episodia.env_runners import MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.episodes import MultiAgentEpisode, SingleAgentEpisode
from episodia.episodes.lists.ragged import Ragged
from episodia.errors import (
    BatchError,
    EnvError,
    EnvRunnerError,
    EpisodeError,
    EpisodiaError,
    PieceLookupError,
    ReplayError,
)
from episodia.modules import MLPActorCritic
from episodia.policies import Policy
from episodia.replay import ReplayBuffer
from episodia.training import Setup
from scripted_envs import ScriptedEnv

JUNK = [
    *(None, "x", b"x", -1, 1.5, float("nan"), True, [], [1, [2]], {}, {"a": 1}, set(), object(), len),
    *(np.array(["a"]), np.array([[1, 2]]), np.array(3), torch.zeros(2)),
]

FUNCTIONS = {
    "returns_to_go": (returns.returns_to_go, {"rewards": np.ones(4), "offsets": [0, 2, 4], "discount": 0.9}),
    "standardized": (returns.standardized, {"values": np.ones(4), "epsilon": 1e-4}),
    "discounted_sums": (
        returns.discounted_sums,
        {"values": np.ones(4), "discounts": np.ones(4), "offsets": [0, 2, 4], "bootstrap": 0.0},
    ),
    "n_step_returns": (
        partial(returns.n_step_returns, terminated=[True]),
        {"rewards": np.ones(4), "offsets": [0, 4], "discount": 0.9, "n": 2},
    ),
    "Ragged": (Ragged, {"values": np.ones(4), "offsets": np.array([0, 2, 4])}),
}


@pytest.mark.parametrize(("name", "argument"), [(name, each) for name in FUNCTIONS for each in FUNCTIONS[name][1]])
def test_junk_in_the_place_of_an_argument_is_an_error_of_the_library_or_fits(name, argument):
    function, good = FUNCTIONS[name]
    function(**good)
    rejected = 0
    for junk in JUNK:
        try:
            function(**{**good, argument: junk})
        except EpisodiaError:
            rejected += 1

    assert rejected >= len(JUNK) // 2


def walk():
    return SingleAgentEpisode(
        "walk", observations=[np.zeros(2)] * 4, actions=[0] * 3, rewards=[1.0] * 3, len_lookback_buffer=0
    )


def ragged():
    return Ragged(np.ones(3), np.array([0, 3]))


def unchanged(first, *_):
    return first


def iterated(**arguments):
    return list(single_agent_episode_iterator(**arguments))


# Each makes new arguments, because batches are changed.
HELPERS = {
    "add_column": (
        add_column,
        lambda: {"batch": {}, "column": "c", "episodes": [walk()], "make": lambda rows: rows.flat("obs")},
    ),
    "change_column": (
        change_column,
        lambda: {"batch": {"c": ragged()}, "column": "c", "episodes": [walk()], "change": unchanged},
    ),
    "change_observations": (
        change_observations,
        lambda: {"batch": {}, "episodes": [walk()], "change": unchanged},
    ),
    "as_ragged": (as_ragged, lambda: {"column": {("walk",): [1, 2, 3]}, "rows": [walk()]}),
    "add_batch_item": (
        ConnectorV2.add_batch_item,
        lambda: {"batch": {}, "column": "c", "item_to_add": 3, "single_agent_episode": walk()},
    ),
    "add_n_batch_items": (
        ConnectorV2.add_n_batch_items,
        lambda: {"batch": {}, "column": "c", "items_to_add": [3], "num_items": 1, "single_agent_episode": walk()},
    ),
    "foreach_batch_item_change_in_place": (
        ConnectorV2.foreach_batch_item_change_in_place,
        lambda: {"batch": {"c": {("walk",): [1]}}, "column": "c", "func": unchanged},
    ),
    "switch_batch_from_column_to_module_ids": (
        ConnectorV2.switch_batch_from_column_to_module_ids,
        lambda: {"batch": {"c": {"m": 1}}},
    ),
    "single_agent_episode_iterator": (
        iterated,
        lambda: {
            "episodes": [walk()],
            "agents_that_stepped_only": True,
            "zip_with_batch_column": {("walk",): [1]},
        },
    ),
}
# What a column may look like, but with other things in the place of its items.
NEARLY_COLUMNS = [{("walk",): 3}, {("walk",): np.zeros(3)}, {("walk",): None}, [{}], {"a": {}}, (1, 2)]


@pytest.mark.parametrize(
    ("name", "argument"),
    [(name, each) for name, (_, make) in HELPERS.items() for each in make() if each != "item_to_add"],
)
def test_junk_at_helpers_of_connectors_is_an_error_of_the_library_or_fits(name, argument):
    function, make = HELPERS[name]
    function(**make())
    rejected = 0
    for junk in [*JUNK, *NEARLY_COLUMNS]:
        if junk is len and argument in ("make", "change", "func"):
            continue  # calling it raises its own error
        given = {**make(), argument: junk}
        before = repr(given.get("batch"))
        try:
            function(**given)
        except EpisodiaError:
            rejected += 1
            assert name == "change_observations" or repr(given.get("batch")) == before

    assert rejected >= len(JUNK) // 2


@pytest.mark.parametrize("result", [None, 3, [1, 2, 3], np.ones(3), Ragged(np.ones(3), np.array([0, 1, 3]))])
def test_functions_that_make_columns_must_return_one_stretch_for_each_episode(result):
    batch = {"c": ragged()}
    for function in (
        lambda: add_column(batch, "c", [walk()], lambda _: result),
        lambda: change_column(batch, "c", [walk()], lambda *_: result),
    ):
        with pytest.raises(BatchError, match=r"as the result of `(make|change)`, expected a `Ragged` with one stretch"):
            function()

    assert repr(batch) == repr({"c": ragged()})


def test_multi_agent_episodes_are_rejected_in_the_place_of_single_agent_ones():
    with pytest.raises(BatchError, match="expected a `SingleAgentEpisode` or None"):
        ConnectorV2.add_batch_item({}, "c", 1, MultiAgentEpisode())


UNHASHABLE = ([], {}, set(), np.zeros(2), ("a", []))


@pytest.mark.parametrize("name", ["id_", "agent_id", "module_id", "multi_agent_episode_id"])
def test_ids_that_are_no_keys_are_rejected(name):
    for junk in UNHASHABLE:
        with pytest.raises(EpisodeError, match="as ids"):
            SingleAgentEpisode(**{name: junk})
        with pytest.raises(EpisodeError, match="as ids"):
            SingleAgentEpisode.from_state({**walk().get_state(), name: junk})


def test_a_state_without_an_id_is_rejected():
    with pytest.raises(EpisodeError, match="None as `id_`"):
        SingleAgentEpisode.from_state({**walk().get_state(), "id_": None})


@pytest.mark.parametrize("junk", [10**30, np.ones(2), torch.zeros(2), None, "4"])
def test_junk_at_buffers_is_rejected(junk):
    buffer = ReplayBuffer(64)
    buffer.add([walk()])
    for call in (
        lambda: buffer.sample(junk),
        lambda: buffer.sample(2, lookback=junk),
        *(partial(buffer.set_state, {**buffer.get_state(), name: junk}) for name in ("capacity", "evict", "infos")),
    ):
        with pytest.raises(ReplayError):
            call()


def test_paths_that_no_file_can_have_and_names_that_are_no_texts_are_rejected():
    for path in ("a" * 100_000, "runs/" + "b" * 256, "\0"):
        with pytest.raises(EpisodiaError, match="expected a path"):
            Policy.load(path)
    for name in (*UNHASHABLE, None, 3):
        with pytest.raises(PieceLookupError):
            load_connector(name)


@pytest.mark.parametrize("flag", ["de_mean_to_zero", "de_std_to_one", "update_stats"])
def test_flags_of_the_filter_are_true_or_false(flag):
    for junk in (None, "no", 0, [], np.ones(2)):
        with pytest.raises(EpisodiaError, match=f"`{flag}="):
            MeanStdFilter(**{flag: junk})


@pytest.fixture(scope="module")
def runner():
    env = ScriptedEnv()
    with SingleAgentEnvRunner(ScriptedEnv, MLPActorCritic(env.observation_space, env.action_space)) as runner:
        yield runner


@pytest.mark.parametrize("number", range(len(JUNK)))
def test_junk_as_weights_is_rejected_and_changes_nothing(runner, number):
    before, junk = runner.get_weights(), JUNK[number]
    name = next(iter(before))
    for weights in (junk, {**before, name: junk}, {**before, 1: 2}):
        with pytest.raises(EnvRunnerError):
            runner.set_weights(weights)

    assert all(np.array_equal(value, before[key]) for key, value in runner.get_weights().items())


def test_versions_of_weights_are_whole_numbers(runner):
    for junk in ("x", -1, 1.5, True, [], np.ones(2)):
        with pytest.raises(EnvRunnerError, match="version"):
            runner.set_weights(runner.get_weights(), junk)


def test_keys_of_action_masks_are_texts():
    for junk in (1, 1.5, True, [], object()):
        with pytest.raises(EnvRunnerError, match="action_mask_key"):
            SingleAgentEnvRunner("CartPole-v1", action_mask_key=junk)


class Odd(ScriptedEnv):
    def __init__(self, reward, flag):
        super().__init__()
        self.reward, self.flag = reward, flag

    def step(self, action):
        observation, *_ = super().step(action)
        return observation, self.reward, self.flag, False, {}


@pytest.mark.parametrize(("reward", "flag"), [("1.0", False), (b"1", False), (None, False), (1.0, None), (1.0, "")])
@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_texts_are_no_rewards_and_none_and_empty_texts_no_flags(reward, flag, vectorization):
    if vectorization == "async" and flag != "":
        pytest.skip("the same check runs in a worker; one case shows it")
    with (
        SingleAgentEnvRunner(partial(Odd, reward, flag), seed=0, vectorization=vectorization) as runner,
        pytest.raises(EnvError, match=r"environment 0: found .* as a step"),
    ):
        runner.sample(num_timesteps=3)


SETTINGS = [
    *("vectorization", "batch_mode", "on_env_error", "check_finite", "async_context", "step_timeout_s", "num_envs"),
    *("horizon", "lookback", "max_restarts", "reward_delay", "rollout_fragment_length", "recorder", "episode_class"),
]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(
    "junk", [np.zeros(0), np.array(["a"]), np.array([[1, 2]]), torch.zeros(2), {1, 2}, b"x", -1, 1.5]
)
def test_junk_as_a_setting_of_a_runner_is_an_error_of_the_library(setting, junk):
    with pytest.raises(EpisodiaError, match=setting):
        SingleAgentEnvRunner(ScriptedEnv, seed=0, **{setting: junk})


@pytest.mark.parametrize("kind", [SingleAgentEnvRunner, MultiAgentEnvRunner])
def test_more_environments_than_any_machine_has_are_rejected_at_once(kind):
    with pytest.raises(EnvRunnerError, match="num_envs=10000000"):
        kind(ScriptedEnv, num_envs=10**30, seed=0)


class Unprintable:
    def __repr__(self):
        raise KeyError("no repr")


# Values that have no text, or a very long one.
UNSHOWN = [-(10**5000), Unprintable(), "x" * 10**6, [1] * 10**5]


@pytest.mark.parametrize("junk", UNSHOWN, ids=lambda junk: type(junk).__name__)
def test_an_error_shows_the_beginning_of_long_junk_and_the_type_of_what_has_no_text(junk):
    settings = [partial(SingleAgentEnvRunner, ScriptedEnv, **{name: junk}) for name in (*SETTINGS, "env_to_module")]
    options = ("num_envs", "clip", "gamma", "minibatch_size", "vectorization", "engine", "num_runners", "address")
    trainings = [partial(Setup.of, "ppo", "CartPole-v1", **{name: junk}) for name in options]
    for make in (*settings, *trainings, lambda: Setup.of(junk, "CartPole-v1"), lambda: ReplayBuffer(junk)):
        with pytest.raises(EpisodiaError) as found:
            getattr(make(), "build", None)()

        assert len(str(found.value)) < 1200


@pytest.mark.parametrize("name", ["seed", "device", "num_learners", "num_runners"])
def test_an_integer_without_a_text_is_rejected_where_only_smaller_ones_make_sense(name):
    with pytest.raises(EpisodiaError, match=f"{name}=<int>"):
        Setup.of("ppo", "CartPole-v1", **{name: 10**5000})


@pytest.mark.parametrize("kind", [SingleAgentEnvRunner, MultiAgentEnvRunner])
def test_a_seed_that_torch_does_not_take_is_rejected_by_runners(kind):
    with pytest.raises(EnvRunnerError, match="seed=<int>"):
        kind(ScriptedEnv, seed=10**5000)
