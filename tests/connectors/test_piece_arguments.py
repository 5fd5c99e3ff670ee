"""Misspelt arguments raise, editors see the constructor, and `repr` shows how to rebuild a piece."""

import inspect
import pydoc

import pytest

from episodia import connectors
from episodia.connectors import (
    AgentToModuleMapping,
    ConnectorV2,
    EnvToModulePipeline,
    EpsilonGreedy,
    FrameStacking,
    GeneralAdvantageEstimation,
    LearnerConnectorPipeline,
    MeanStdFilter,
    NumpyToTensor,
    TensorToNumpy,
)
from episodia.errors import EpisodiaError, UnknownArgumentError
from tiny_connectors import walk

SHIPPED = [
    value
    for value in map(vars(connectors).get, connectors.__all__)
    if isinstance(value, type) and issubclass(value, ConnectorV2) and not inspect.isabstract(value)
]


class Blur(ConnectorV2):
    """A plugin in the style of RLlib: it passes on its own argument, and whatever else it was given."""

    def __init__(self, input_observation_space=None, input_action_space=None, *, radius=1, **kwargs):
        super().__init__(input_observation_space, input_action_space, radius=radius, **kwargs)
        self.radius = radius

    def __call__(self, *, batch, **kwargs):
        return batch


class WideBlur(Blur):
    def __init__(self, *args, width=2, **kwargs):
        super().__init__(*args, **kwargs)
        self.width = width


class Popping(Blur):
    def __init__(self, *args, **kwargs):
        self.depth = kwargs.pop("depth", 0)
        super().__init__(*args, **kwargs)


# --- Misspelt arguments ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "misspelt", "meant"),
    [
        (FrameStacking, "num_frame", "num_frames"),
        (GeneralAdvantageEstimation, "gama", "gamma"),
        (TensorToNumpy, "nam", "name"),
        (EnvToModulePipeline, "connector", "connectors"),
        (Blur, "radios", "radius"),
        (WideBlur, "radios", "radius"),
        (WideBlur, "widht", "width"),
    ],
)
def test_a_misspelt_argument_raises_with_the_nearest_name(make, misspelt, meant):
    with pytest.raises(
        UnknownArgumentError, match=f"^{make.__name__}: found the argument `{misspelt}`.*Did you mean `{meant}`"
    ):
        make(**{misspelt: 4})


def test_the_error_is_a_type_error_of_the_library():
    assert issubclass(UnknownArgumentError, (EpisodiaError, TypeError))
    with pytest.raises(TypeError, match="Leave it out"):
        FrameStacking(qqq=1)


@pytest.mark.parametrize("made", SHIPPED, ids=lambda made: made.__name__)
def test_each_shipped_piece_rejects_what_it_does_not_know(made):
    with pytest.raises(UnknownArgumentError, match=made.__name__):
        made(no_such_argument=1)


@pytest.mark.parametrize("argument", ["as_learner_connector", "multi_agent", "rl_module_specs"])
@pytest.mark.parametrize("make", [AgentToModuleMapping, FrameStacking, NumpyToTensor, TensorToNumpy, Blur])
def test_what_rllib_passes_to_its_pieces_is_accepted(make, argument):
    assert make(**{argument: True}).name == make.__name__


def test_a_plugin_may_pass_on_its_own_arguments_and_take_others_out():
    wide, popping = WideBlur(radius=3, width=5, name="wide"), Popping(depth=2, radius=4)

    assert (wide.radius, wide.width, wide.name) == (3, 5, "wide")
    assert (popping.depth, popping.radius) == (2, 4)


# --- Signatures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", SHIPPED, ids=lambda made: made.__name__)
def test_the_signature_of_a_piece_is_that_of_its_constructor(made):
    shown = list(inspect.signature(made).parameters.values())

    assert shown == list(inspect.signature(made.__init__).parameters.values())[1:]
    assert {"input_observation_space", "input_action_space", "name"} <= {parameter.name for parameter in shown}
    assert inspect.Parameter.VAR_POSITIONAL not in {parameter.kind for parameter in shown}


def test_help_shows_the_arguments_of_a_piece():
    first_lines = pydoc.render_doc(FrameStacking, renderer=pydoc.plaintext)[:500]

    assert "num_frames: 'int' = 1" in first_lines


# --- Settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "FrameStacking(num_frames=4)",
        "FrameStacking(num_frames=4, axis=0, name='frames')",
        "GeneralAdvantageEstimation(gamma=0.5)",
        "FlattenObservations()",
        "FlattenObservations(agent_ids=['left'], keys_to_remove=('map',))",
        "MeanStdFilter(clip_by_value=None, update_stats=False)",
        "ClipRewards(low=-1.0, high=1.0)",
        "NStepReturns(n=3)",
        "NormalizeAndClipActions(normalize_actions=False, clip_actions=True)",
        "NumpyToTensor(device='cpu')",
        "AddColumnsFromEpisodesToTrainBatch()",
        "AddColumnsFromEpisodesToTrainBatch(skip_columns=['actions', 'rewards'])",
        "AddViews(views={'before': View('obs', shift=-1)}, modules=['blue', 'red'], name='views')",
        "WideBlur(width=5, radius=3)",
    ],
)
def test_the_repr_of_a_piece_rebuilds_it(text):
    assert repr(eval(text, {**vars(connectors), "WideBlur": WideBlur})) == text  # noqa: S307  # our own text


def test_a_schedule_and_a_function_are_shown():
    assert repr(EpsilonGreedy(epsilon=0.25)) == "EpsilonGreedy(epsilon=ConstantSchedule(0.25))"
    assert repr(AgentToModuleMapping(agent_to_module_mapping_fn=walk)).endswith("agent_to_module_mapping_fn=walk)")


def test_pipelines_show_the_settings_of_their_pieces():
    pipeline = LearnerConnectorPipeline(connectors=[MeanStdFilter(update_stats=False), Blur(radius=3)])

    assert "radius=3" in repr(pipeline)
    assert "radius=3" in pipeline._repr_html_()
    assert "Blur(radius=3)" in str(pipeline.explain([walk("a", 2)]))
