"""Pipelines are saved and loaded alone, with RLlib's methods."""

import numpy as np
import pytest
from gymnasium import spaces

from episodia import Columns
from episodia.checkpoints import save_state
from episodia.connectors import (
    AddObservationsFromEpisodesToBatch,
    ConnectorPipelineV2,
    ConnectorV2,
    EnvToModulePipeline,
    FlattenObservations,
    FrameStacking,
    GeneralAdvantageEstimation,
    LearnerConnectorPipeline,
    MeanStdFilter,
    ModuleToEnvPipeline,
    NormalizeAndClipActions,
    PrevActionsPrevRewards,
    Standardize,
    defaults,
)
from episodia.errors import CheckpointError, PipelineError
from tiny_connectors import walk

SPACES = spaces.Box(-10.0, 10.0, (2,), np.float32), spaces.Discrete(2)


def filtered():
    pipeline = EnvToModulePipeline(
        *SPACES, connectors=[MeanStdFilter(name="mine"), AddObservationsFromEpisodesToBatch()]
    )
    for number in range(5):
        pipeline(episodes=[walk("a", 2, start=float(number))])
    pipeline.commit()
    return pipeline


def test_a_loaded_pipeline_does_what_the_saved_one_does(tmp_path):
    pipeline = filtered()
    path = pipeline.save_to_path(tmp_path / "saved")
    loaded = EnvToModulePipeline.from_checkpoint(str(path))

    assert repr(loaded) == repr(pipeline)
    assert loaded.observation_space == pipeline.observation_space
    expected = pipeline(episodes=[walk("b", 3)])[Columns.OBS]
    np.testing.assert_array_equal(loaded(episodes=[walk("b", 3)])[Columns.OBS], expected)


def test_without_a_path_a_pipeline_is_saved_in_a_temporary_directory(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pipeline = filtered()

    paths = [pipeline.save_to_path(), pipeline.save_to_path()]

    assert sorted(tmp_path.iterdir()) == sorted(paths)
    assert repr(EnvToModulePipeline.from_checkpoint(paths[1])) == repr(pipeline)


def test_states_are_restored_into_a_pipeline_of_the_same_pieces(tmp_path):
    pipeline = filtered()
    pipeline.save_to_path(tmp_path / "saved")
    other = EnvToModulePipeline(*SPACES, connectors=[MeanStdFilter(name="mine"), AddObservationsFromEpisodesToBatch()])
    other.restore_from_path(tmp_path / "saved")

    assert other["mine"].version == pipeline["mine"].version == 1


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        (
            LearnerConnectorPipeline,
            lambda: defaults.learner(*SPACES, targets=[GeneralAdvantageEstimation(), Standardize()]),
        ),
        (ModuleToEnvPipeline, lambda: defaults.module_to_env(*SPACES)),
    ],
)
def test_other_kinds_are_saved_too(kind, made, tmp_path):
    pipeline = made()

    loaded = kind.from_checkpoint(pipeline.save_to_path(tmp_path / "saved"))

    assert [(type(piece), piece.name) for piece in loaded] == [(type(piece), piece.name) for piece in pipeline]
    assert (loaded.observation_space, loaded.action_space) == (pipeline.observation_space, pipeline.action_space)


def test_a_pipeline_of_another_kind_is_rejected(tmp_path):
    path = defaults.env_to_module(*SPACES).save_to_path(tmp_path / "saved")

    for load in (ModuleToEnvPipeline.from_checkpoint, defaults.learner(*SPACES).restore_from_path):
        with pytest.raises(CheckpointError, match="found a pipeline of the kind 'EnvToModulePipeline', expected"):
            load(path)


class Unnamed(ConnectorV2):
    """Is not registered."""

    def __call__(self, *, batch, **kwargs):
        return batch


def test_a_piece_that_cannot_be_loaded_is_not_saved(tmp_path):
    with pytest.raises(PipelineError, match="Unnamed, which is not registered"):
        EnvToModulePipeline(connectors=[Unnamed()]).save_to_path(tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_pipeline_with_too_many_pieces_to_be_loaded_is_not_saved(is_nested, tmp_path):
    inner = ConnectorPipelineV2(connectors=[FlattenObservations(name=f"flat {number}") for number in range(257)])

    with pytest.raises(PipelineError, match="found 257 pieces in one pipeline, expected at most 256"):
        EnvToModulePipeline(connectors=[inner] if is_nested else list(inner)).save_to_path(tmp_path / "saved")


@pytest.mark.parametrize(
    "found", [{}, {"pipeline": 3}, {"pipeline": {"state": {}}}, {"pipeline": {"state": {}, "spaces": 3, "pieces": []}}]
)
def test_another_checkpoint_is_rejected(found, tmp_path):
    save_state(tmp_path / "saved", found)

    with pytest.raises(CheckpointError, match=r"saved: found a (checkpoint|pipeline)"):
        EnvToModulePipeline.from_checkpoint(tmp_path / "saved")


# --- Subclasses of shipped pieces -----------------------------------------------------------------------------------


def test_subclasses_of_shipped_pieces_stand_where_their_bases_may():
    """Every piece of the default pipelines and the usual others is replaced, and nothing changes."""
    nested = spaces.Dict({"a": spaces.Discrete(3)})
    for pipeline in (
        defaults.env_to_module(*SPACES, custom=[FrameStacking(num_frames=2), FlattenObservations()]),
        defaults.env_to_module(
            nested, SPACES[1], custom=[PrevActionsPrevRewards(), FlattenObservations(), MeanStdFilter()]
        ),
        defaults.module_to_env(*SPACES, stateful=True),
        defaults.learner(*SPACES, stateful=True, targets=[GeneralAdvantageEstimation(), Standardize()]),
    ):
        space = pipeline.observation_space
        for piece in list(pipeline):
            kind = type(piece)
            pipeline.replace(kind, type(f"My{kind.__name__}", (kind,), {})(**_settings(piece)))
            assert isinstance(pipeline[kind], kind)
        assert pipeline.observation_space == space


def _settings(piece):
    return {"num_frames": piece.num_frames} if isinstance(piece, FrameStacking) else {}


def test_a_subclass_that_extends_the_call_of_its_base_runs():
    class Clip(NormalizeAndClipActions):
        def __call__(self, *, batch, **kwargs):
            batch = super().__call__(batch=batch, **kwargs)
            return {**batch, Columns.ACTIONS_FOR_ENV: batch[Columns.ACTIONS_FOR_ENV] + 1.0}

    space = spaces.Box(-4.0, 4.0, (1,))
    pipeline = ModuleToEnvPipeline(None, space, connectors=[Clip()])
    made = pipeline(batch={Columns.ACTIONS: np.array([[0.5], [0.0]], np.float32)}, episodes=[walk("a"), walk("b")])

    assert made[Columns.ACTIONS_FOR_ENV].tolist() == [[3.0], [1.0]]
