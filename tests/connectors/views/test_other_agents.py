"""What agents see of each other, against a plain log of what everybody saw, did and got, and when."""

import pickle

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from drives import drive
from episodia import EpisodeList, MultiAgentEpisode
from episodia.connectors import AddViews, EnvToModulePipeline, View
from episodia.errors import BatchError, EpisodeIndexError, PipelineError
from piece_calls import called
from scripted_agents import ACTIONS, KINDS, OBSERVATIONS, ScriptedEnv
from turn_taking import turns

SOURCES = ("obs", "actions", "rewards", "tag", "t", "agent_id", "eps_id", "env_index", "agent_index", "weights_version")
FILLS = {
    "obs": np.zeros(4, np.int64),
    "actions": 0,
    "rewards": 0.0,
    "tag": -0.5,
    "t": -1,
    "agent_id": None,
    "eps_id": None,
    "env_index": -1,
    "agent_index": -1,
    "weights_version": -1,
}


class Game:
    """Plays a scripted environment, and notes in plain lists at which environment step each item stands."""

    def __init__(self, seed, kind, cut_with=None):
        self.env = ScriptedEnv(kind=kind, num_agents=3, longest=8)
        self.rng = np.random.default_rng(seed)
        self.notes = {(source, agent): [] for source in SOURCES for agent in self.env.possible_agents}
        self.ended, self.open = {}, {}
        self.episode = MultiAgentEpisode(
            "game",
            observation_space=dict.fromkeys(self.env.possible_agents, OBSERVATIONS),
            action_space=dict.fromkeys(self.env.possible_agents, ACTIONS),
            missing_final_observation="repeat",
            rewards_after_done="add",
        )
        self.episode.env_index, self.episode.weights_version = 7, 0
        self.chunks, self.moments, self.cut_with = [self.episode], [], cut_with
        self.play(seed)

    def play(self, seed):
        observations, infos = self.env.reset(seed=seed)
        self.episode.add_env_reset(observations=observations, infos=infos)
        self.note_shown(observations, 0)
        while not self.episode.is_done:
            self.moments.append(self.acted_on())
            if self.cut_with is not None and len(self.episode) and self.rng.random() < 0.4:
                self.episode = self.episode.cut(self.episode.env_steps_back(self.cut_with))
                self.chunks.append(self.episode)
            self.step()

    def step(self):
        t = self.episode.env_t
        acting = sorted(self.episode.get_agents_to_act())
        actions = {agent: np.int64(self.rng.integers(5)) for agent in acting}
        tags = {agent: {"tag": np.float32(self.rng.normal())} for agent in acting}
        for agent in acting:
            self.notes["actions", agent].append((t, actions[agent]))
            self.notes["tag", agent].append((t, tags[agent]["tag"]))
            self.notes["weights_version", agent].append((t, 0))
            self.open[agent] = 0.0
        observations, rewards, terminateds, truncateds, infos = self.env.step(actions)
        for agent, reward in rewards.items():
            if agent in self.open:
                self.open[agent] += reward
        self.episode.add_env_step(
            observations,
            actions,
            rewards,
            infos,
            terminateds=terminateds,
            truncateds=truncateds,
            extra_model_outputs=tags,
        )
        ends = {**terminateds, **truncateds}
        gone = list(self.notes_of("obs")) if "__all__" in ends else list(ends)
        # Who ends gets its last reward, with or without a last observation.
        self.note_shown(observations, t + 1, ending=gone)
        for agent in gone:
            self.ended.setdefault(agent, t + 1)

    def note_shown(self, observations, t, ending=()):
        # In the order in which agents come.
        for agent in dict.fromkeys([*observations, *(agent for agent in ending if agent in self.open)]):
            if agent in self.open:
                self.notes["rewards", agent].append((t - 1, self.open.pop(agent)))
            item = observations[agent].copy() if agent in observations else self.notes["obs", agent][-1][1]
            number = len(self.notes["t", agent])
            index = len({who for (source, who), noted in self.notes.items() if source == "obs" and noted} - {agent})
            index = self.notes["agent_index", agent][0][1] if number else index
            origin = {"agent_id": agent, "eps_id": "game", "env_index": 7, "agent_index": index}
            for source, value in {"obs": item, "t": number, **origin}.items():
                self.notes[source, agent].append((t, value))

    def notes_of(self, source):
        return [agent for agent in self.env.possible_agents if self.notes[source, agent]]

    def acted_on(self):
        """Return who acts at which environment step, and what all views show then."""
        seen = called(AddViews(VIEWS), EpisodeList([self.episode]).current())
        agents = [agent for _, agent in EpisodeList([self.episode]).current().row_owners()]
        return agents, self.episode.env_t, {name: rows(column) for name, column in seen.items()}

    def expected(self, looking, e, source, shift, at_the_end=False):
        """Return what agent `looking` sees at environment step `e`."""
        other = next_agent(looking, None)
        if other in self.ended and (e > self.ended[other] or (e == self.ended[other] and not at_the_end)):
            return FILLS[source]
        standing = [value for at, value in self.notes[source, other] if at <= e + shift]
        return standing[-1] if standing else FILLS[source]


def next_agent(agent, episode):  # noqa: ARG001  # the signature
    return f"agent {(int(agent[-1]) + 1) % 3}"


def view(source, shift):
    return View(source, shift, agent=next_agent, fill={"tag": np.float32(-0.5)}.get(source))


def latest(source):
    return -1 if source in ("actions", "rewards", "tag", "weights_version") else 0


VIEWS = {source: view(source, [-3, -1, latest(source)]) for source in SOURCES}


def rows(column):
    return column["default_policy"].values.tolist() if column else []


def plain(value):
    return np.asarray(value).tolist() if not isinstance(value, str) and value is not None else value


games = st.tuples(st.integers(0, 10_000), st.sampled_from(KINDS))


@settings(max_examples=40)
@given(games)
def test_at_the_moment_of_acting_what_stood_before_is_seen(drawn):
    game = Game(*drawn)
    for agents, e, seen in game.moments:
        for source, found in seen.items():
            shifts = VIEWS[source].shifts
            expected = [[plain(game.expected(agent, e, source, shift)) for shift in shifts] for agent in agents]

            assert found == expected, (source, e)


@settings(max_examples=40)
@given(games)
def test_learners_see_what_was_acted_on(drawn):
    game = Game(*drawn)
    learned = called(AddViews(VIEWS), EpisodeList([game.episode.finalize()]))
    last = game.episode.env_t
    for source, column in learned.items():
        expected = []
        for agent in game.episode.agent_episodes:
            for e, _ in game.notes["obs", agent]:
                at_the_end = e == last
                items = [game.expected(agent, e, source, shift, at_the_end) for shift in VIEWS[source].shifts]
                expected.append([plain(item) for item in items])

        assert rows(column) == expected, source


@settings(max_examples=40)
@given(games)
def test_cutting_with_the_derived_lookback_changes_nothing(drawn):
    cut = Game(*drawn, cut_with=AddViews(VIEWS).lookback)
    whole = joined(cut)
    for source in SOURCES:
        piece = AddViews({source: VIEWS[source]})
        expected = steps_by_agent(piece, [whole], source)

        assert steps_by_agent(piece, cut.chunks, source) == expected
        assert steps_by_agent(piece, [pickle.loads(pickle.dumps(chunk)) for chunk in cut.chunks], source) == expected


def test_an_agent_that_ended_while_another_waited_is_still_seen_by_the_step_that_waited():
    episode = MultiAgentEpisode("game")
    episode.add_env_reset(observations={"a": 1, "b": 5})
    # a waits for the answer to its action while b ends.
    episode.add_env_step({"b": 6}, {"a": 0, "b": 0}, {"b": 0.0}, terminateds={"b": True})
    chunk = episode.cut(len_lookback_buffer=1)
    chunk.add_env_step({"a": 2}, {}, {"a": 0.0})
    restored = MultiAgentEpisode.from_state(chunk.get_state())
    piece = AddViews({"v": View("obs", agent="b", fill=-1)})

    for part in (chunk, restored, chunk[0:]):
        assert rows(called(piece, EpisodeList([part]))["v"]) == [5, -1]
    assert chunk.agent_ids == {"a"}


def joined(game):
    first, *rest = (MultiAgentEpisode.from_state(chunk.get_state()) for chunk in game.chunks)
    for chunk in rest:
        first.concat_episode(chunk)
    return first


def steps_by_agent(piece, chunks, source):
    """Return the rows of steps, without tails, of each agent."""
    found = {}
    for chunk in chunks:
        if not chunk.agent_episodes:
            continue
        column = called(piece, EpisodeList([chunk]))[source]["default_policy"]
        for agent, batch in zip(chunk.agent_episodes, column.split(), strict=True):
            found.setdefault(agent, []).extend(batch.tolist())
    return {agent: items for agent, items in found.items() if items}


# --- By eye: two agents that take turns -----------------------------------------------------------------------------


def of_b(source, shift, **kwargs):
    """Return what `a`, which sees something at the environment steps 0, 2 and 4, knows of `b`, which does at 1, 3 and 5."""
    episodes = EpisodeList([turns(5)])
    return called(AddViews({"v": View(source, shift, agent="b", **kwargs)}, modules=["mod_a"]), episodes)["v"]["mod_a"]


def test_the_last_item_at_or_before_an_environment_step_is_seen():
    assert of_b("obs", 0).values.tolist() == [None, "b1", "b3"]
    assert of_b("obs", [-3, -2, -1]).values.tolist() == [[None] * 3, [None, None, "b1"], ["b1", "b1", "b3"]]


def test_an_action_is_seen_as_soon_as_it_is_made():
    # B3 is pending at environment step 4: b is shown its next observation at 5.
    assert of_b("actions", -1).values.tolist() == [None, "B1", "B3"]


def test_a_reward_is_seen_when_it_is_complete():
    assert of_b("rewards", -1).values.tolist() == [0.0, 0.0, 50.0]


def test_a_function_says_who_is_looked_at():
    piece = AddViews({"v": View("obs", agent=lambda agent, _: {"a": "b", "b": None}[agent], fill="-")})
    batch = called(piece, EpisodeList([turns(5)]))["v"]

    assert batch["mod_a"].values.tolist() == ["-", "b1", "b3"]
    assert batch["mod_b"].values.tolist() == ["-", "-", "-"]


def test_an_agent_can_look_at_itself_on_the_clock_of_the_environment():
    piece = AddViews({"v": View("obs", [-1, 0], agent=lambda agent, _: agent)})

    assert called(piece, EpisodeList([turns(5)]))["v"]["mod_a"].values.tolist() == [
        [None, "a0"],
        ["a0", "a2"],
        ["a2", "a4"],
    ]


def test_every_nth_row_counts_the_rows_of_who_looks():
    assert of_b("obs", 0, every=2).body().values.tolist() == [None]
    assert of_b("obs", 0, every=2).tails().tolist() == ["b3"]


def test_history_that_was_dropped_is_an_error():
    chunk = turns(4).cut(len_lookback_buffer=0)

    assert called(AddViews({"v": View("obs", agent="b")}), EpisodeList([chunk]))["v"]["mod_a"].values.tolist() == ["b3"]
    with pytest.raises(EpisodeIndexError, match=r"'b' at or before environment step 2.*Cut with a larger"):
        called(AddViews({"v": View("obs", -2, agent="b")}), EpisodeList([chunk]))


def test_single_agent_episodes_have_no_others():
    with pytest.raises(BatchError, match="expected multi-agent ones"):
        called(AddViews({"v": View("obs", agent="b")}), EpisodeList([drive(2)]))


def test_what_others_are_about_to_do_is_the_future():
    with pytest.raises(PipelineError, match=r"'v'.*looks into the future.*infer=False"):
        EnvToModulePipeline(connectors=[AddViews({"v": View("actions", 0, agent="b")})])


def test_of_an_agent_that_never_comes_only_a_fill_or_its_space_is_known():
    episode = MultiAgentEpisode(observation_space={"a": spaces.Discrete(2), "late": spaces.Discrete(3, start=5)})
    episode.add_env_reset(observations={"a": 1})
    episodes = EpisodeList([episode]).current()

    assert rows(called(AddViews({"v": View("obs", agent="late")}), episodes)["v"]) == [5]
    assert rows(called(AddViews({"v": View("actions", -1, agent="late", fill=9)}), episodes)["v"]) == [9]
    with pytest.raises(BatchError, match="of the other agent"):
        called(AddViews({"v": View("actions", -1, agent="late")}), episodes)


@pytest.mark.parametrize("fill", [-1.0, None])
def test_of_an_agent_that_has_not_come_yet_the_fill_has_the_shape_of_its_space(fill):
    space = spaces.Box(0.0, 1.0, (2, 3), np.float32)
    game = MultiAgentEpisode("game", observation_space={"a": space, "b": space})
    game.add_env_reset(observations={"a": np.zeros((2, 3), np.float32)})

    seen = called(AddViews({"x": View("obs", agent="b", fill=fill)}), EpisodeList([game]).current())["x"]

    assert rows(seen) == np.full((1, 2, 3), fill or 0.0).tolist()


def test_callers_episodes_are_not_forked_for_a_look():
    episode = turns(5)
    forked = EpisodeList([episode]).forked()

    called(AddViews({"v": View("obs", agent="b")}), forked)

    assert forked._episodes[0] is episode
