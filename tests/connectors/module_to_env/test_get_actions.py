"""Actions are drawn from the module's distribution, or are the most probable ones."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia import Columns, EpisodiaError
from episodia.connectors.module_to_env.get_actions import GetActions
from episodia.connectors.pipelines.pipeline_state import check_state
from episodia.modules import dist_for
from module_columns import ACTION_SPACES, DISCRETE, Acting, leaves_of, started, started_match


def _inputs(space, rows, *, time=False, seed=0):
    shape = (rows, 1, dist_for(space).num_inputs) if time else (rows, dist_for(space).num_inputs)
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _run(piece, batch, module, *, explore=True, episodes=(), **kwargs):
    return piece(rl_module=module, batch=batch, episodes=list(episodes), explore=explore, **kwargs)


def _same_tensors(left, right):
    return all(torch.equal(a, b) for a, b in zip(leaves_of(left), leaves_of(right), strict=True))


@pytest.mark.parametrize("time", [False, True])
@pytest.mark.parametrize("name", ACTION_SPACES)
def test_exploring_draws_what_the_distribution_draws_with_the_same_generator(name, time):
    space = ACTION_SPACES[name]
    inputs = _inputs(space, 5, time=time)
    distribution = dist_for(space).from_logits(inputs)
    expected = distribution.sample(torch.Generator().manual_seed(3))

    batch = _run(GetActions(seed=3), {Columns.ACTION_DIST_INPUTS: inputs}, Acting(space))

    assert _same_tensors(batch[Columns.ACTIONS], expected)
    assert torch.equal(batch[Columns.ACTION_LOGP], distribution.logp(expected))
    assert batch[Columns.ACTION_LOGP].shape == inputs.shape[:-1]


@pytest.mark.parametrize("explore", [False, None])
@pytest.mark.parametrize("name", ACTION_SPACES)
def test_without_exploring_the_most_probable_action_is_certain(name, explore):
    space = ACTION_SPACES[name]
    inputs = _inputs(space, 5)

    batch = _run(GetActions(seed=3), {Columns.ACTION_DIST_INPUTS: inputs}, Acting(space), explore=explore)

    assert _same_tensors(batch[Columns.ACTIONS], dist_for(space).from_logits(inputs).mode())
    assert (batch[Columns.ACTION_LOGP] == 0.0).all()


def test_actions_of_the_module_itself_are_left_alone():
    batch = {Columns.ACTIONS: np.array([1, 0]), Columns.ACTION_DIST_INPUTS: torch.zeros(2, 3)}

    after = _run(GetActions(), dict(batch), Acting(spaces.Discrete(3)))

    assert after == batch


def test_a_log_probability_of_the_module_itself_is_left_alone():
    batch = {Columns.ACTION_LOGP: torch.tensor([7.0]), Columns.ACTION_DIST_INPUTS: torch.zeros(1, 3)}

    after = _run(GetActions(), batch, Acting(spaces.Discrete(3)))

    assert after[Columns.ACTION_LOGP].tolist() == [7.0]


def test_each_module_draws_from_its_own_distribution():
    modules = {"left": Acting(spaces.Discrete(2, start=5)), "right": Acting(ACTION_SPACES["deep"])}
    batch = {
        "left": {Columns.ACTION_DIST_INPUTS: torch.tensor([[0.0, 9.0]])},
        "right": {Columns.ACTION_DIST_INPUTS: _inputs(ACTION_SPACES["deep"], 3)},
    }

    after = _run(GetActions(), batch, modules, explore=False)

    assert after["left"][Columns.ACTIONS].tolist() == [6]
    assert after["right"][Columns.ACTIONS]["base"]["w"][1].shape == (3, 2)


def test_log_probabilities_have_no_gradients():
    inputs = torch.zeros(2, 3, requires_grad=True)

    batch = _run(GetActions(), {Columns.ACTION_DIST_INPUTS: inputs}, Acting(spaces.Discrete(3)))

    assert not batch[Columns.ACTION_LOGP].requires_grad


def test_neither_actions_nor_inputs_is_an_error_that_lists_what_there_is():
    with pytest.raises(EpisodiaError, match=r"action_dist_inputs.*vf_preds"):
        _run(GetActions(), {Columns.VF_PREDS: torch.zeros(2)}, Acting(spaces.Discrete(3)))


def test_an_empty_batch_stays_empty():
    assert _run(GetActions(), {}, {"left": Acting(spaces.Discrete(2))}) == {}


# --- Masks ----------------------------------------------------------------------------------------------------------

_MASK = np.array([[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 1, 1]], np.int8)


def _boards():
    return [started({"board": np.zeros(9, np.float32), "action_mask": mask}) for mask in _MASK]


def _allowed(actions, mask=_MASK):
    return all(mask[index, action] for index, action in enumerate(np.asarray(actions).reshape(-1)))


@pytest.mark.parametrize("explore", [True, False])
@pytest.mark.parametrize("time", [False, True])
@pytest.mark.parametrize("source", ["column", "batch", "episodes"])
def test_masked_actions_are_never_chosen(source, time, explore):
    space = spaces.Discrete(4)
    batch = {Columns.ACTION_DIST_INPUTS: _inputs(space, 3, time=time)}
    given = {"column": {Columns.ACTION_MASK: _MASK}, "batch": {Columns.OBS: {"action_mask": torch.from_numpy(_MASK)}}}
    piece = GetActions(seed=0)

    for _ in range(20):
        after = _run(
            piece,
            {**batch, **given.get(source, {})},
            Acting(space),
            explore=explore,
            episodes=_boards() if source == "episodes" else [],
        )
        assert _allowed(after[Columns.ACTIONS])


def test_masks_of_agents_are_found_in_their_episodes():
    matches = [
        started_match(f"m{i}", {"a": {"action_mask": _MASK[i]}, "b": {"action_mask": _MASK[2]}}) for i in range(2)
    ]
    rows = [(0, "b"), (0, "a"), (1, "b"), (1, "a")]
    masks = _MASK[[2, 0, 2, 1]]
    piece = GetActions(seed=0)

    for _ in range(20):
        after = _run(
            piece,
            {"shared": {Columns.ACTION_DIST_INPUTS: torch.zeros(4, 4)}},
            {"shared": Acting(spaces.Discrete(4))},
            episodes=matches,
            shared_data={"memorized_map_structure": {"shared": rows}},
        )
        assert _allowed(after["shared"][Columns.ACTIONS], masks)


def test_masks_of_nested_actions_are_nested():
    space = spaces.Dict(move=spaces.Discrete(4), speed=spaces.Box(-1.0, 1.0, (2,)))
    batch = {Columns.ACTION_DIST_INPUTS: torch.zeros(3, 8), Columns.ACTION_MASK: {"move": _MASK}}

    after = _run(GetActions(seed=0), batch, Acting(space))

    assert _allowed(after[Columns.ACTIONS]["move"])


def test_a_key_of_none_looks_for_no_mask_in_observations():
    batch = {Columns.ACTION_DIST_INPUTS: torch.tensor([[9.0, 0.0, 0.0, 0.0]] * 3)}

    after = _run(GetActions(action_mask_key=None), batch, Acting(spaces.Discrete(4)), explore=False, episodes=_boards())

    assert after[Columns.ACTIONS].tolist() == [0, 0, 0]


class _Fixed:
    """A distribution class without masks and generators, such as users of RLlib have."""

    def __init__(self, logits):
        self.logits = logits

    @classmethod
    def from_logits(cls, logits):
        return cls(logits)

    def sample(self):
        return self.logits.argmax(-1)

    def to_deterministic(self):
        return self

    def logp(self, actions):
        return actions * 0.0 - 1.0


@pytest.mark.parametrize("explore", [True, False])
def test_a_foreign_distribution_class_needs_no_more_than_the_protocol(explore):
    module = Acting(spaces.Discrete(3))
    module.distribution = _Fixed

    after = _run(GetActions(seed=0), {Columns.ACTION_DIST_INPUTS: torch.eye(3)}, module, explore=explore)

    assert after[Columns.ACTIONS].tolist() == [0, 1, 2]
    assert after[Columns.ACTION_LOGP].tolist() == [-1.0, -1.0, -1.0]


# --- Randomness and state -------------------------------------------------------------------------------------------


def _draws(piece, count, **kwargs):
    space = DISCRETE["discrete from -2"]
    batches = (
        _run(piece, {Columns.ACTION_DIST_INPUTS: torch.zeros(4, 5)}, Acting(space), **kwargs) for _ in range(count)
    )
    return [batch[Columns.ACTIONS].tolist() for batch in batches]


def test_the_same_seed_gives_the_same_actions():
    assert _draws(GetActions(seed=5), 4) == _draws(GetActions(seed=5), 4)
    assert _draws(GetActions(seed=5), 4) != _draws(GetActions(seed=6), 4)


def test_the_generator_of_the_caller_is_used_without_a_seed():
    first = _draws(GetActions(), 4, generator=torch.Generator().manual_seed(5))

    assert first == _draws(GetActions(seed=5), 4)


def test_restoring_a_state_restores_what_is_drawn_next():
    piece = GetActions(seed=5)
    _draws(piece, 2)
    state = piece.get_state()
    expected = _draws(piece, 3)

    other = GetActions(seed=99)
    other.set_state(state)

    check_state(state)
    assert _draws(other, 3) == expected


def test_a_state_is_not_changed_by_drawing_on():
    piece = GetActions(seed=5)
    state = piece.get_state()
    before = state["generator"].copy()
    _draws(piece, 2)

    assert (state["generator"] == before).all()


def test_resetting_begins_again_with_the_seed():
    piece = GetActions(seed=5)
    first = _draws(piece, 3)
    piece.reset_state()

    assert _draws(piece, 3) == first


def test_without_a_seed_there_is_no_state():
    assert not GetActions().is_stateful
    assert GetActions().get_state() == {}
    with pytest.raises(EpisodiaError, match="seed="):
        GetActions().set_state(GetActions(seed=1).get_state())


def test_merged_states_leave_each_generator_alone():
    pieces = [GetActions(seed=seed) for seed in (1, 2)]
    merged = pieces[0].merge_states([piece.get_state() for piece in pieces])
    for piece in pieces:
        piece.set_state(merged)

    assert [_draws(piece, 3) for piece in pieces] == [_draws(GetActions(seed=seed), 3) for seed in (1, 2)]


@pytest.mark.parametrize("state", [{"generator": np.zeros(3, np.uint8), "device": "cpu"}, {"steps": 3}])
def test_a_state_of_something_else_is_rejected_and_changes_nothing(state):
    piece = GetActions(seed=5)

    with pytest.raises(EpisodiaError, match="state"):
        piece.set_state(state)
    assert _draws(piece, 3) == _draws(GetActions(seed=5), 3)


def test_actions_are_drawn_also_where_no_episodes_are_known():
    space = spaces.Discrete(4)
    batch = {Columns.ACTION_DIST_INPUTS: _inputs(space, 3)}

    found = GetActions(seed=0)(rl_module=Acting(space), batch=batch, episodes=None, explore=True)

    assert found[Columns.ACTIONS].shape == (3,)
