"""Each module has rows of its own; one agent alone is stored as a single-agent episode is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia import MultiAgentEpisode
from episodia.connectors import defaults
from episodia.errors import ReplayError
from episodia.replay import Proportional, ReplayBuffer, Sequences, Transitions
from plain_buffer import PlainBuffer, columns, next_observations, place, reward


def own_net(agent, _):
    return f"net {agent}"


def shared_net(*_):
    return "shared"


def walks_of_agents(number, length, agents, end="", module=own_net):
    """A multi-agent episode in which agent i walks the walk `10 * number + i`."""
    episode = MultiAgentEpisode(id_=f"game {number}", agent_to_module_mapping_fn=module)
    numbers = {agent: 10 * number + i for i, agent in enumerate(agents)}
    episode.add_env_reset(observations={agent: place(walk, 0) for agent, walk in numbers.items()})
    for t in range(length):
        is_end = end if t == length - 1 else ""
        episode.add_env_step(
            observations={agent: place(walk, t + 1) for agent, walk in numbers.items()},
            actions={agent: place(walk, t) for agent, walk in numbers.items()},
            rewards={agent: reward(walk, t) for agent, walk in numbers.items()},
            terminateds={"__all__": is_end == "terminated"},
            truncateds={"__all__": is_end == "truncated"},
        )
    return episode


@settings(max_examples=20)
@given(
    lengths=st.lists(
        st.tuples(st.integers(1, 9), st.sampled_from(["", "terminated", "truncated"])), min_size=1, max_size=6
    )
)
def test_one_agent_is_stored_as_a_single_agent_episode(lengths):
    single, multi = (ReplayBuffer(200, selector=Proportional(), seed=0) for _ in range(2))
    for number, (length, end) in enumerate(lengths):
        single.add([PlainBuffer().chunk(10 * number, length, end)])
        multi.add([walks_of_agents(number, length, ["only"], end)])

    found = [buffer.sample(20, Transitions(2)) for buffer in (multi, single)]

    names = ("obs", "actions", "rewards", "terminateds", "truncateds", "t", "discounts", "keys", "weights")
    assert columns(found[0], *names) == columns(found[1], *names)
    assert next_observations(found[0]) == next_observations(found[1])


def two_modules():
    buffer = ReplayBuffer(200, selector=Proportional(), seed=0)
    buffer.add([walks_of_agents(number, 6, ["red", "blue"], "truncated") for number in range(3)])
    return buffer


def test_each_module_has_its_own_steps():
    sampled = two_modules().sample(50)

    groups = sampled.groups()
    assert list(groups) == ["net red", "net blue"]
    assert {number // 100_000 % 10 for number in groups["net red"].flat("actions").values.tolist()} == {0}
    assert {number // 100_000 % 10 for number in groups["net blue"].flat("actions").values.tolist()} == {1}


def test_episodes_of_a_sample_name_agents_and_modules():
    sampled = two_modules().sample(3)

    assert [(episode.agent_id, episode.module_id) for episode in sampled] == [("red", "net red")] * 3 + [
        ("blue", "net blue")
    ] * 3
    assert {episode.multi_agent_episode_id for episode in sampled} <= {"game 0", "game 1", "game 2"}


def test_the_learner_pipeline_gives_a_batch_for_each_module():
    sampled = two_modules().sample(8, Sequences(3))

    batch = defaults.learner()(rl_module=None, episodes=sampled)

    assert list(batch) == ["net red", "net blue"]
    for module_id, part in sampled.groups().items():
        assert batch[module_id]["actions"].tolist() == part.flat("actions").values.tolist()
        assert batch[module_id]["keys"].tolist() == part.flat("keys").values.tolist()


def test_some_modules_are_sampled_alone():
    sampled = two_modules().sample(8, modules=["net blue"])

    assert sampled.module_id == "net blue"
    with pytest.raises(ReplayError, match="expected some of"):
        two_modules().sample(8, modules=["net green"])


def test_modules_without_steps_are_left_out():
    buffer = two_modules()
    buffer.clear()
    buffer.add([walks_of_agents(7, 4, ["red"])])

    sampled = buffer.sample(8)

    assert list(sampled.groups()) == ["net red"]
    assert buffer.update_priorities(sampled.keys, {"net red": np.ones(8)}) == 0
    with pytest.raises(ReplayError, match="found 0 steps in the buffer"):
        buffer.sample(8, modules=["net blue"])


def test_priorities_of_a_sample_of_one_of_several_modules_are_updated_by_its_module():
    buffer = two_modules()
    sampled = buffer.sample(8, modules=["net blue"])

    assert buffer.update_priorities({sampled.module_id: sampled.keys}, {sampled.module_id: np.ones(8)}) == 0
    with pytest.raises(ReplayError, match=r"Pass .* `{sampled.module_id: sampled.keys}`"):
        buffer.update_priorities(sampled.keys, np.ones(8))


def test_priorities_are_updated_by_module():
    buffer = two_modules()
    sampled = buffer.sample(8)

    assert buffer.update_priorities(sampled.keys, {name: np.ones(8) for name in sampled.keys}) == 0
    with pytest.raises(ReplayError, match="expected dicts by module"):
        buffer.update_priorities(sampled.keys["net red"], np.ones(8))


def test_a_number_is_the_value_of_all_steps_of_the_last_call_of_add_alone():
    buffer = ReplayBuffer(200, selector=Proportional(alpha=1.0, epsilon=0.0), seed=0)
    buffer.add([walks_of_agents(0, 5, ["red"])])
    buffer.add([walks_of_agents(1, 5, ["blue"])])
    buffer.update_newest(7.0)

    tables = dict(zip(*(buffer.get_state()[part] for part in ("modules", "tables")), strict=True))
    priorities = {name: set(table["selector"]["priorities"].tolist()) for name, table in tables.items()}
    assert priorities == {"net red": {0.0, 1.0}, "net blue": {0.0, 7.0}}


def test_agents_that_share_a_module_are_kept_apart():
    buffer = ReplayBuffer(200, seed=0)
    episode = walks_of_agents(0, 4, ["red", "blue"], module=shared_net)
    buffer.add([episode])

    assert len(buffer.episodes()) == 2
    assert sorted(next_observations(buffer.episodes())) == sorted(
        place(walk, t + 1) for walk in (0, 1) for t in range(4)
    )


def test_chunks_of_a_multi_agent_episode_are_stored_as_one():
    buffer = ReplayBuffer(200, seed=0)
    episode = walks_of_agents(0, 4, ["red", "blue"])
    following = episode.cut()
    buffer.add([episode])
    for t in range(4, 6):
        following.add_env_step(
            observations={"red": place(0, t + 1), "blue": place(1, t + 1)},
            actions={"red": place(0, t), "blue": place(1, t)},
            rewards={"red": 0.0, "blue": 0.0},
        )

    buffer.add([following])

    assert buffer.episodes().lengths.tolist() == [6, 6]
