"""What is checked when a pipeline is built."""

import pytest

from episodia import Columns
from episodia.connectors import (
    AddNextObservationsFromEpisodesToTrainBatch,
    BatchIndividualItems,
    ConnectorPipelineV2,
    ConnectorV2,
    EnvToModulePipeline,
    FrameStacking,
    GeneralAdvantageEstimation,
    Kind,
    LearnerConnectorPipeline,
    ModuleToEnvPipeline,
    NStepReturns,
    PrevActionsPrevRewards,
    defaults,
)
from episodia.errors import PipelineError
from tiny_connectors import Other, Tiny, adds, changes, run

CLOSED = [EnvToModulePipeline, LearnerConnectorPipeline]
OPEN = [ModuleToEnvPipeline, ConnectorPipelineV2]


@pytest.mark.parametrize("kind", CLOSED)
def test_a_column_that_no_piece_writes_is_reported(kind):
    message = (
        rf"{kind.__name__}, piece 'Other' at 1: it reads the column 'rewards'.*there are \['obs'\].*Insert a piece"
    )

    with pytest.raises(PipelineError, match=message):
        kind(connectors=[adds("obs"), changes("rewards")])


@pytest.mark.parametrize("kind", CLOSED)
def test_a_column_that_is_written_too_late_is_misordered(kind):
    with pytest.raises(
        PipelineError, match=r"'obs', which is only written later, by piece 'Tiny' at 1. Move 'Other' after 'Tiny'"
    ):
        kind(connectors=[changes("obs"), adds("obs")])


def test_the_place_of_a_nested_piece_is_its_path():
    inner = ConnectorPipelineV2(connectors=[Tiny(writes=()), changes("obs")], name="inner")

    with pytest.raises(PipelineError, match=r"EnvToModulePipeline, piece 'inner/Other' at 1\.1.*'obs'"):
        EnvToModulePipeline(connectors=[adds("speed"), inner])


@pytest.mark.parametrize("kind", OPEN)
def test_a_pipeline_that_is_given_any_column_misses_none(kind):
    assert len(kind(connectors=[changes("obs")])) == 1


def test_a_piece_that_makes_a_column_goes_before_one_that_changes_it():
    pieces = [PrevActionsPrevRewards(), FrameStacking(num_frames=2)]

    with pytest.raises(PipelineError, match=r"Move 'FrameStacking' before 'PrevActionsPrevRewards', which changes"):
        EnvToModulePipeline(connectors=pieces)


@pytest.mark.parametrize(
    "piece", [GeneralAdvantageEstimation(), NStepReturns(n=2), AddNextObservationsFromEpisodesToTrainBatch()]
)
def test_what_needs_the_observation_after_the_last_step_goes_before_it_is_left_behind(piece):
    pipeline = defaults.learner()
    before = list(pipeline)

    with pytest.raises(
        PipelineError, match=rf"'{piece.name}' at 4: .*Move '{piece.name}' before 'BatchIndividualItems'"
    ):
        pipeline.insert_after(BatchIndividualItems, piece)

    assert list(pipeline) == before
    pipeline.insert_before(BatchIndividualItems, piece)
    assert pipeline[3] is piece


@pytest.mark.parametrize("kind", [*CLOSED, *OPEN])
def test_two_writers_of_a_column_clash_if_the_second_does_not_read_it(kind):
    with pytest.raises(PipelineError, match=r"piece 'Tiny_2' at 1.*'obs' without reading it, and piece 'Tiny' at 0"):
        kind(connectors=[adds("obs"), adds("obs")])


@pytest.mark.parametrize("kind", [*CLOSED, *OPEN])
def test_a_piece_that_changes_what_it_reads_does_not_clash(kind):
    assert len(kind(connectors=[adds("obs"), changes("obs"), changes("obs")])) == 3


@pytest.mark.parametrize("kind", [*CLOSED, *OPEN])
def test_after_a_piece_that_declares_nothing_no_column_is_missed_and_no_writers_clash(kind):
    pipeline = kind(connectors=[adds("obs"), Tiny(), changes("rewards"), adds("obs")])

    assert len(pipeline) == 4


def test_before_a_piece_that_declares_nothing_columns_are_still_missed():
    with pytest.raises(PipelineError, match="'obs'"):
        EnvToModulePipeline(connectors=[changes("obs"), Tiny()])


def test_a_piece_that_only_declares_what_it_writes_clashes_with_no_other_piece():
    assert len(EnvToModulePipeline(connectors=[adds("obs"), Tiny(writes={"obs"})])) == 2


def test_declarations_may_depend_on_the_configuration():
    class Adds(ConnectorV2):
        reads = frozenset()

        def __init__(self, column):
            super().__init__()
            self.column = column

        @property
        def writes(self):
            return {self.column}

        def __call__(self, *, batch, **kwargs):
            return batch

    assert len(EnvToModulePipeline(connectors=[Adds("obs"), changes("obs")])) == 2
    with pytest.raises(PipelineError, match="'obs'"):
        EnvToModulePipeline(connectors=[Adds("rewards"), changes("obs")])


@pytest.mark.parametrize("declared", ["obs", 3, [1], {"obs", None}])
@pytest.mark.parametrize("attribute", ["reads", "writes"])
def test_a_declaration_that_is_not_set_of_names_is_rejected(attribute, declared):
    with pytest.raises(
        PipelineError, match=f"piece 'Tiny' at 0: found `{attribute} = .*expected a set of column names"
    ):
        ConnectorPipelineV2(connectors=[Tiny(**{attribute: declared})])


@pytest.mark.parametrize("lookback", [-1, 1.5, None, True])
def test_a_lookback_that_is_not_number_of_steps_is_rejected(lookback):
    with pytest.raises(PipelineError, match=r"lookback = .*0 or more"):
        ConnectorPipelineV2(connectors=[Tiny(lookback=lookback)])


@pytest.mark.parametrize("kind", ["causal", None, Kind])
def test_an_invalid_kind_is_rejected(kind):
    piece = Tiny()
    piece.kind = kind

    with pytest.raises(PipelineError, match=r"piece 'Tiny' at 0: found `kind = .*expected one of Kind.CAUSAL, "):
        ConnectorPipelineV2(connectors=[piece])


@pytest.mark.parametrize("writes", [None, set(), {"y"}])
@pytest.mark.parametrize("attribute", ["fills", "alters"])
def test_what_a_piece_fills_or_alters_it_writes(attribute, writes):
    piece = Tiny(reads=frozenset(), writes=writes)
    setattr(piece, attribute, {"x"})

    with pytest.raises(PipelineError, match=rf"piece 'Tiny' at 0: found \['x'\] in `{attribute}` and not in `writes`"):
        ConnectorPipelineV2(connectors=[piece])


# --- Lookback -------------------------------------------------------------------------------------------------------


def test_the_lookback_is_the_most_that_a_piece_looks_back_also_inside_of_nested_pipelines():
    inner = ConnectorPipelineV2(connectors=[Tiny(lookback=5), Tiny(lookback=1)])

    assert ConnectorPipelineV2(connectors=[Tiny(lookback=3), inner]).lookback == 5


def test_a_piece_that_declares_nothing_looks_back_one_step():
    class Plain(ConnectorV2):
        def __call__(self, *, batch, **kwargs):
            return batch

    assert ConnectorPipelineV2(connectors=[Plain()]).lookback == 1


def test_an_empty_pipeline_does_not_look_back():
    assert ConnectorPipelineV2().lookback == 0


# --- What a pipeline declares itself --------------------------------------------------------------------------------


def test_a_pipeline_reads_columns_that_no_earlier_piece_writes():
    pipeline = ConnectorPipelineV2(connectors=[changes("obs"), adds("speed"), changes("speed")])

    assert pipeline.reads == {"obs"}
    assert pipeline.writes == {"obs", "speed"}


def test_a_pipeline_with_a_piece_that_declares_nothing_declares_nothing():
    pipeline = ConnectorPipelineV2(connectors=[changes("obs"), Tiny()])

    assert pipeline.reads is None
    assert pipeline.writes is None


def test_a_pipeline_is_of_the_kind_that_depends_on_most_rows():
    later, wide = Tiny(), Other()
    later.kind, wide.kind = Kind.FORWARD_LOOKING, Kind.BATCH_WIDE

    assert ConnectorPipelineV2(connectors=[Tiny(), later]).kind is Kind.FORWARD_LOOKING
    assert ConnectorPipelineV2(connectors=[wide, Tiny()]).kind is Kind.BATCH_WIDE
    assert ConnectorPipelineV2().kind is Kind.CAUSAL


# --- Modules --------------------------------------------------------------------------------------------------------


class Module:
    def __init__(self, stateful):
        self.stateful = stateful

    def is_stateful(self):
        return self.stateful


STATEFUL_MODULES = [Module(True), {"left": Module(False), "right": Module(True)}]


@pytest.mark.parametrize("module", STATEFUL_MODULES, ids=["one", "several"])
@pytest.mark.parametrize("kind", CLOSED)
def test_a_stateful_module_without_a_state_piece_is_rejected(kind, module):
    pipeline = kind(connectors=[adds("obs")])

    for call in (lambda: pipeline.check_module(module), lambda: run(pipeline, [], rl_module=module)):
        with pytest.raises(PipelineError, match=r"stateful module.*'state_in'.*AddStatesFromEpisodesToBatch"):
            call()


def test_the_error_names_the_stateful_one_of_several_modules():
    with pytest.raises(PipelineError, match=r"stateful module \('right'\)"):
        EnvToModulePipeline().check_module({"left": Module(False), "right": Module(True)})


@pytest.mark.parametrize("module", STATEFUL_MODULES, ids=["one", "several"])
@pytest.mark.parametrize("piece", [adds(Columns.STATE_IN), Tiny()], ids=["declared", "undeclared"])
def test_a_state_piece_satisfies_a_stateful_module(module, piece):
    pipeline = EnvToModulePipeline(connectors=[piece])
    pipeline.check_module(module)

    assert run(pipeline, [], rl_module=module)["ran"] == ["Tiny"]


def test_a_module_to_env_pipeline_needs_no_state_piece():
    assert run(ModuleToEnvPipeline(connectors=[adds("actions")]), [], rl_module=Module(True))["ran"] == ["Tiny"]


def test_removing_the_state_piece_is_noticed_at_the_next_call():
    module = Module(True)
    pipeline = EnvToModulePipeline(connectors=[adds(Columns.STATE_IN), changes(Columns.STATE_IN)])
    run(pipeline, [], rl_module=module)
    pipeline.remove("Other")
    pipeline.remove("Tiny")

    with pytest.raises(PipelineError, match="state_in"):
        run(pipeline, [], rl_module=module)


@pytest.mark.parametrize("module", [Module(False), None, {"left": Module(False)}, object()])
def test_a_module_without_states_needs_no_state_piece(module):
    EnvToModulePipeline().check_module(module)

    assert run(EnvToModulePipeline(), [], rl_module=module) == {}
