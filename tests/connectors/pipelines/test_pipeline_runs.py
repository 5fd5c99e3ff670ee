"""How a pipeline runs: what its pieces get, and what comes out at its end."""

import threading

import numpy as np
import pytest

from episodia import MultiAgentEpisode
from episodia.connectors import ConnectorPipelineV2, EnvToModulePipeline, LearnerConnectorPipeline, ModuleToEnvPipeline
from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.lists.ragged import Ragged
from episodia.errors import BatchError, EpisodeError, PipelineError
from tiny_connectors import AddObservations, Call, Tiny, adds, run, walk

KINDS = [ConnectorPipelineV2, EnvToModulePipeline, ModuleToEnvPipeline, LearnerConnectorPipeline]


class Keep(Tiny):
    """Keeps what it was called with."""

    def __call__(self, **kwargs):
        self.called = kwargs
        return kwargs["batch"]


def test_pieces_get_what_the_pipeline_is_called_with():
    piece = Keep()
    module, shared, metrics = object(), {}, object()
    ConnectorPipelineV2(connectors=[piece])(
        rl_module=module, batch={"a": 1}, episodes=[], explore=True, shared_data=shared, metrics=metrics, infos=[7]
    )

    assert piece.called["rl_module"] is module
    assert piece.called["shared_data"] is shared
    assert piece.called["metrics"] is metrics
    assert (piece.called["explore"], piece.called["infos"], piece.called["batch"]) == (True, [7], {"a": 1})


def test_pieces_also_get_the_batch_under_its_older_name():
    inner, last = Keep(), Keep()
    run(ConnectorPipelineV2(connectors=[ConnectorPipelineV2(connectors=[inner]), last]))

    assert inner.called["data"] is inner.called["batch"]
    assert last.called["data"] is last.called["batch"]


def test_pieces_do_not_get_private_arguments():
    piece = Keep()
    run(ConnectorPipelineV2(connectors=[ConnectorPipelineV2(connectors=[piece])]))

    assert not [name for name in piece.called if name.startswith("_")]


def test_pieces_share_a_dict_also_if_the_caller_gives_none():
    first, second = Keep(), Keep()
    run(ConnectorPipelineV2(connectors=[first, ConnectorPipelineV2(connectors=[second])]))

    assert first.called["shared_data"] is second.called["shared_data"] == {}


@pytest.mark.parametrize("kind", KINDS)
def test_a_pipeline_may_be_called_without_a_batch_and_without_episodes(kind):
    assert run(kind(connectors=[Tiny("a")]), None) == {"ran": ["a"]}


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_get_an_episode_list(kind):
    piece = Keep()
    run(kind(connectors=[piece]), [walk()])

    assert isinstance(piece.called["episodes"], EpisodeList)
    assert piece.called["episodes"].is_current == (kind in (EnvToModulePipeline, ModuleToEnvPipeline))


@pytest.mark.parametrize("kind", KINDS)
def test_the_batch_of_the_caller_is_not_changed(kind):
    def change(batch, _episodes):
        batch["new"] = 1
        batch["left"]["new"] = 1

    batch = {"obs": [1], "left": {"obs": [2]}}
    run(kind(connectors=[Call(change)]), batch=batch)

    assert batch == {"obs": [1], "left": {"obs": [2]}}


# --- Episodes -------------------------------------------------------------------------------------------------------


def add_one(_batch, episodes):
    for episode in Tiny.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
        episode.set_rewards(new_data=[reward + 1.0 for reward in episode.get_rewards()])


def see_rewards(batch, episodes):
    batch["rewards"] = episodes.flat("rewards")


def test_what_a_learner_piece_writes_into_episodes_only_later_pieces_see():
    pipeline = LearnerConnectorPipeline(connectors=[Call(add_one), Call(see_rewards)])
    episode = walk(length=3)

    for _ in range(2):
        assert run(pipeline, [episode])["rewards"].tolist() == [1.0, 2.0, 3.0]
    assert list(episode.get_rewards()) == [0.0, 1.0, 2.0]


def test_what_a_learner_piece_writes_into_multi_agent_episodes_only_later_pieces_see():
    episode = MultiAgentEpisode(
        observations=[{"a": 0}, {"a": 1}], actions=[{"a": 0}], rewards=[{"a": 5.0}], len_lookback_buffer=0
    )
    made = run(LearnerConnectorPipeline(connectors=[Call(add_one), Call(see_rewards)]), [episode])

    assert made["rewards"].tolist() == [6.0]
    assert list(episode.agent_episodes["a"].get_rewards()) == [5.0]


@pytest.mark.parametrize("kind", [EnvToModulePipeline, ModuleToEnvPipeline])
def test_what_a_runner_piece_writes_into_episodes_stays(kind):
    episode = walk(length=2)
    run(kind(connectors=[Call(add_one)]), [episode])

    assert list(episode.get_rewards()) == [1.0, 2.0]


# --- The end --------------------------------------------------------------------------------------------------------


def ragged():
    return Ragged(np.arange(5), np.array([0, 3, 5]), tail=1)


@pytest.mark.parametrize("kind", KINDS)
def test_at_the_end_whole_stretches_become_arrays_of_the_steps(kind):
    def fill(batch, _episodes):
        batch["obs"] = ragged()
        batch["left"] = {"obs": ragged(), "seq_lens": np.array([2])}
        batch["nested"] = {"camera": np.zeros(2)}

    made = run(kind(connectors=[Call(fill)]), [])

    assert made["obs"].tolist() == made["left"]["obs"].tolist() == [0, 1, 3]
    assert made["left"]["seq_lens"].tolist() == [2]
    assert made["nested"]["camera"].tolist() == [0.0, 0.0]


def test_nested_pipelines_hand_whole_stretches_on():
    seen = []
    inner = ConnectorPipelineV2(connectors=[Call(lambda batch, _: batch.update(obs=ragged()))])
    run(ConnectorPipelineV2(connectors=[inner, Call(lambda batch, _: seen.append(batch["obs"]))]))

    assert isinstance(seen[0], Ragged)


def test_a_nested_pipeline_of_a_users_own_class_is_called_by_its_own_call():
    class Logged(ConnectorPipelineV2):
        def __call__(self, **kwargs):
            made = super().__call__(**kwargs)
            made["logged"] = isinstance(made["obs"], Ragged)
            return made

    inner = Logged(connectors=[Call(lambda batch, _: batch.update(obs=ragged()))])

    assert run(ConnectorPipelineV2(connectors=[inner]))["logged"] is True


def test_a_nested_pipeline_that_is_called_by_itself_is_an_outermost_one():
    inner = EnvToModulePipeline(connectors=[AddObservations()])
    outer = EnvToModulePipeline(connectors=[inner])

    assert np.array_equal(run(inner, [walk(length=3)])["obs"], [[3.0, 3.0]])
    assert np.array_equal(run(outer, [walk(length=3)])["obs"], [[3.0, 3.0]])


def test_pipelines_in_several_threads_do_not_disturb_each_other():
    barrier, seen = threading.Barrier(2), {}

    def note(item, eps_id, *_):
        barrier.wait(timeout=10)
        seen.setdefault(eps_id, set()).add(int(item[0]))
        return item

    def work(episode):
        change = Call(lambda batch, _: Tiny.foreach_batch_item_change_in_place(batch, "obs", note))
        run(LearnerConnectorPipeline(connectors=[AddObservations(), change]), [episode])

    threads = [
        threading.Thread(target=work, args=(walk(name, 3, start=start),)) for name, start in (("a", 0), ("b", 50))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen == {"a": {0, 1, 2, 3}, "b": {50, 51, 52, 53}}


# --- How it looks ---------------------------------------------------------------------------------------------------


def test_the_repr_shows_the_composition():
    inner = ConnectorPipelineV2(connectors=[Tiny(lookback=4), Tiny(name="second")], name="inner")
    lines = repr(EnvToModulePipeline(connectors=[adds("obs"), inner])).splitlines()

    assert lines[0] == "EnvToModulePipeline: 2 pieces, lookback 4"
    assert [line.split() for line in lines[1:]] == [
        ["0", "Tiny", "-", "->", "obs"],
        ["1", "inner:", "ConnectorPipelineV2"],
        ["0", "Tiny", "?", "->", "?", "lookback", "4"],
        ["1", "second:", "Tiny", "?", "->", "?"],
    ]


def test_the_repr_of_a_long_pipeline_is_cut():
    lines = repr(ConnectorPipelineV2(connectors=[Tiny() for _ in range(100)])).splitlines()

    assert len(lines) < 70
    assert lines[-1].strip() == "... and 40 more pieces"


@pytest.mark.parametrize("piece", [Tiny(), Tiny(name="x")])
def test_the_repr_of_a_piece_names_it(piece):
    assert repr(piece) == ("Tiny(name='x')" if piece.name == "x" else "Tiny()")


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_episode_or_no_batch_at_all_is_rejected_with_the_remedy(kind):
    pipeline = kind(connectors=[Tiny()])
    episode = walk(3)

    with pytest.raises(EpisodeError, match=rf"{episode.id_}.*expected a list of episodes. Pass `\[episode\]`"):
        pipeline(rl_module=None, episodes=episode)
    with pytest.raises(BatchError, match="found 5 as a batch, expected a dict of columns"):
        pipeline(rl_module=None, batch=5, episodes=[episode])


def test_what_fails_while_episodes_are_made_is_not_taken_for_a_lack_of_them():
    with pytest.raises(TypeError, match="theirs"):
        EpisodeList(walk(1) if number else _fail() for number in (1, 0))


def _fail():
    raise TypeError("theirs")


def test_a_piece_in_place_of_a_list_of_pieces_is_rejected():
    with pytest.raises(PipelineError, match=r"expected a list of them. Pass `\[piece\]`"):
        ConnectorPipelineV2(connectors=Tiny())
