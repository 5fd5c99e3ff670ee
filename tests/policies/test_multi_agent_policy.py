"""Policies of several agents: they act as a runner does, and are the same after they were saved."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia.connectors import FlattenObservations, FrameStacking, MeanStdFilter, PrevActionsPrevRewards, View
from episodia.env_runners import MultiAgentEnvRunner
from episodia.errors import CheckpointError, ModuleError, PolicyError
from episodia.modules import MultiModule, RandomModule, Rule, RuleModule, default_module
from episodia.modules.devices import device_of
from episodia.modules.module_registry import register_module
from episodia.policies import MultiAgentPolicy, Policy
from junk import problem_with, problems
from scripted_agents import ACTIONS, KINDS, OBSERVATIONS, ScriptedEnv

AGENTS = ["agent 0", "agent 1", "agent 2"]
CUSTOM = {
    "plain": list,
    "stacked frames": lambda: [
        FrameStacking(num_frames=3, multi_agent=True),
        FlattenObservations(multi_agent=True),
    ],
    "previous rewards": lambda: [
        PrevActionsPrevRewards(n_prev_actions=2, n_prev_rewards=2, multi_agent=True),
        FlattenObservations(multi_agent=True),
    ],
    "a filter": lambda: [MeanStdFilter(multi_agent=True)],
}


def network(custom="plain", recurrent=None, seed=0):
    """Return a network with weights that let observations decide."""
    extra = {"stacked frames": 8, "previous rewards": 2 * 5 + 2}.get(custom, 0)
    space = (
        OBSERVATIONS if not extra and custom != "a filter" else spaces.Box(-np.inf, np.inf, (4 + extra,), np.float32)
    )
    generator = torch.Generator().manual_seed(seed)
    module = default_module(space, ACTIONS, hidden=(8,), recurrent=recurrent, generator=generator)
    for weight in module.parameters():
        weight.data += 0.7 * torch.randn(weight.shape, generator=generator)
    return module


def runner_with(modules, kind="random", custom="plain", **options):
    return MultiAgentEnvRunner(
        lambda: ScriptedEnv(kind=kind, tells_infos=False, tells_episode=False),
        modules,
        num_envs=1,
        seed=3,
        env_to_module=CUSTOM[custom](),
        explore=False,
        **options,
    )


def policy_of(runner, **options):
    return MultiAgentPolicy(
        runner.modules,
        runner.env_to_module,
        runner.module_to_env,
        agent_to_module_mapping_fn=runner.agent_to_module_mapping_fn,
        **options,
    )


def replayed(policy, log):
    """Return what a policy does where the environment of a log does what it did, and what was done there."""
    policy.reset()
    (observations, infos), *steps = log
    found, expected, dones = [], [], []
    for given, (shown, rewards, terminateds, truncateds, next_infos) in steps:
        found.append(policy(observations, infos=infos, dones=dones))
        expected.append(given)
        policy.observe(rewards)
        dones += [agent for agent in (*terminateds, *truncateds) if agent != "__all__"]
        observations, infos = shown, next_infos
    return found, expected


def logs_of(runner, num_episodes=15):
    """Return what happens in the environment of a runner that goes on."""
    before = len(runner.envs[0].log)
    runner.sample(num_episodes=num_episodes)
    return runner.envs[0].log[before:]


def assert_acts_alike(policy, logs):
    for log in logs:
        found, expected = replayed(policy, log)
        assert found == expected
    actions = {int(action) for log in logs for given, _ in log[1:] for action in given.values()}
    assert len(actions) > 1  # else the observations would not have mattered


@register_module("tests.LooksAtTheFirst")
class LooksAtTheFirst(Rule):
    """Acts on what the first agent has seen, also after that one's end."""

    views = {"other": View("obs", agent="agent 0", fill=-1)}  # noqa: RUF012  # never changed

    def act(self, batch):
        return batch["other"].sum(-1) % 5

    def get_config(self):
        return {}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("custom", CUSTOM)
@pytest.mark.parametrize("recurrent", [None, "gru"])
def test_a_policy_acts_as_a_runner_does(kind, custom, recurrent, tmp_path):
    with runner_with(network(custom, recurrent), kind, custom) as runner:
        runner.sample(num_episodes=5)
        policy = policy_of(runner)
        policy.save(tmp_path / "saved")
        logs = logs_of(runner)

    assert_acts_alike(policy, logs)
    assert_acts_alike(MultiAgentPolicy.load(tmp_path / "saved"), logs)


@pytest.mark.parametrize("kind", KINDS)
def test_what_others_have_seen_is_remembered(kind, tmp_path):
    with runner_with(LooksAtTheFirst(OBSERVATIONS, ACTIONS), kind) as runner:
        policy = policy_of(runner)
        policy.save(tmp_path / "saved")
        logs = logs_of(runner, 40)

    assert_acts_alike(policy, logs)
    assert_acts_alike(MultiAgentPolicy.load(tmp_path / "saved"), logs)


# --- Several modules ------------------------------------------------------------------------------------------------


def by_number(agent, episode):  # noqa: ARG001  # the signature of a mapping function
    """Let a module of its own act for the first agent, and another for all others."""
    return "first" if agent == "agent 0" else "others"


def first_number(observations):
    return observations[:, 3] % 5


MODULES = {
    "two networks": lambda: {agent: network(seed=seed) for seed, agent in enumerate(AGENTS)},
    "one for two": lambda: dict(zip(AGENTS, [shared := network(seed=1), network(seed=2), shared], strict=True)),
    "frozen": lambda: MultiModule({agent: network(seed=seed) for seed, agent in enumerate(AGENTS)}, frozen=AGENTS[:1]),
    "a rule with a name": lambda: {
        **dict.fromkeys(AGENTS, network()),
        "agent 1": LooksAtTheFirst(OBSERVATIONS, ACTIONS),
    },
}


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("kind", ["turns", "random"])
def test_each_agent_has_its_own_module_before_and_after_saving(name, kind, tmp_path):
    with runner_with(MODULES[name](), kind) as runner:
        policy = policy_of(runner)
        policy.save(tmp_path / "saved")
        logs = logs_of(runner)

    assert_acts_alike(policy, logs)
    assert_acts_alike(MultiAgentPolicy.load(tmp_path / "saved"), logs)


def test_a_module_with_two_names_stays_one_module(tmp_path):
    shared = RandomModule(OBSERVATIONS, spaces.Discrete(1000), seed=0)
    policy = MultiAgentPolicy(
        {"a": shared, "b": shared, "c": RandomModule(OBSERVATIONS, spaces.Discrete(1000), seed=0)}
    )
    policy.save(tmp_path / "saved")
    loaded = MultiAgentPolicy.load(tmp_path / "saved")

    assert loaded.modules["a"] is loaded.modules["b"]
    assert loaded.modules["a"] is not loaded.modules["c"]
    observations = dict.fromkeys("abc", np.zeros(4, np.int64))
    drawn = [loaded(observations) for _ in range(3)]
    assert drawn == [policy(observations) for _ in range(3)]
    assert drawn[0]["a"] != drawn[0]["b"]


def test_a_rule_without_a_name_is_left_out_and_can_be_passed(tmp_path):
    rule = RuleModule(first_number, OBSERVATIONS, ACTIONS)
    with runner_with({"agent 0": network(), "agent 1": rule, "agent 2": network(seed=1)}) as runner:
        policy_of(runner).save(tmp_path / "saved")
        logs = logs_of(runner)
    alone = MultiAgentPolicy.load(tmp_path / "saved")
    whole = MultiAgentPolicy.load(tmp_path / "saved", modules={"agent 1": rule})

    assert_acts_alike(whole, logs)
    observation = np.zeros(4, np.int64)
    assert set(alone({"agent 0": observation, "agent 2": observation})) == {"agent 0", "agent 2"}
    with pytest.raises(PolicyError, match=r"no module 'agent 1'.*RuleModule.*register_module.*`modules=\{'agent 1'"):
        alone({"agent 1": observation})
    # What was left out once is still known to be after the next time.
    alone.save(tmp_path / "again")
    with pytest.raises(PolicyError, match=r"no module 'agent 1'.*RuleModule"):
        MultiAgentPolicy.load(tmp_path / "again")({"agent 1": observation})


@pytest.mark.parametrize("ids", [["rule", "net"], ["net", "rule"], ["rule"]])
def test_modules_compute_where_the_first_weights_are(ids):
    modules = {"rule": RuleModule(first_number, OBSERVATIONS, ACTIONS), "net": network().to("meta")}

    assert device_of(*map(modules.get, ids)) == torch.device("meta" if "net" in ids else "cpu")


def test_a_module_under_an_id_that_the_policy_does_not_have_is_rejected(tmp_path):
    rule = RuleModule(first_number, OBSERVATIONS, ACTIONS)
    MultiAgentPolicy({"c": network(), "d": rule}).save(tmp_path / "saved")

    with pytest.raises(PolicyError, match=r"found `modules` with the ids \['dd'\], expected some of \['c', 'd'\]"):
        MultiAgentPolicy.load(tmp_path / "saved", modules={"dd": rule, "c": rule})
    loaded = MultiAgentPolicy.load(tmp_path / "saved", modules={"c": rule, "d": rule})
    assert loaded({"c": np.full(4, 3), "d": np.full(4, 2)}) == {"c": 3, "d": 2}


def test_without_any_module_that_has_a_name_nothing_is_saved(tmp_path):
    policy = MultiAgentPolicy({"a": RuleModule(first_number, OBSERVATIONS, ACTIONS)})

    with pytest.raises(ModuleError, match=r"found no module that can be saved.*register_module"):
        policy.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_a_mapping_of_ones_own_has_to_be_passed_again(tmp_path):
    modules = {"first": network(), "others": network(seed=1)}
    with runner_with(modules, agent_to_module_mapping_fn=by_number) as runner:
        policy_of(runner).save(tmp_path / "saved")
        logs = logs_of(runner)

    with pytest.raises(CheckpointError, match=r"`agent_to_module_mapping_fn=`"):
        MultiAgentPolicy.load(tmp_path / "saved")
    assert_acts_alike(MultiAgentPolicy.load(tmp_path / "saved", agent_to_module_mapping_fn=by_number), logs)


def test_who_has_no_module_is_told_so():
    with pytest.raises(PolicyError, match=r"found no module 'c', which acts for 'c', expected one of \['a', 'b'\]"):
        MultiAgentPolicy({"a": network(), "b": network()})({"c": np.zeros(4, np.int64)})


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        (lambda agent, _: {"a": "one"}[agent], "KeyError: 'b'"),
        (lambda agent: agent, "TypeError: .* 1 positional argument"),
        (lambda *_: ["one"], "TypeError: unhashable type: 'list'"),
    ],
    ids=["raises", "takes one argument", "returns a list"],
)
def test_a_mapping_that_fails_is_named(mapping, words):
    policy = MultiAgentPolicy({"one": network()}, agent_to_module_mapping_fn=mapping)

    with pytest.raises(
        PolicyError, match=rf"a failure of `agent_to_module_mapping_fn` for 'b' \({words}.*expected the id"
    ):
        policy({"b": np.zeros(4, np.int64)})


# --- What it remembers, and what it does not ------------------------------------------------------------------------


def test_what_is_drawn_goes_on_after_saving(tmp_path):
    policy = MultiAgentPolicy({"a": network(), "b": network(seed=1)}, explore=True, seed=7)
    observations = {"a": np.zeros(4, np.int64), "b": np.ones(4, np.int64)}
    policy(observations)
    policy.save(tmp_path / "saved")
    loaded = MultiAgentPolicy.load(tmp_path / "saved")

    drawn = [policy(observations) for _ in range(20)]
    assert [loaded(observations) for _ in range(20)] == drawn
    assert len({int(actions["a"]) for actions in drawn}) > 1


def test_a_snapshot_does_not_learn():
    module = network("a filter")
    with runner_with(module, "simultaneous", "a filter") as runner:
        runner.sample(num_episodes=3)
        policy = policy_of(runner)
        before = str(policy.get_state())
        module.actor_head.bias.data += 100.0
        for log in logs_of(runner):
            replayed(policy, log)

    assert str(policy.get_state()) == before


def test_the_past_does_not_pile_up():
    with runner_with(network("stacked frames"), "simultaneous", "stacked frames") as runner:
        policy = policy_of(runner)
    for _ in range(50):
        policy(dict.fromkeys(AGENTS, np.zeros(4, np.int64)))

    single = policy._episode.agent_episodes["agent 0"]
    assert single.observations.len_incl_lookback() <= 5


def test_rewards_are_asked_for_only_where_they_are_looked_at():
    with runner_with(network("previous rewards"), "simultaneous", "previous rewards") as runner:
        policy = policy_of(runner)
    observation = np.zeros(4, np.int64)
    policy({"agent 0": observation, "agent 1": observation})
    policy.observe({"agent 0": 1.0})

    with pytest.raises(PolicyError, match=r"rewards for the last actions of \['agent 1'\].*`observe\(rewards\)`"):
        policy({"agent 0": observation, "agent 1": observation})
    assert set(policy({"agent 0": observation, "agent 2": observation})) == {"agent 0", "agent 2"}


def test_rewards_are_asked_for_in_games_of_turns_too():
    with runner_with(network("previous rewards"), "turns", "previous rewards") as runner:
        policy = policy_of(runner)
    observation = np.zeros(4, np.int64)
    policy({"agent 0": observation})
    policy({"agent 1": observation})

    with pytest.raises(PolicyError, match=r"rewards for the last actions of \['agent 0'\].*`observe\(rewards\)`"):
        policy({"agent 0": observation})
    policy.observe({"agent 0": 1.0})
    assert set(policy({"agent 2": observation})) == {"agent 2"}
    # Once told is enough, however many others have acted since.
    assert set(policy({"agent 0": observation})) == {"agent 0"}


def test_rewards_between_two_calls_add_up():
    def acted(rewards):
        with runner_with(network("previous rewards"), "simultaneous", "previous rewards") as runner:
            policy = policy_of(runner)
        observations = dict.fromkeys(AGENTS, np.zeros(4, np.int64))
        policy(observations)
        for reward in rewards:
            policy.observe(dict.fromkeys(AGENTS, reward))
        policy(observations)
        return policy._episode.agent_episodes["agent 0"].get_rewards(-1)

    assert acted([1.0, 2.5]) == acted([3.5]) == 3.5


def test_no_agent_acts_where_no_agent_observes():
    policy = MultiAgentPolicy({"a": network(), "b": network()})

    assert policy({}) == {}
    assert set(policy({"a": np.zeros(4, np.int64)})) == {"a"}
    assert policy({"a": np.zeros(4, np.int64)}, dones=["a"]) == {}


@pytest.mark.parametrize("first", [{}, {"c": np.zeros(4, np.int64)}, None], ids=["nobody", "another", "no call"])
def test_who_is_done_gets_no_action_from_the_first_call_on(first):
    policy = MultiAgentPolicy({"all": network()})
    observations = dict.fromkeys("ab", np.zeros(4, np.int64))
    if first is not None:
        policy(first)

    assert set(policy(observations, infos={"a": {"x": 1}}, dones=["a"])) == {"b"}
    assert set(policy({"b": observations["b"]}, dones=["a"])) == {"b"}
    assert set(policy({"b": observations["b"], "c": observations["b"]}, dones=["a"])) == {"b", "c"}


def test_an_episode_may_begin_with_done_agents_only():
    policy = MultiAgentPolicy({"all": network()})
    observation = np.zeros(4, np.int64)

    assert policy({"a": observation}, dones=["a"]) == {}
    assert set(policy({"b": observation}, dones=["a"])) == {"b"}


@pytest.mark.parametrize("recurrent", [None, "lstm"])
def test_masks_in_infos_hold_for_one_agent_and_for_several(recurrent):
    space, mask = spaces.Box(-1.0, 1.0, (2,)), np.array([0, 0, 1, 0, 0], np.int8)
    module = default_module(space, ACTIONS, hidden=(4,), recurrent=recurrent)
    observation = np.zeros(2, np.float32)
    several = MultiAgentPolicy({"a": module}, explore=True)
    one = Policy(module, explore=True)

    for _ in range(5):
        infos = {"action_mask": mask}
        assert several({"x": observation, "y": observation}, infos={"x": infos, "y": infos}) == {"x": 2, "y": 2}
        assert one(observation, infos=infos) == one(observation, action_mask=mask) == 2


def test_a_mask_for_some_agents_of_a_module_only_is_rejected():
    policy = MultiAgentPolicy({"all": network()})
    observations = dict.fromkeys("ab", np.zeros(4, np.int64))

    assert problem_with(lambda: policy(observations, infos={"a": {"action_mask": np.ones(5)}})) == (None, True)


# --- Files ----------------------------------------------------------------------------------------------------------


def test_each_kind_of_policy_is_loaded_by_its_own_class(tmp_path):
    MultiAgentPolicy({"a": network()}).save(tmp_path / "several")
    Policy(network()).save(tmp_path / "one")

    with pytest.raises(CheckpointError, match=r"Load it with `MultiAgentPolicy\.load`"):
        Policy.load(tmp_path / "several")
    with pytest.raises(CheckpointError, match=r"Load it with `Policy\.load`"):
        MultiAgentPolicy.load(tmp_path / "one")


@pytest.mark.parametrize("key", ["version", "modules", "ids", "missing", "agent_to_module", "env_to_module", "explore"])
def test_a_state_with_something_else_in_it_is_rejected(key):
    state = MultiAgentPolicy({"a": network()}).get_state()
    # What may be true or false may be anything that counts as such.
    found = problems(lambda: None, lambda _, junk: MultiAgentPolicy.from_state({**state, key: junk}), lambda _: None)

    assert found == {}
