"""Networks compute in the dtype of their weights, whatever observations and states come in."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from drives import ACTIONS, OBSERVATIONS, drive
from episodia import Columns
from episodia.env_runners import SingleAgentEnvRunner
from episodia.learners import A2CConfig, Learner, PPOConfig
from episodia.modules import LSTMActorCritic, MLPActorCritic, default_module
from episodia.policies import Policy
from episodia.trees import leaves, map_batch

KINDS = {
    "mlp": lambda *sides: MLPActorCritic(*sides, (4,), generator=seeded()),
    "lstm": lambda *sides: LSTMActorCritic(*sides, (4,), 4, generator=seeded()),
    "default": lambda *sides: default_module(*sides, hidden=(4,), generator=seeded()),
    "shared gru": lambda *sides: default_module(*sides, hidden=(4,), recurrent="gru", shared=True, generator=seeded()),
}
SHOWN = {
    "floats": spaces.Box(-1.0, 1.0, (3,), np.float32),
    "doubles": spaces.Box(-1.0, 1.0, (3,), np.float64),
    "a matrix of bytes": spaces.Box(0, 9, (3, 2), np.uint8),
    "an image": spaces.Box(0, 255, (9, 9, 3), np.uint8),
    "classes": spaces.MultiDiscrete([2, 3]),
    "nested": spaces.Dict(a=spaces.Box(-1.0, 1.0, (2,)), b=spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2)])),
}
every_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


def seeded():
    return torch.Generator().manual_seed(0)


def batch_for(net, seed=3):
    """Return five observations of `net`'s space, as sequences of one step with zeros as states if it has a state."""
    net.observation_space.seed(seed)
    rows = [map_batch(np.asarray, net.observation_space.sample()) for _ in range(5)]
    batch = {"obs": map_batch(lambda *leaves: torch.from_numpy(np.stack(leaves)), *rows)}
    if net.is_stateful():
        batch["obs"] = map_batch(lambda leaf: leaf[:, None], batch["obs"])
        batch["state_in"] = map_batch(lambda leaf: torch.zeros(5, *leaf.shape), net.get_initial_state())
    return batch


def dtypes_of(outputs):
    return {leaf.dtype for _, leaf in leaves(outputs)}


@every_kind
@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_outputs_come_in_the_dtype_of_the_weights(make, shown, dtype):
    net = make(shown, ACTIONS).to(dtype)

    assert dtypes_of(net.forward_train(batch_for(net))) == {dtype}
    assert net.compute_values(batch_for(net)).dtype == dtype


@every_kind
@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
def test_the_default_dtype_is_that_of_new_networks(make, shown):
    plain = make(shown, ACTIONS)
    try:
        torch.set_default_dtype(torch.float64)
        net = make(shown, ACTIONS)
    finally:
        torch.set_default_dtype(torch.float32)

    assert dtypes_of(net.forward_train(batch_for(net))) == {torch.float64}
    assert dtypes_of(plain.forward_train(batch_for(plain))) == {torch.float32}


@every_kind
def test_more_precision_changes_outputs_little_and_not_at_all_once_it_is_gone(make):
    net = make(SHOWN["nested"], ACTIONS)
    batch = batch_for(net)
    before = net.forward_train(batch)[Columns.VF_PREDS]

    precise = net.double().forward_train(batch)[Columns.VF_PREDS]
    after = net.float().forward_train(batch)[Columns.VF_PREDS]

    torch.testing.assert_close(precise, before.double(), atol=1e-6, rtol=1e-5)
    assert torch.equal(after, before)


def test_weights_of_doubles_are_shown_observations_of_doubles_without_rounding():
    net = default_module(SHOWN["doubles"], ACTIONS, generator=seeded()).double()
    close = torch.full((2, 3), 0.5, dtype=torch.float64)
    close[1] += 1e-12

    values = net.compute_values({"obs": close})

    assert values[0] != values[1]


@pytest.mark.parametrize(("dtype", "expected"), [(torch.float64, "float64"), (torch.float16, "float16")], ids=str)
def test_states_begin_in_the_dtype_of_the_weights(dtype, expected):
    for kind in ("lstm", "shared gru"):
        state = KINDS[kind](SHOWN["floats"], ACTIONS).to(dtype).get_initial_state()

        assert {leaf.dtype.name for _, leaf in leaves(state)} == {expected}


@every_kind
@pytest.mark.parametrize("config", [A2CConfig(max_seq_len=4), PPOConfig(max_seq_len=4)], ids=type)
def test_an_update_in_float64_does_what_one_in_float32_does(make, config):
    plain, precise = make(OBSERVATIONS, ACTIONS), make(OBSERVATIONS, ACTIONS).double()
    drives = [drive(length, stateful=plain.is_stateful()) for length in (7, 4)]
    expected, found = (Learner(net, config).update(drives)["default_policy"] for net in (plain, precise))

    assert found == pytest.approx(expected, rel=1e-3, abs=1e-4)
    for mine, other in zip(precise.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, other.double(), rtol=1e-3, atol=1e-4)


@every_kind
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_a_saved_policy_acts_with_the_precision_that_it_had(make, dtype, tmp_path):
    policy = Policy(make(SHOWN["floats"], spaces.Discrete(4)).to(dtype))
    policy.save(tmp_path / "policy")
    loaded = Policy.load(tmp_path / "policy")
    shown = np.random.default_rng(0).normal(size=(6, *SHOWN["floats"].shape)).astype(np.float32)

    assert [loaded(observation) for observation in shown] == [policy(observation) for observation in shown]
    assert {weight.dtype for weight in loaded.get_state()["module"]["state"].values()} == {dtype}


@every_kind
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_a_runner_acts_with_weights_of_any_precision(make, dtype):
    env = gym.make("CartPole-v1")
    net = make(env.observation_space, env.action_space).to(dtype)

    with SingleAgentEnvRunner("CartPole-v1", net, num_envs=2, seed=0) as runner:
        episodes = runner.sample(num_timesteps=20)
    episode = episodes[0]

    assert sum(map(len, episodes)) >= 20
    assert np.isfinite(episode.get_extra_model_outputs(Columns.ACTION_LOGP)).all()
