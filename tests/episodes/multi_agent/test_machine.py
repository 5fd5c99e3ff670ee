"""Multi-agent episodes against the plain model: any history of steps, cuts, slices, joins, forms and copies."""

import copy
import pickle

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bad_env_steps import bad_env_steps
from episodia import EpisodiaError, MultiAgentEpisode
from episodia.testing import (
    agent_groups,
    assert_same_multi_agent_episode,
    contents,
    indices,
    next_env_steps,
    reset_trajectories,
)
from multi_agent_checks import COLUMNS, assert_agrees, assert_answers, assert_answers_all_extras, is_there
from multi_agent_model import view_of

LOOKBACKS = st.integers(0, 3) | st.integers(0, 30)
WAYS = {
    "from a state": lambda episode: MultiAgentEpisode.from_state(episode.get_state()),
    "unpickled": lambda episode: pickle.loads(pickle.dumps(episode)),
    "deep copy": copy.deepcopy,
    "fork": copy.copy,
}
is_running = precondition(lambda self: not self.schedule.is_over)


class MultiAgentEpisodeMachine(RuleBasedStateMachine):
    """Drives one episode that is cut now and then, the same one uncut, and the list of what the environment returned."""

    @initialize(agents=agent_groups(), content=contents(), data=st.data())
    def start(self, agents, content, data):
        self.agents, self.content = agents, content
        self.schedule = data.draw(reset_trajectories(agents, content))
        self.episode, self.whole = self.schedule.stepped(), self.schedule.stepped()
        self.cut_at, self.lookback = None, 0
        # The chunks so far; and all that was made on the way, with what it should answer for ever.
        self.chunks, self.kept = [], []
        self.same_extras = True
        self.look()

    def look(self):
        """Ask the model again."""
        self.log = list(self.schedule.entries())
        self.view = view_of(self.log, cut_at=self.cut_at, lookback=self.lookback, **self.spaces())

    def spaces(self):
        return {"observation_space": self.schedule.observation_space, "action_space": self.schedule.action_space}

    def keep(self, episode, view):
        self.kept = [*self.kept, (episode, view)][-4:]

    # --- Growing ---

    @is_running
    @rule(data=st.data())
    def step(self, data):
        self.add(data.draw(next_env_steps(self.schedule, self.agents, self.content)))

    # Twice, so that episodes get long.
    @is_running
    @rule(data=st.data())
    def step_on(self, data):
        self.add(data.draw(next_env_steps(self.schedule, self.agents, self.content, may_end=False)))

    def add(self, record):
        self.schedule = self.schedule.then(record)
        self.episode.add_env_step(**self.schedule.entry(-1))
        if self.same_extras:
            self.whole.add_env_step(**self.schedule.entry(-1))
        self.look()

    @rule(data=st.data())
    def refuse(self, data):
        record = data.draw(bad_env_steps(self.schedule, self.agents, self.content))
        with pytest.raises(EpisodiaError):
            self.episode.add_env_step(**record)

    @rule()
    def finalize(self):
        assert self.episode.finalize() is self.episode

    # --- Parts and wholes ---

    @is_running
    @rule(lookback=LOOKBACKS)
    def cut(self, lookback):
        self.chunks.append(self.episode)
        self.keep(self.episode, self.view)
        self.episode = self.episode.cut(lookback)
        # A chunk cannot look further back than the one before it.
        available = len(self.schedule) - self.view.env_t_started + self.view.lookback
        self.cut_at, self.lookback = len(self.schedule), min(lookback, available)
        self.look()

    @precondition(lambda self: self.chunks and not self.view.hanging_actions() and not len(self.episode))
    @rule(data=st.data())
    def let_extra_outputs_differ_in_a_new_chunk(self, data):
        self.content = data.draw(contents().filter(lambda content: content.kind == self.content.kind))
        self.same_extras = False

    @precondition(lambda self: self.same_extras)
    @rule()
    def join(self):
        first, *others = [copy.copy(chunk) for chunk in (*self.chunks, self.episode)]
        for other in others:
            first.concat_episode(other)
        assert_agrees(first, view_of(self.log, **self.spaces()))
        if not any(chunk.is_finalized for chunk in (first, *others)):
            # Arrays may have another dtype than lists that become arrays later, so only lists are compared by type.
            assert_same_multi_agent_episode(first, self.whole, ignore=["times"])
        self.keep(first, view_of(self.log, **self.spaces()))

    @rule(data=st.data(), lookback=st.none() | LOOKBACKS)
    def slice(self, data, lookback):
        bounds = st.none() | st.integers(-len(self.episode) - 2, len(self.episode) + 2)
        key = slice(data.draw(bounds), data.draw(bounds))
        start, stop, _ = key.indices(len(self.episode))
        wanted = self.view.lookback if lookback is None else lookback
        part = self.episode.slice(key, len_lookback_buffer=lookback)
        view = self.view.sliced(start, max(start, stop), wanted)
        assert_agrees(part, view)
        self.keep(part, view)

    @rule(way=st.sampled_from(sorted(WAYS)))
    def restore(self, way):
        restored = WAYS[way](self.episode)
        assert_same_multi_agent_episode(restored, self.episode)
        self.keep(self.episode, self.view)
        self.episode = restored

    # --- Reading ---

    @rule(
        data=st.data(),
        column=st.sampled_from(COLUMNS),
        env_steps=st.booleans(),
        as_lookback=st.booleans(),
        fill=st.none() | st.just(0),
        return_list=st.booleans(),
    )
    def get(self, data, column, env_steps, as_lookback, fill, return_list):
        if not is_there(self.view, column):
            return
        index = data.draw(indices(len(self.episode) + 1, self.view.lookback))
        agents = data.draw(st.none() | st.lists(st.sampled_from([*self.agents, "nobody"]), max_size=3))
        options = {"env_steps": env_steps, "fill": fill, "return_list": return_list and env_steps}
        assert_answers(self.episode, self.view, column, index, agents, as_lookback, **options)

    @rule(
        data=st.data(),
        env_steps=st.booleans(),
        as_lookback=st.booleans(),
        fill=st.none() | st.just(0),
        return_list=st.booleans(),
    )
    def get_all_extra_outputs(self, data, env_steps, as_lookback, fill, return_list):
        index = data.draw(indices(len(self.episode) + 1, self.view.lookback))
        options = {"env_steps": env_steps, "fill": fill, "return_list": return_list and env_steps}
        assert_answers_all_extras(self.episode, self.view, index, as_lookback, **options)

    @invariant()
    def the_episode_agrees_with_the_model(self):
        assert_agrees(self.episode, self.view)

    def teardown(self):
        for episode, view in getattr(self, "kept", []):
            assert_agrees(episode, view)


SETTINGS = settings(
    max_examples=60, stateful_step_count=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


class TestH2MultiAgentEpisode(MultiAgentEpisodeMachine.TestCase):
    settings = SETTINGS


@pytest.mark.slow
class TestH2MultiAgentEpisodeForLong(MultiAgentEpisodeMachine.TestCase):
    settings = settings(SETTINGS, max_examples=400, stateful_step_count=30, derandomize=False)
