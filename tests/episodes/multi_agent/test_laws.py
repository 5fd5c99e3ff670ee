"""Laws 1, 3, 4 and 5: plain lists, chunks, restoring, the constructor, and one agent alone."""

import copy
import itertools
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from episodia import MultiAgentEpisode
from episodia.errors import EpisodeError
from episodia.testing import (
    MULTI_AGENT_EPISODES,
    MULTI_AGENT_TRAJECTORIES,
    assert_same_multi_agent_episode,
    cut_points,
    indices,
    multi_agent_episodes,
    multi_agent_trajectories,
    pictured,
)
from multi_agent_checks import COLUMNS, assert_agrees, assert_answers, assert_answers_all_extras, is_there
from multi_agent_model import view_of, view_of_built
from plain_column import plain

FORMS = pytest.mark.parametrize("finalized", [False, True], ids=["growing", "finalized"])
LOOKBACKS = st.integers(0, 12)
RESTORE = {
    "from a state": lambda episode: MultiAgentEpisode.from_state(episode.get_state()),
    "unpickled": lambda episode: pickle.loads(pickle.dumps(episode)),
    "deep copy": copy.deepcopy,
    "fork": copy.copy,
}
# Some of each kind: inside, over both ends, backwards, with gaps, none at all.
INDICES = [
    *(None, 0, -1, 2, 40, -40, [], [0, -1, 1, 1], [-40, 0, 40], range(1, 3)),
    *(slice(-2, None), slice(None, None, -2), slice(1, 1), slice(-8, 8), slice(8, -8, -3), slice(None, -1)),
]
MODES = [
    {"env_steps": env_steps, "return_list": return_list, "fill": fill, "as_lookback": as_lookback}
    for env_steps, return_list in ((True, False), (True, True), (False, False))
    for fill, as_lookback in itertools.product((None, 0), (False, True))
]


def in_form(episode, finalized):
    return episode.finalize() if finalized else episode


def view_of_schedule(schedule, **options):
    spaces = {"observation_space": schedule.observation_space, "action_space": schedule.action_space}
    return view_of(list(schedule.entries()), **options, **spaces)


def walk_on(episode, schedule, start, stop):
    """Add the environment steps after `start`, up to and including `stop`."""
    for step in range(start + 1, stop + 1):
        episode.add_env_step(**schedule.entry(step))
    return episode


def cut_while_walking(schedule, cuts, lookback, finalized):
    """The chunks of an episode that is cut at each of the environment steps `cuts` while it is made."""
    chunks = [in_form(schedule.until(0).stepped(), finalized)]
    for place, (start, stop) in enumerate(itertools.pairwise([0, *cuts, len(schedule)])):
        if place:
            chunks.append(chunks[-1].cut(lookback))
        walk_on(chunks[-1], schedule, start, stop)
    return chunks


# --- Law 1: getters agree with plain lists ---


@FORMS
@pytest.mark.parametrize("name", MULTI_AGENT_TRAJECTORIES)
def test_getters_of_named_episodes_agree_with_plain_lists_in_all_modes(name, finalized):
    schedule = MULTI_AGENT_TRAJECTORIES[name]()
    episode, view = in_form(schedule.stepped(), finalized), view_of_schedule(schedule)

    assert_agrees(episode, view)
    for column, index, mode in itertools.product(COLUMNS, INDICES, MODES):
        if is_there(view, column):
            assert_answers(episode, view, column, index, **mode)


@FORMS
@pytest.mark.parametrize("lookback", [0, 1, 9])
@pytest.mark.parametrize("name", MULTI_AGENT_TRAJECTORIES)
def test_getters_of_chunks_agree_with_plain_lists_in_all_modes(name, lookback, finalized):
    schedule = MULTI_AGENT_TRAJECTORIES[name]()
    cut = max(0, len(schedule) - 2)
    _, chunk = cut_while_walking(schedule, [cut], lookback, finalized)
    view = view_of_schedule(schedule, cut_at=cut, lookback=lookback)

    assert_agrees(chunk, view)
    for column, index, mode in itertools.product(("observations", "rewards", ("extra", "state")), INDICES, MODES):
        if is_there(view, column):
            assert_answers(chunk, view, column, index, **mode)


@given(data=st.data(), schedule=multi_agent_trajectories(), finalized=st.booleans(), mode=st.sampled_from(MODES))
def test_getters_of_drawn_episodes_agree_with_plain_lists(data, schedule, finalized, mode):
    episode, view = in_form(schedule.stepped(), finalized), view_of_schedule(schedule)
    index = data.draw(indices(len(schedule) + 1))
    agents = data.draw(st.none() | st.lists(st.sampled_from([*schedule.agents, "nobody"]), max_size=3))

    for column in COLUMNS:
        if is_there(view, column):
            assert_answers(episode, view, column, index, agents, **mode)
    assert_answers_all_extras(episode, view, index, **mode)


@pytest.mark.parametrize("agent", [0, "0", ("team", 1), "team"])
def test_one_agent_is_asked_for_by_its_id_also_if_that_is_a_tuple(agent):
    episode = MULTI_AGENT_EPISODES["mixed ids"]()

    for get in (episode.get_observations, episode.get_infos, episode.get_actions, episode.get_rewards):
        assert get(agent_ids=agent) == {agent: get()[agent]}
        assert get(agent_ids=[agent]) == get(agent_ids=agent) == get(agent_ids={agent})


@given(
    schedule=multi_agent_trajectories(),
    finalized=st.booleans(),
    bounds=st.tuples(*[st.none() | st.integers(-9, 9)] * 2),
)
def test_a_slice_is_what_the_plain_lists_say(schedule, finalized, bounds):
    start, stop, _ = slice(*bounds).indices(len(schedule))

    found = in_form(schedule.stepped(), finalized)[slice(*bounds)]

    assert_agrees(found, view_of_schedule(schedule).sliced(start, max(start, stop), 0))
    found.validate()


@FORMS
@pytest.mark.parametrize("name", MULTI_AGENT_TRAJECTORIES)
def test_every_step_is_in_exactly_one_of_the_slices_and_joining_them_gives_the_episode_back(name, finalized):
    schedule = MULTI_AGENT_TRAJECTORIES[name]()
    cuts, size = range(max(1, len(schedule))), len(schedule)

    for cut, lookback in itertools.product(cuts, (0, 1, 9)):
        chunk = cut_while_walking(schedule, [cut], lookback, finalized)[-1]
        for place in range(size - cut + 1):
            assert_slices_make_up(chunk, place)


@given(data=st.data(), schedule=multi_agent_trajectories(), lookback=LOOKBACKS, finalized=st.booleans())
def test_joining_slices_of_a_drawn_chunk_gives_it_back(data, schedule, lookback, finalized):
    cut = data.draw(st.integers(0, max(0, len(schedule) - 1)))
    chunk = cut_while_walking(schedule, [cut], lookback, finalized)[-1]

    assert_slices_make_up(chunk, data.draw(st.integers(0, len(chunk))))


def assert_slices_make_up(chunk, place):
    first, second = chunk[:place], chunk[place:]
    assert first.agent_steps() + second.agent_steps() == chunk.agent_steps()
    assert first.get_return() + second.get_return() == pytest.approx(chunk.get_return())
    if not first.is_done:
        first.concat_episode(second)
    assert_same_multi_agent_episode(first, chunk, ignore=["times"])


@FORMS
@pytest.mark.parametrize("name", MULTI_AGENT_TRAJECTORIES)
def test_the_getters_of_a_slice_are_those_of_the_episode_there(name, finalized):
    schedule = MULTI_AGENT_TRAJECTORIES[name]()
    episode = in_form(schedule.stepped(), finalized)

    for start, stop in itertools.combinations_with_replacement(range(len(schedule) + 1), 2):
        part = episode[start:stop]
        for column, extra in (("observations", 1), ("infos", 1), ("actions", 0), ("rewards", 0)):
            found, expected = (
                getattr(one, f"get_{column}")(index, return_list=True)
                for one, index in ((part, None), (episode, slice(start, stop + extra)))
            )
            assert plain(found) == plain(expected)


# --- Law 3: joining undoes cutting, restoring changes nothing ---


@FORMS
@pytest.mark.parametrize("name", MULTI_AGENT_TRAJECTORIES)
def test_every_cut_with_every_lookback_is_undone(name, finalized):
    schedule = MULTI_AGENT_TRAJECTORIES[name]()
    expected = in_form(schedule.stepped(), finalized)

    for cut, lookback in itertools.product(range(len(schedule)), (0, 1, 2, 9)):
        first, second = cut_while_walking(schedule, [cut], lookback, finalized)
        first.concat_episode(second)
        assert_same_multi_agent_episode(first, expected, ignore=["times"])


@given(data=st.data(), schedule=multi_agent_trajectories(), lookback=LOOKBACKS, finalized=st.booleans())
def test_joining_the_chunks_undoes_the_cuts(data, schedule, lookback, finalized):
    cuts = [cut for cut in data.draw(cut_points(len(schedule))) if cut < len(schedule)]
    first, *others = cut_while_walking(schedule, cuts, lookback, finalized)

    for other in others:
        first.concat_episode(other)

    assert_same_multi_agent_episode(first, in_form(schedule.stepped(), finalized), ignore=["times"])


@given(
    schedule=multi_agent_trajectories(done=False), lookbacks=st.tuples(LOOKBACKS, LOOKBACKS), finalized=st.booleans()
)
def test_it_does_not_matter_which_chunks_are_joined_first(schedule, lookbacks, finalized):
    first = in_form(schedule.until(len(schedule) // 2).stepped(), finalized)
    second = walk_on(first.cut(lookbacks[0]), schedule, len(schedule) // 2, len(schedule))
    third = second.cut(lookbacks[1])
    one, other = copy.copy(first), copy.copy(second)

    one.concat_episode(second)
    one.concat_episode(third)
    other.concat_episode(third)
    first.concat_episode(other)

    assert_same_multi_agent_episode(one, first)


@given(data=st.data(), schedule=multi_agent_trajectories(), lookback=LOOKBACKS, finalized=st.booleans())
def test_a_cut_chunk_is_what_the_plain_lists_say(data, schedule, lookback, finalized):
    cut = data.draw(st.integers(0, max(0, len(schedule) - 1)))

    first, second = cut_while_walking(schedule, [cut], lookback, finalized)

    assert_agrees(first, view_of_schedule(schedule.until(cut)))
    assert_agrees(second, view_of_schedule(schedule, cut_at=cut, lookback=lookback))
    second.validate()


@pytest.mark.parametrize("way", RESTORE)
@pytest.mark.parametrize("name", MULTI_AGENT_EPISODES)
def test_restoring_a_named_episode_changes_nothing(name, way):
    episode = MULTI_AGENT_EPISODES[name]()

    assert_same_multi_agent_episode(RESTORE[way](episode), episode)
    assert_same_multi_agent_episode(episode, MULTI_AGENT_EPISODES[name](), ignore=["times"])


@given(episode=multi_agent_episodes(), way=st.sampled_from(sorted(RESTORE)))
def test_restoring_a_drawn_episode_changes_nothing(episode, way):
    assert_same_multi_agent_episode(RESTORE[way](episode), episode)


@given(
    data=st.data(), schedule=multi_agent_trajectories(), way=st.sampled_from(sorted(RESTORE)), finalized=st.booleans()
)
def test_a_restored_episode_goes_on_as_the_original_would(data, schedule, way, finalized):
    middle = data.draw(st.integers(0, len(schedule)))
    episode = in_form(schedule.until(middle).stepped(), finalized)

    restored = walk_on(RESTORE[way](episode), schedule, middle, len(schedule))

    assert_same_multi_agent_episode(restored, walk_on(episode, schedule, middle, len(schedule)), ignore=["times"])


def test_an_agent_that_ended_in_an_earlier_chunk_is_remembered_by_every_copy():
    schedule = MULTI_AGENT_TRAJECTORIES["deaths at different times"]()
    _, chunk = cut_while_walking(schedule, [2], 0, finalized=False)

    for restore in RESTORE.values():
        with pytest.raises(EpisodeError, match="after its end"):
            restore(chunk).add_env_step({"walker": 5}, {}, {})


# --- Law 4: the constructor makes the same of lists as stepping does ---


def as_lists_can_tell(schedule):
    """The schedule without what lists do not tell: ends at which nothing else is heard of an agent, and what comes later."""
    told = schedule.until(0)
    for step in range(1, len(schedule) + 1):
        entry = schedule.entry(step)
        for agent in schedule.agents:
            leave_out_what_lists_cannot_tell(entry, agent, told.status(agent), is_last=step == len(schedule))
        if schedule.missing_final_observation == "error" and entry["truncateds"].pop("__all__", False):
            # Whoever has not ended before may have acted, and needs no last observation to terminate.
            entry["terminateds"]["__all__"] = True
        told = told.then(entry)
    return told


def leave_out_what_lists_cannot_tell(entry, agent, status, *, is_last):
    has_acted = agent in entry["actions"] or status == "pending"
    is_heard_of = status == "idle" and not has_acted and (agent in entry["rewards"] or agent in entry["infos"])
    can_end = agent in entry["observations"] or is_heard_of or (is_last and has_acted)
    left_out = entry if status == "done" else () if can_end else ("terminateds", "truncateds")
    for column in left_out:
        entry[column].pop(agent, None)


@given(schedule=multi_agent_trajectories().map(as_lists_can_tell))
def test_the_constructor_makes_the_same_episode_as_stepping(schedule):
    assert_same_multi_agent_episode(schedule.built(), schedule.stepped(), ignore=["times"])


@given(schedule=multi_agent_trajectories().map(as_lists_can_tell), lookback=st.integers(0, 12), finalized=st.booleans())
def test_an_episode_made_of_lists_with_a_lookback_is_what_the_plain_lists_say(schedule, lookback, finalized):
    spaces = {"observation_space": schedule.observation_space, "action_space": schedule.action_space}

    episode = in_form(schedule.built(lookback), finalized)

    assert_agrees(episode, view_of_built(list(schedule.entries()), min(lookback, len(schedule)), **spaces))
    episode.validate()


@given(schedule=multi_agent_trajectories(done=False).map(as_lists_can_tell))
def test_all_data_is_the_past_by_default_as_after_a_cut(schedule):
    whole = schedule.stepped()
    ended = {agent for agent, single in whole.agent_episodes.items() if single.is_done}
    expected = whole.cut(len(schedule))

    found = schedule.built("auto")

    assert (found.env_t_started, found.env_lookback, len(found)) == (len(schedule), len(schedule), 0)
    assert found.agent_ids - ended == expected.agent_ids
    for agent in expected.agent_ids:
        ours, theirs = found.agent_episodes[agent], expected.agent_episodes[agent]
        assert ours.observations == theirs.observations
        assert (ours.actions, ours.rewards) == (theirs.actions, theirs.rewards)


def test_an_agent_that_leaves_its_observation_unanswered_has_terminated_unless_the_flags_say_no():
    schedule = pictured("walker: O AOR . .", "flyer: O AOR AOR AOR")
    lists = {name: [entry[name] for entry in schedule.entries()] for name in ("observations", "actions", "rewards")}
    lists = {name: column[name != "observations" :] for name, column in lists.items()}

    silent = MultiAgentEpisode(**lists, len_lookback_buffer=0)
    named = MultiAgentEpisode(**lists, len_lookback_buffer=0, terminateds={"walker": False})

    assert silent.get_terminateds() == {"walker": True, "flyer": False, "__all__": False}
    assert named.get_terminateds() == {"walker": False, "flyer": False, "__all__": False}


# --- Which weights chose an action ---


def versions_of(episode, agent):
    single = episode.agent_episodes[agent]
    return [single.weights_version_at(t) for t in range(single.t)]


@FORMS
def test_an_action_that_is_pending_keeps_the_version_of_the_weights_that_chose_it(finalized):
    schedule = pictured("white: O A . O A O", "black: O AOR AOR AOR AOR AOR")
    episode = in_form(schedule.until(0).stepped(), finalized)
    episode.weights_version = 1
    walk_on(episode, schedule, 0, 1)
    episode.weights_version = 2
    walk_on(episode, schedule, 1, 5)

    assert versions_of(episode, "white") == [1, 2]
    assert versions_of(episode, "black") == [1, 2, 2, 2, 2]


@given(
    schedule=multi_agent_trajectories(done=False, lengths=st.integers(1, 8)),
    changes=st.sets(st.integers(0, 8)),
    cut=st.integers(0, 8),
    finalized=st.booleans(),
)
def test_cutting_does_not_change_which_weights_chose_an_action(schedule, changes, cut, finalized):
    whole, chunk = (in_form(schedule.until(0).stepped(), finalized) for _ in range(2))
    first = None
    for t in range(len(schedule)):
        if t == cut:
            first, chunk = chunk, chunk.cut(2)
        for episode in (whole, chunk):
            if t in changes:
                episode.weights_version = t
            walk_on(episode, schedule, t, t + 1)
    if first is not None:
        first.concat_episode(chunk)
        chunk = first

    assert_same_multi_agent_episode(chunk, whole, ignore=["times"])
