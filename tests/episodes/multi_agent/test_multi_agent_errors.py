"""What cannot be right raises, says where, what was found, what was expected and what to do, and changes nothing."""

import numpy as np
import pytest
from gymnasium import spaces

from episodia import MultiAgentEpisode
from episodia.errors import EpisodeError, EpisodeIndexError, EpisodeKeyError, IndexTypeError, ShapeError, SpaceError
from multi_agent_refusals import BOX, OBS, STEP, assert_refused, busy, seen, snapshot, step
from refusals import message_of, missing_in, same
from turn_taking import turns

both_forms = pytest.mark.parametrize("form", [lambda e: e, lambda e: e.finalize()], ids=["growing", "finalized"])

# --- Stepping -----------------------------------------------------------------------------------------------------


def with_agent(agent, **values):
    """Return a right step of "acts" with something more for another agent."""
    return {name: {**STEP.get(name, {}), agent: value} for name, value in values.items()}


NUMBER = ("expected a number", "float(reward)")
FLAG = ("expected True or False", "bool(flag)")
REFUSED_STEPS = {
    "another shape": (with_agent("acts", observations=np.zeros(3, np.float32)), SpaceError, "acts", "the shape [2]"),
    "a bad action": (with_agent("acts", actions=0.5), SpaceError, "acts", "action: found 0.5"),
    "no reward": ({"rewards": {}}, EpisodeError, "acts", "no reward", "0.0 for an agent without a reward"),
    "other extra outputs": (
        with_agent("acts", extra_model_outputs={"x": 1}),
        EpisodeError,
        "acts",
        "['logp']",
        "cut()",
    ),
    "a bad pending action": (
        with_agent("idles", actions=0.5, extra_model_outputs={"logp": 0.0}),
        SpaceError,
        "idles",
        "found 0.5",
    ),
    "other pending extra outputs": (
        with_agent("idles", actions=1, extra_model_outputs={"x": 1}),
        EpisodeError,
        "idles",
        "['x']",
        "['logp']",
    ),
    "an array of extra outputs": (with_agent("acts", extra_model_outputs=np.zeros(2)), EpisodeError, "float64[2]"),
    "pending extra outputs that are not a dict": (
        with_agent("idles", actions=1, extra_model_outputs=5),
        EpisodeError,
        "idles",
        "extra_model_outputs: found 5",
        "{'name': output}",
    ),
    "a second action": (
        with_agent("waits", actions=1),
        EpisodeError,
        "waits",
        "second action",
        "that it has not acted on",
    ),
    "an action before any observation": (
        with_agent("new", actions=1),
        EpisodeError,
        "new",
        "an action of an agent that has had no observation",
        "that it has not acted on",
    ),
    "a bad first observation": (
        {"observations": {**OBS, "new": seen(4), "waits": np.zeros(3, np.float32)}},
        SpaceError,
        "waits",
        "the shape [2]",
    ),
    "a bad observation after none was answered": (
        with_agent("idles", observations=np.zeros(2, np.int64)),
        SpaceError,
        "idles",
        "float32",
    ),
    "a pending reward that is no number": (with_agent("waits", rewards="1"), EpisodeError, "waits", *NUMBER),
    "a waiting reward with an axis": (with_agent("idles", rewards=np.zeros(1)), EpisodeError, "idles", *NUMBER),
    "an early reward that is no number": (with_agent("new", rewards=1j), EpisodeError, "new", *NUMBER),
    "a waiting info that is no dict": (with_agent("waits", infos=5), EpisodeError, "waits", "infos: found 5", "a dict"),
    "a flag that is a word": (with_agent("waits", terminateds="False"), EpisodeError, "waits", "'False'", *FLAG),
    "a flag that is 2": (with_agent("acts", truncateds=2), EpisodeError, "acts", "found 2", *FLAG),
    "a flag without a truth value": (with_agent("acts", truncateds=np.ones(2)), EpisodeError, "float64[2]", *FLAG),
    "a word for all": ({"truncateds": {"__all__": "no"}}, EpisodeError, "'__all__'", "found 'no'", *FLAG),
    "a flag that is empty": (with_agent("acts", terminateds=[]), EpisodeError, "acts", "terminateds: found []", *FLAG),
    "a flag that is a zero with a point": (with_agent("waits", truncateds=0.0), EpisodeError, "waits", "0.0", *FLAG),
    "an array of no flags": (with_agent("new", truncateds=np.zeros(0)), EpisodeError, "new", "float64[0]", *FLAG),
    "an empty word for all": ({"terminateds": {"__all__": ""}}, EpisodeError, "'__all__'", "found ''", *FLAG),
    "a truncation without an observation": (
        with_agent("waits", truncateds=True),
        EpisodeError,
        "waits",
        "a truncation after an action without a last observation",
        'missing_final_observation="repeat"',
    ),
    "all truncated": ({"truncateds": {"__all__": True}}, EpisodeError, "waits", 'missing_final_observation="repeat"'),
    "another observation": (
        with_agent("done", observations=seen(4)),
        EpisodeError,
        "done",
        "another agent id",
    ),
    "an action after the end": (with_agent("done", actions=1), EpisodeError, "done", "action after its end"),
    "a reward after the end": (with_agent("done", rewards=0.0), EpisodeError, "done", 'rewards_after_done="add"'),
    "infos after the end": (
        with_agent("done", infos={"too": "late"}),
        EpisodeError,
        "done",
        "infos after its end",
        'rewards_after_done="add"',
    ),
    "extra outputs after the end": (
        with_agent("done", extra_model_outputs={"logp": 0.0}),
        EpisodeError,
        "done",
        "extra model outputs after its end",
    ),
    "observations in a list": ({"observations": [seen(4)]}, EpisodeError, "observations", "a dict with an entry"),
    "one reward for all": ({"rewards": 1.0}, EpisodeError, "rewards: found 1.0", "Leave out agents"),
    "one flag for all": ({"terminateds": True}, EpisodeError, "terminateds: found True", "a dict with an entry"),
}


@both_forms
@pytest.mark.parametrize(
    ("changes", "error", "words"), [(c, e, w) for c, e, *w in REFUSED_STEPS.values()], ids=REFUSED_STEPS
)
def test_a_step_is_rejected_as_a_whole_if_a_part_of_it_does_not_fit(form, changes, error, words):
    assert_refused(form(busy()), lambda episode: episode.add_env_step(**{**STEP, **changes}), error, *words)


@both_forms
def test_the_message_says_which_agent_and_environment_step(form):
    message = message_of(
        EpisodeError, lambda: form(busy()).add_env_step(**{**STEP, "actions": {"acts": 1, "waits": 2}})
    )

    assert message == (
        "episode 'game', agent 'waits', environment step 4: found a second action on the same observation, expected an "
        "observation in between. Only an agent with an observation that it has not acted on can act."
    )


@both_forms
def test_after_a_rejected_step_the_right_one_can_be_added(form):
    episode = form(busy())
    for changes, *_ in REFUSED_STEPS.values():
        with pytest.raises(EpisodeError):
            episode.add_env_step(**{**STEP, **changes})

    episode.add_env_step(**STEP)
    episode.validate()
    assert len(episode) == 4
    assert episode.get_observations(-1)["acts"].tolist() == seen(4).tolist()


def test_a_mapping_function_that_fails_leaves_the_episode_as_it_was():
    def only_a(agent, episode):
        return {"a": episode.id_}[agent]

    episode = MultiAgentEpisode("game", agent_to_module_mapping_fn=only_a)
    episode.add_env_reset(observations={"a": 0})
    before = snapshot(episode)

    with pytest.raises(KeyError, match="newcomer"):
        episode.add_env_step({"a": 1, "newcomer": 1}, {"a": 0}, {"a": 0.0})
    assert same(snapshot(episode), before)


@both_forms
def test_stepping_at_the_wrong_time_is_rejected(form):
    ended = busy()
    step(ended, ["acts", "waits"], ["acts"], truncateds={"__all__": True})

    assert_refused(form(MultiAgentEpisode("game")), lambda e: e.add_env_step(**STEP), EpisodeError, "add_env_reset")
    words = ("after the end", "it was truncated at environment step 4", "new `MultiAgentEpisode`")
    assert_refused(form(ended), lambda e: e.add_env_step(**STEP), EpisodeError, *words)


def test_a_reset_is_rejected_twice_and_if_it_does_not_fit():
    for episode in (turns(0), turns(3), turns(3).cut()):
        assert_refused(episode, lambda e: e.add_env_reset(observations={}), EpisodeError, "second reset")
    fresh = MultiAgentEpisode("game", observation_space={"a": BOX})
    for kwargs, error in (
        ({"observations": {"b": 0, "a": None}}, SpaceError),
        ({"observations": {"b": 0}, "infos": {"c": 5}}, EpisodeError),
        ({"observations": 5}, EpisodeError),
    ):
        assert_refused(fresh, lambda e, kwargs=kwargs: e.add_env_reset(**kwargs), error)
    assert not fresh.is_reset


# --- Building -----------------------------------------------------------------------------------------------------

ONE_STEP = {"observations": [{"a": 0}, {"a": 1}], "actions": [{"a": 0}], "rewards": [{"a": 0.0}]}
REFUSED_LISTS = {
    "no actions": ({"actions": None}, "2 dicts of observations", "no actions", "one dict of actions"),
    "too many rewards": ({"rewards": [{}] * 3}, "'rewards': 3", "fewer than of observations"),
    "too few infos": ({"infos": [{}]}, "'infos': 1"),
    "no lists": ({"observations": {"a": [0, 1]}}, "observations", "a list with a dict"),
    "no dicts": ({"actions": [5]}, "actions: found 5", "a dict with an entry for each agent"),
    "no reward": ({"rewards": [{}]}, "agent 'a'", "no reward"),
    "an unknown policy": ({"missing_final_observation": "guess"}, "'guess'", "'error', 'repeat'"),
    "another one": ({"rewards_after_done": True}, "`rewards_after_done=True`", "'error', 'add'"),
    "a lookback below zero": ({"len_lookback_buffer": -1}, "`len_lookback_buffer=-1`"),
}


@pytest.mark.parametrize(("changes", "words"), [(c, w) for c, *w in REFUSED_LISTS.values()], ids=REFUSED_LISTS)
def test_lists_that_do_not_fit_together_are_rejected(changes, words):
    message = message_of(EpisodeError, lambda: MultiAgentEpisode("game", **{**ONE_STEP, **changes}))

    assert missing_in(message, ("found", "expected", *words)) == []


def test_a_state_that_lacks_something_is_rejected():
    state = turns().get_state()
    del state["records"]

    for broken in (state, {}, None):
        assert "records" in message_of(EpisodeError, lambda broken=broken: MultiAgentEpisode.from_state(broken))


# --- Reading and writing ------------------------------------------------------------------------------------------


@both_forms
@pytest.mark.parametrize("env_steps", [True, False])
@pytest.mark.parametrize("index", [1.5, "a", True, np.array([True]), [0, 1.5], {}], ids=str)
def test_what_is_no_index_is_not_read(form, env_steps, index):
    assert_refused(
        form(turns()),
        lambda e: e.get_rewards(index, env_steps=env_steps),
        IndexTypeError,
        "rewards",
        "an int, a list or one-dimensional array of ints, a slice or None",
    )


@both_forms
@pytest.mark.parametrize("index", [5, -6, [0, 9]], ids=str)
def test_reading_over_the_ends_is_rejected_without_fill(form, index):
    words = ("actions", "the environment step", "the 5 environment steps", "Pass `fill=`")
    assert_refused(form(turns()), lambda e: e.get_actions(index), EpisodeIndexError, *words)

    words = ("actions", "agent 'a'", "the 3 items", "Pass `fill=`")
    assert_refused(form(turns()), lambda e: e.get_actions(index, env_steps=False), EpisodeIndexError, *words)


@both_forms
@pytest.mark.parametrize("mode", [{}, {"env_steps": False}, {"return_list": True}], ids=str)
@pytest.mark.parametrize("index", [None, 0, [0], slice(0, 1)], ids=str)
def test_what_cannot_be_read_of_one_agent_is_told_with_its_name(form, index, mode):
    episode = MultiAgentEpisode("game", action_space={"known": spaces.Discrete(2)})
    episode.add_env_reset(observations={"known": 0, "unknown": 0})
    episode.add_env_step({"known": 1, "unknown": 1}, {"known": 1, "unknown": 1}, {"known": 0.0, "unknown": 0.0})

    call = lambda e: e.get_actions(index, one_hot_discrete=True, **mode)  # noqa: E731  # one line says it
    assert_refused(form(episode), call, EpisodeError, "agent 'unknown'", "without a space", "`action_space`")


@both_forms
def test_a_list_has_environment_steps_only(form):
    call = lambda e: e.get_actions(env_steps=False, return_list=True)  # noqa: E731  # one line says it
    assert_refused(form(turns()), call, EpisodeError, "`env_steps=False`", "`return_list=True`", "Drop one")


@both_forms
def test_unknown_names_are_named_together_with_the_known_ones(form):
    assert_refused(form(turns()), lambda e: e.get_extra_model_outputs("y"), EpisodeKeyError, "'y'", "['x']")
    for call in (
        lambda e: e.set_rewards(new_data={"a": [0.0, 0.0], "nobody": [0.0]}),
        lambda e: e.set_extra_model_outputs(key="x", new_data={"nobody": [0.0]}),
    ):
        assert_refused(form(turns()), call, EpisodeKeyError, "['nobody']", "['a', 'b']")
    call = lambda e: e.set_extra_model_outputs(key="y", new_data={"a": ["Y"] * 2})  # noqa: E731
    assert_refused(form(turns()), call, EpisodeKeyError, "agent 'a'", "'y'", "['x']")


@both_forms
def test_setting_is_rejected_for_all_agents_if_it_does_not_fit_one(form):
    data = {"a": [0.5, 0.5], "b": [0.5, 0.5, 0.5]}

    assert_refused(form(turns()), lambda e: e.set_rewards(new_data=data), EpisodeIndexError, "agent 'b'", "3 items")
    assert_refused(form(turns()), lambda e: e.set_rewards(new_data=[1.0]), EpisodeError, "new_data", "a dict")


# --- Parts and wholes ---------------------------------------------------------------------------------------------


@both_forms
def test_only_slices_of_steps_in_order_are_parts(form):
    assert_refused(form(turns()), lambda e: e[1], IndexTypeError, "the index 1", "episode[3:7]", "get_observations(3)")
    for slice_ in (slice(None, None, 2), slice(None, None, -1), slice(None, None, 0)):
        assert_refused(form(turns()), lambda e, slice_=slice_: e.slice(slice_), EpisodeError, f"step {slice_.step}")
    for slice_ in (slice(0.5, 2), slice("a", None), slice(True, None)):
        assert_refused(form(turns()), lambda e, slice_=slice_: e.slice(slice_), IndexTypeError, "expected an int")
    assert_refused(form(turns()), lambda e: e.slice(slice(2), len_lookback_buffer=-1), EpisodeError, "buffer=-1")


@both_forms
def test_an_episode_that_is_done_cannot_be_cut(form):
    episode = MultiAgentEpisode("game", **ONE_STEP, terminateds=True, len_lookback_buffer=0)

    assert_refused(form(episode), lambda e: e.cut(), EpisodeError, "`cut()` after the end", "slice")


@both_forms
def test_only_the_continuation_can_be_joined(form):
    elsewhere = MultiAgentEpisode("other", observations=[{"a": 0}])
    alone = MultiAgentEpisode("game", observations=[{"b": "b5"}], env_t_started=5)
    shifted = MultiAgentEpisode("game", observations=[{"a": "a4", "b": "b5"}], env_t_started=5)
    for other, words in {
        elsewhere: ("the episode 'other'",),
        turns(4).cut(): ("starts at environment step 4",),
        alone: ("without the agents ['a']",),
        shifted: ("agent 'a'", "t=0"),
        5: ("found 5",),
    }.items():
        assert_refused(form(turns(5)), lambda e, other=other: e.concat_episode(other), EpisodeError, *words)


def test_items_that_do_not_stack_are_named_and_all_agents_keep_their_form():
    episode = MultiAgentEpisode("game")
    episode.add_env_reset(observations={"fits": np.zeros(2), "grows": np.zeros(2)})
    both = {"fits": 0, "grows": 0}
    episode.add_env_step({"fits": np.zeros(2), "grows": np.zeros(3)}, both, {"fits": 0.0, "grows": 0.0})

    assert_refused(episode, lambda e: e.finalize(), ShapeError, "agent 'grows'")


# --- validate -----------------------------------------------------------------------------------------------------


def test_validate_finds_values_outside_of_the_space_and_names_the_agent():
    episode = MultiAgentEpisode("game", observation_space={"a": BOX, "b": BOX})
    episode.add_env_reset(observations={"a": seen(0), "b": np.full(2, 7, np.float32)})

    assert_refused(episode, lambda e: e.validate(), SpaceError, "agent 'b'", "observation")


def test_validate_finds_an_agent_whose_clock_does_not_fit():
    too_many, too_late = turns(), turns()
    too_many.roster.records["a"].timeline.env_steps.append(5)
    too_late.roster.records["b"].timeline.env_steps[-1] = 9

    assert_refused(too_many, lambda e: e.validate(), EpisodeError, "agent 'a'", "one step for each")
    assert_refused(too_late, lambda e: e.validate(), EpisodeError, "agent 'b'", "ascending ones up to 5")


NO_INFOS = {"an array": np.array([1, 2]), "a number": 0, "a list": [], "a word": ""}


@pytest.mark.parametrize("info", NO_INFOS.values(), ids=NO_INFOS)
def test_infos_that_are_not_dicts_are_rejected_for_every_agent(info):
    new = MultiAgentEpisode("game")
    with pytest.raises(EpisodeError, match=r"'a', infos of the reset: .*expected a dict or None"):
        new.add_env_reset(observations={}, infos={"a": info})
    episode = MultiAgentEpisode("game")
    episode.add_env_reset(observations={"a": 0, "b": 0})
    acts, waits, comes = ({}, {"a": 0}, {}, {"a": info}), ({}, {}, {}, {"b": info}), ({}, {}, {}, {"c": info})
    for given in (acts, waits, comes):
        with pytest.raises(EpisodeError, match=r"infos: .*expected a dict or None"):
            episode.add_env_step(*given)
    episode.add_env_step({}, {"a": 0}, {"a": 1.0})
    with pytest.raises(EpisodeError, match=r"infos: .*expected a dict or None"):
        episode.add_env_step({"a": 1}, {}, {}, {"a": info})

    assert not new.is_reset
    assert (episode.env_t, episode._hanging_rewards_end) == (1, {"a": 1.0})


@pytest.mark.parametrize("column", ["observations", "actions", "rewards", "infos", "extra_model_outputs"])
def test_all_agents_together_have_flags_and_nothing_else(column):
    episode = MultiAgentEpisode("game")
    episode.add_env_reset(observations={"a": 0})
    step = {"observations": {}, "actions": {}, "rewards": {}, column: {"__all__": {"x": 1}}}

    with pytest.raises(EpisodeError, match="stands for all agents"):
        episode.add_env_step(**step)
    with pytest.raises(EpisodeError, match="stands for all agents"):
        MultiAgentEpisode("game").add_env_reset(observations={}, infos={"__all__": {"x": 1}})

    assert (episode.env_t, list(episode.roster.records), episode._hanging_rewards_begin) == (0, ["a"], {})
    assert episode.roster.records["a"].pending is None
