"""An exception inside of a piece says where it was."""

import pickle

import numpy as np
import pytest

from episodia.connectors import ConnectorPipelineV2, EnvToModulePipeline, LearnerConnectorPipeline
from episodia.episodes.lists.ragged import Ragged
from episodia.errors import BatchError, ConnectorError, EpisodeIndexError, EpisodiaError
from tiny_connectors import AddObservations, Call, Tiny, run, walk


def raising(error):
    def fail(_batch, _episodes):
        raise error

    return Call(fail, name="broken")


def failure_of(*pieces, kind=LearnerConnectorPipeline, episodes=(), batch=None):
    with pytest.raises(ConnectorError) as caught:
        run(kind(connectors=pieces), list(episodes), batch=batch)
    return caught.value


@pytest.mark.parametrize(
    "cause", [ValueError("bad"), KeyError("obs", "two"), EpisodeIndexError("far"), ZeroDivisionError()]
)
def test_every_error_of_a_piece_becomes_a_connector_error_with_its_cause(cause):
    error = failure_of(Tiny(), raising(cause))

    assert error.__cause__ is cause
    assert isinstance(error, EpisodiaError)
    assert isinstance(error, RuntimeError)
    assert (error.piece, error.place) == ("broken", (1,))
    assert f"LearnerConnectorPipeline, piece 'broken' at 1: {type(cause).__name__}: {cause}" in str(error)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_what_is_no_error_passes_untouched(interrupt):
    with pytest.raises(interrupt):
        run(ConnectorPipelineV2(connectors=[raising(interrupt())]))


def test_the_place_in_nested_pipelines_is_a_path():
    deepest = ConnectorPipelineV2(connectors=[Tiny(), Tiny(), raising(ValueError("bad"))], name="deepest")
    inner = ConnectorPipelineV2(connectors=[deepest], name="inner")
    error = failure_of(Tiny(), inner)

    assert (error.piece, error.place) == ("inner/deepest/broken", (1, 0, 2))
    assert str(error).startswith("LearnerConnectorPipeline, piece 'inner/deepest/broken' at 1.0.2: ValueError: bad\n")
    assert isinstance(error.__cause__, ValueError)


def test_the_shapes_that_the_piece_was_given_are_shown():
    def spoil(batch, _episodes):
        batch["obs"] = "spoiled"
        raise ValueError("bad")

    error = failure_of(Call(spoil), batch={"obs": np.zeros((3, 4), np.float32), "t": [1, 2]})

    assert "it was given: obs: float32[3, 4]; t: list of 2 (1)" in str(error)


def test_whole_stretches_and_modules_are_shown_too():
    batch = {"left": {"obs": Ragged(np.zeros((5, 2)), np.array([0, 2, 5]), tail=1)}}

    assert "left/obs: ragged float64[5, 2] (2 stretches, 3 steps + tails)" in str(
        failure_of(raising(ValueError()), batch=batch)
    )


def test_a_missing_column_is_named_and_the_present_ones_are_listed():
    error = failure_of(Call(lambda batch, _: batch["rewards"]), batch={"obs": [1], "left": {"obs": [2]}})

    assert error.column == "rewards"
    assert "has no column 'rewards'; it has: obs, left/obs" in str(error)


def test_a_key_error_about_something_else_names_no_column():
    error = failure_of(Call(lambda _batch, _: {}[7]), batch={"obs": [1]})

    assert error.column is None


def test_the_helpers_tell_the_column_and_the_episode_of_a_failing_function():
    def change(batch, _episodes):
        Tiny.foreach_batch_item_change_in_place(batch, "obs", lambda item, _eps_id, *_: 1 / (item[0] - 11.0))

    error = failure_of(AddObservations(), Call(change), episodes=[walk("a"), walk("b", start=10.0)])

    assert (error.column, error.episode_id) == ("obs", "b")
    assert isinstance(error.__cause__, (ZeroDivisionError, RuntimeWarning))


def test_the_helpers_tell_the_column_and_the_episode_of_an_item_that_cannot_be_added():
    def add(batch, episodes):
        for episode in Tiny.single_agent_episode_iterator(episodes):
            Tiny.add_batch_item(batch, "obs", 1, episode)

    error = failure_of(AddObservations(), Call(add), episodes=[walk("a")])

    assert (error.column, error.episode_id) == ("obs", "a")
    assert isinstance(error.__cause__, BatchError)


@pytest.mark.parametrize("failing", ["a", "b"])
def test_the_episode_that_a_loop_is_at_is_known(failing):
    def loop(_batch, episodes):
        for episode in Tiny.single_agent_episode_iterator(episodes):
            if episode.id_ == failing:
                raise ValueError("bad")

    error = failure_of(Call(loop), kind=EnvToModulePipeline, episodes=[walk("a"), walk("b")])

    assert error.episode_id == failing
    assert f"episode: '{failing}'" in str(error)


def test_after_a_loop_and_in_the_next_piece_no_episode_is_named():
    def loop_to_the_end(_batch, episodes):
        list(Tiny.single_agent_episode_iterator(episodes))
        raise ValueError("bad")

    def leave_early(_batch, episodes):
        next(Tiny.single_agent_episode_iterator(episodes))

    assert failure_of(Call(loop_to_the_end), episodes=[walk("a")]).episode_id is None
    assert failure_of(Call(leave_early), raising(ValueError()), episodes=[walk("a")]).episode_id is None


@pytest.mark.parametrize("returned", ["text", [1], 3])
def test_a_piece_that_returns_no_batch_is_named(returned):
    error = failure_of(Tiny(), Call(lambda _batch, _episodes: returned))

    assert error.place == (1,)
    assert f"found {type(returned).__name__} as the return value of the piece" in str(error)
    assert "`return batch`" in str(error)


def test_a_piece_that_forgets_to_return_is_told_so():
    class Forgets(Tiny):
        def __call__(self, *, rl_module, batch, episodes, **kwargs):
            batch["speed"] = [1]

    assert "found NoneType as the return value of the piece" in str(failure_of(Forgets()))


def test_a_pipeline_that_a_piece_runs_itself_is_part_of_the_path():
    private = ConnectorPipelineV2(connectors=[Tiny(), raising(ValueError("bad"))])
    error = failure_of(Call(lambda _batch, episodes: run(private, episodes), name="runner"))

    assert (error.piece, error.place) == ("runner/broken", (0, 1))


def test_a_connector_error_that_a_piece_raises_itself_is_a_cause_like_others():
    cause = ConnectorError("my own words")
    error = failure_of(raising(cause))

    assert error.__cause__ is cause
    assert (error.piece, error.place) == ("broken", (0,))
    assert "my own words" in str(error)


def test_a_failed_run_leaves_the_pipeline_usable():
    fails = [True]

    def sometimes(_batch, _episodes):
        if fails[0]:
            raise ValueError("bad")

    pipeline = ConnectorPipelineV2(connectors=[Tiny(), Call(sometimes)])
    with pytest.raises(ConnectorError):
        run(pipeline)
    fails[0] = False

    assert run(pipeline) == {"ran": ["Tiny"]}


def test_the_error_travels_between_processes():
    error = pickle.loads(pickle.dumps(failure_of(raising(KeyError("rewards")))))

    assert (error.piece, error.place, error.column) == ("broken", (0,), "rewards")
