"""Networks made of spaces: shapes, gradients and seeds for every space, and nothing computed that was not asked for."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from action_spaces import ACTION_SPACES
from episodia import Columns, SingleAgentEpisode
from episodia.connectors import FrameStacking, GeneralAdvantageEstimation, defaults
from episodia.errors import ModuleError
from episodia.modules import DefaultActorCritic, DistributionModule, ValueModule, default_module
from episodia.modules.networks.encoders import ImageEncoder, encoder_for
from episodia.testing import SPACES
from episodia.trees import map_batch

BOX, TWO = spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Discrete(2)
LOGITS, VALUES, STATE_OUT = Columns.ACTION_DIST_INPUTS, Columns.VF_PREDS, Columns.STATE_OUT

IMAGES = {
    "large image, channels last": spaces.Box(0, 255, (40, 44, 3), np.uint8),
    "large image, channels first": spaces.Box(0, 255, (3, 40, 44), np.uint8),
    "small image": spaces.Box(0, 255, (10, 8, 1), np.uint8),
    "image without channels": spaces.Box(0, 255, (12, 12), np.uint8),
    "image of floats": spaces.Box(-10.0, 10.0, (12, 9, 2), np.float32),
}
# Text, sequences and graphs have no fixed size; an observation without elements says nothing.
UNFIT = ("text", "sequence", "graph", "one of", "box without elements")
FIT = {name: space for name, space in SPACES.items() if not any(word in name for word in UNFIT)} | IMAGES
UNFIT_SPACES = {name: space for name, space in SPACES.items() if name not in FIT}
ACTABLE = {name: space for name, space in ACTION_SPACES.items() if name != "box without elements"}
KINDS = [{"recurrent": recurrent, "shared": shared} for recurrent in (None, "lstm", "gru") for shared in (False, True)]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def module(observation_space=BOX, action_space=spaces.Discrete(4), seed=0, **options):  # noqa: B008  # never changed
    return default_module(observation_space, action_space, hidden=(6,), generator=seeded(seed), **options)


def observations_of(space, *lead, seed=0):
    """Return a batch of random observations with the leading axes `lead`, as tensors."""
    space.seed(seed)
    items = [space.sample() for _ in range(int(np.prod(lead)))]
    stacked = map_batch(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *items)
    return map_batch(lambda leaf: torch.from_numpy(leaf.reshape(*lead, *leaf.shape[1:])), stacked)


def batch_for(net, *lead, seed=0):
    """Return a batch that `net` can work with: of sequences if it has a state, which is random."""
    lead = (*lead, 3) if net.is_stateful() else lead
    batch = {Columns.OBS: observations_of(net.observation_space, *lead, seed=seed)}
    if net.is_stateful():
        batch[Columns.STATE_IN] = map_batch(
            lambda leaf: torch.randn(lead[0], *leaf.shape, generator=seeded(7)), net.get_initial_state()
        )
    return batch


def vector(net):
    return torch.nn.utils.parameters_to_vector(net.parameters())


def kind_name(options):
    return f"{options['recurrent']}-{'shared' if options['shared'] else 'separate'}"


@pytest.mark.parametrize("options", KINDS, ids=kind_name)
@pytest.mark.parametrize("name", FIT)
def test_every_space_of_observations_has_its_network(name, options):
    net = module(FIT[name], **options)
    batch = batch_for(net, 5)
    lead = (5, 3) if net.is_stateful() else (5,)
    outputs = net.forward_train(batch)

    (outputs[LOGITS].square().sum() + outputs[VALUES].square().sum()).backward()

    assert outputs[LOGITS].shape == (*lead, 4)
    assert outputs[VALUES].shape == lead
    assert all(weight.grad is not None and bool(torch.isfinite(weight.grad).all()) for weight in net.parameters())
    assert bool(net.actor_head.weight.grad.abs().sum() > 0)
    assert torch.equal(vector(net), vector(module(FIT[name], **options)))
    assert not torch.equal(vector(net), vector(module(FIT[name], seed=1, **options)))


@pytest.mark.parametrize("name", UNFIT_SPACES)
def test_observations_of_no_size_are_rejected(name):
    with pytest.raises(ModuleError, match="observation_space"):
        module(UNFIT_SPACES[name])


@pytest.mark.parametrize("name", ACTABLE)
def test_every_space_of_actions_has_its_head(name):
    net = module(action_space=ACTABLE[name])
    outputs = net.forward_exploration(batch_for(net, 6))[LOGITS]
    distribution = net.get_exploration_action_dist_cls().from_logits(outputs)

    logp = distribution.logp(distribution.sample(seeded()))

    assert logp.shape == (6,)
    assert bool(torch.isfinite(logp).all())


def test_squashed_actions_are_drawn_between_minus_one_and_one():
    net = module(action_space=spaces.Box(-9.0, 9.0, (2,)), squashed=True)

    actions = net.get_train_action_dist_cls().from_logits(torch.full((50, 4), 3.0)).sample(seeded())

    assert bool((actions.abs() < 1.0).all())


# --- Only what is asked for -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", KINDS, ids=kind_name)
def test_acting_and_valuing_agree_with_training(options):
    net = module(**options)
    batch = batch_for(net, 5)
    whole = net.forward_train(batch)

    assert isinstance(net, DistributionModule)
    assert isinstance(net, ValueModule)
    assert torch.equal(net.forward_inference(batch)[LOGITS], whole[LOGITS])
    assert torch.equal(net.forward_exploration(batch)[LOGITS], whole[LOGITS])
    torch.testing.assert_close(net.compute_values(batch), whole[VALUES])
    assert torch.equal(net.compute_values({}, whole[Columns.EMBEDDINGS]), whole[VALUES])
    assert list(net(batch, actor=False, critic=False)) == ([STATE_OUT] if net.is_stateful() else [])


def called(net, act):
    """Return the names of the parts of `net` that computed something while `act` ran."""
    names, handles = [], []
    for name, part in net.named_modules():
        if not list(part.children()):
            handles.append(part.register_forward_hook(lambda *_, name=name: names.append(name.split(".")[0])))
    act()
    for handle in handles:
        handle.remove()
    return set(names)


@pytest.mark.parametrize(
    ("options", "acting", "valuing"),
    [
        ({}, {"actor", "actor_head"}, {"critic", "critic_head"}),
        ({"shared": True}, {"trunk", "actor_head"}, {"trunk", "critic_head"}),
        ({"recurrent": "gru"}, {"actor", "critic", "actor_head"}, {"critic", "critic_head"}),
        ({"recurrent": "lstm", "shared": True}, {"trunk", "actor_head"}, {"trunk", "critic_head"}),
    ],
    ids=["separate", "shared", "gru", "shared lstm"],
)
def test_acting_computes_no_values_and_valuing_no_actor(options, acting, valuing):
    net = module(**options)
    batch = batch_for(net, 5)

    assert called(net, lambda: net.forward_inference(batch)) == acting
    assert called(net, lambda: net.forward_exploration(batch)) == acting
    assert called(net, lambda: net.compute_values(batch)) == valuing


def test_a_separate_critic_is_reached_by_its_own_loss_only():
    net = module()
    net.forward_train(batch_for(net, 5))[VALUES].sum().backward()

    reached = {name.split(".")[0] for name, weight in net.named_parameters() if weight.grad is not None}
    assert reached == {"critic", "critic_head"}


def test_a_shared_trunk_is_reached_by_both_losses():
    for column in (LOGITS, VALUES):
        net = module(shared=True)
        net.forward_train(batch_for(net, 5))[column].sum().backward()

        assert net.trunk.tower[0].weight.grad is not None


# --- Memories -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("recurrent", ["lstm", "gru"])
def test_stepping_one_by_one_equals_one_padded_pass(recurrent, shared):
    net = module(recurrent=recurrent, shared=shared)
    batch = batch_for(net, 2)
    lengths = [3, 2]
    with torch.no_grad():
        whole = net.forward_train({**batch, Columns.SEQ_LENS: torch.tensor(lengths)})
        for row, length in enumerate(lengths):
            state = map_batch(lambda leaf, row=row: leaf[row : row + 1], batch[Columns.STATE_IN])
            for t in range(length):
                step = {Columns.OBS: batch[Columns.OBS][row : row + 1, t : t + 1], Columns.STATE_IN: state}
                outputs = net.forward_train(step)
                state = outputs[STATE_OUT]
                torch.testing.assert_close(outputs[LOGITS][0, 0], whole[LOGITS][row, t])
                torch.testing.assert_close(outputs[VALUES][0, 0], whole[VALUES][row, t])
            torch.testing.assert_close(state, map_batch(lambda leaf, row=row: leaf[row : row + 1], whole[STATE_OUT]))


def test_acting_without_exploring_keeps_the_state_of_the_critic_up_to_date():
    net = module(recurrent="lstm")
    batch = batch_for(net, 2)

    torch.testing.assert_close(net.forward_inference(batch)[STATE_OUT], net.forward_train(batch)[STATE_OUT])


@pytest.mark.parametrize("shared", [False, True])
def test_a_memory_goes_through_the_default_pipelines(shared):
    env = gym.make("CartPole-v1")
    net = default_module(env.observation_space, env.action_space, hidden=(6,), recurrent="gru", shared=shared)
    sides = env.observation_space, env.action_space
    to_module, to_env = (make(*sides, stateful=True) for make in (defaults.env_to_module, defaults.module_to_env))
    episode = SingleAgentEpisode("pole")
    episode.add_env_reset(env.reset(seed=0)[0])
    for _ in range(5):
        shared_data = {}
        with torch.no_grad():
            outputs = net.forward_exploration(to_module(rl_module=net, episodes=[episode], shared_data=shared_data))
        made = to_env(rl_module=net, batch=outputs, episodes=[episode], explore=True, shared_data=shared_data)
        extras = {
            Columns.ACTION_LOGP: made[Columns.ACTION_LOGP][0],
            STATE_OUT: map_batch(lambda leaf: leaf[0], made[STATE_OUT]),
        }
        action = made[Columns.ACTIONS][0]
        episode.add_env_step(env.step(action)[0], action, 1.0, extra_model_outputs=extras)
    pipeline = defaults.learner(
        *sides, targets=[GeneralAdvantageEstimation(max_seq_len=2)], stateful=True, max_seq_len=2
    )
    batch = pipeline(rl_module=net, episodes=[episode.finalize()])["default_policy"]

    distribution = net.get_train_action_dist_cls().from_logits(net.forward_train(batch)[LOGITS])
    ratio = (distribution.logp(batch[Columns.ACTIONS]) - batch[Columns.ACTION_LOGP])[batch[Columns.LOSS_MASK]]

    torch.testing.assert_close(ratio, torch.zeros(5), atol=2e-5, rtol=0)


def test_an_unknown_kind_of_memory_is_rejected_with_those_that_there_are():
    with pytest.raises(ModuleError, match=r"found `recurrent='rnn'`, expected one of \['lstm', 'gru'\]"):
        module(recurrent="rnn")


# --- Images ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", IMAGES)
def test_images_are_convolved(name):
    encoder = encoder_for(IMAGES[name], seeded())

    assert isinstance(encoder, ImageEncoder)
    assert encoder(observations_of(IMAGES[name], 2, 3)).shape == (2, 3, encoder.num_features)
    assert encoder(observations_of(IMAGES[name], 1)[:0]).shape == (0, encoder.num_features)


def test_channels_may_come_first_or_last():
    first, last = (encoder_for(IMAGES[f"large image, channels {place}"], seeded()) for place in ("first", "last"))
    images = observations_of(IMAGES["large image, channels first"], 2)

    torch.testing.assert_close(first(images), last(images.permute(0, 2, 3, 1)))


CHANNELS = {
    "a board with many planes": ((8, 8, 111), 111),
    "a board with few planes": ((8, 8, 13), 13),
    "planes of a board": ((12, 8, 8), 12),
    "feature maps": ((64, 8, 8), 64),
    "a screen": ((40, 44, 3), 3),
    "a screen, channels first": ((3, 40, 44), 3),
    "a cube": ((9, 9, 9), 9),
    "stacked frames": ((9, 9, 3, 4), 12),
    "frames before rows": ((4, 9, 9, 3), 12),
    "frames before channels": ((4, 3, 9, 9), 12),
}


@pytest.mark.parametrize(("shape", "channels"), CHANNELS.values(), ids=CHANNELS)
def test_channels_are_beside_the_two_equal_sides_and_else_fewer_than_rows(shape, channels):
    encoder = encoder_for(spaces.Box(0.0, 1.0, shape), seeded())

    assert encoder.convolutions[0].in_channels == channels


@pytest.mark.parametrize("axis", [-1, 0])
@pytest.mark.parametrize("shape", [(40, 40, 3), (3, 40, 40), (40, 40, 1), (1, 40, 40), (40, 40)], ids=str)
def test_stacked_frames_are_convolved_with_a_channel_for_each_channel_of_each_frame(shape, axis):
    space, frames = spaces.Box(0, 255, shape, np.uint8), 4
    pipeline = defaults.env_to_module(space, TWO, custom=[FrameStacking(num_frames=frames, axis=axis)])
    net = default_module(pipeline.observation_space, TWO, generator=seeded())
    episode = SingleAgentEpisode(
        "film", observations=[space.sample() for _ in range(3)], actions=[0, 0], rewards=[0, 0]
    )

    outputs = net.forward_exploration(pipeline(rl_module=net, episodes=[episode]))

    assert net.actor.encoder.convolutions[0].in_channels == frames * (np.prod(shape) // 40**2)
    assert outputs[LOGITS].shape == (1, 2)


def test_the_channels_of_stacked_frames_are_those_of_the_frames():
    stacked, joined = (encoder_for(spaces.Box(0.0, 1.0, shape), seeded()) for shape in ((9, 9, 3, 4), (9, 9, 12)))
    films = torch.rand(2, 9, 9, 3, 4, generator=seeded())

    torch.testing.assert_close(stacked(films), joined(films.flatten(-2)))


@pytest.mark.parametrize(
    ("high", "numbers", "expected"),
    [
        ([255, 255, 255], [0, 51, 255], [0.0, 0.2, 1.0]),
        ([1, 1], [0, 1], [0.0, 1.0]),
        ([2, 5], [2, 5], [0.4, 1.0]),
        ([0, 0], [0, 0], [0.0, 0.0]),
    ],
    ids=["pixels", "flags", "counts", "zeros"],
)
def test_bytes_are_scaled_to_one_by_the_largest_bound_of_their_space(high, numbers, expected):
    space = spaces.Box(np.zeros(len(high), np.uint8), np.array(high, np.uint8), dtype=np.uint8)

    assert encoder_for(space)(torch.tensor([numbers], dtype=torch.uint8)).tolist() == [pytest.approx(expected)]


def test_pixels_are_scaled_to_one():
    size, (small, large) = (12, 12, 3), (spaces.Box(0.0, 1.0, (12, 12, 3)), spaces.Box(0, 255, (12, 12, 3), np.uint8))
    white = torch.ones(1, *size)

    torch.testing.assert_close(encoder_for(small, seeded())(white), encoder_for(large, seeded())((255 * white).byte()))


def test_an_image_of_another_shape_is_rejected():
    with pytest.raises(ModuleError, match=r"observation_space\['eye'\]: found observations uint8\[1, 8, 8, 3\]"):
        encoder_for(spaces.Dict(eye=IMAGES["small image"]))({"eye": torch.zeros(1, 8, 8, 3, dtype=torch.uint8)})


# --- Initial weights ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", KINDS, ids=kind_name)
def test_actions_are_about_equally_probable_at_first(options):
    net = module(spaces.Box(-10.0, 10.0, (3,)), **options)

    assert net.forward_train(batch_for(net, 50))[LOGITS].softmax(-1).min() > 0.2


def test_weights_leave_the_global_generator_alone():
    before = torch.get_rng_state()

    module(IMAGES["small image"], recurrent="gru")

    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("options", KINDS, ids=kind_name)
def test_a_config_makes_the_same_network_again(options):
    net = module(FIT["deep"], seed=3, **options)

    again = DefaultActorCritic(net.observation_space, net.action_space, **net.get_config(), generator=seeded(3))

    assert torch.equal(vector(again), vector(net))


def test_shapes_of_weights_are_known_without_their_memory():
    with torch.device("meta"):
        net = module(IMAGES["small image"], recurrent="lstm")

    assert all(weight.is_meta for weight in net.parameters())


# --- Sizes that no memory holds -------------------------------------------------------------------------------------

TOO_LARGE = {
    "classes of observations": (spaces.Discrete(2**40), TWO, {}, r"1,099,511,627,776 classes"),
    "classes together": (spaces.Dict(a=spaces.MultiDiscrete([2**30] * 3)), TWO, {}, r"\['a'\]: found 3,221,225,472"),
    "actions": (TWO, spaces.Discrete(2**40), {}, r"70,368,744,177,664 weights"),
    "several actions": (TWO, spaces.MultiDiscrete([2**30] * 3), {}, "weights"),
    "units": (TWO, TWO, {"hidden": (2**30,)}, "weights"),
    "a memory": (TWO, TWO, {"hidden": (2**16,), "recurrent": "lstm"}, "weights"),
}


@pytest.mark.parametrize(("shown", "actions", "options", "problem"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_networks_that_no_memory_holds_are_rejected_before_it_is_taken(shown, actions, options, problem):
    with pytest.raises(ModuleError, match=f"{problem}.*expected at most.*your own module"):
        DefaultActorCritic(shown, actions, **options)
