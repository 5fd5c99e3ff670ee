"""Pieces of a learner pipeline add, drop and replace episodes, and rows follow the list."""

import numpy as np
import pytest

from drives import drive
from episodia import Columns, EpisodeList, MultiAgentEpisode, SingleAgentEpisode
from episodia.connectors import (
    AddObservationsFromEpisodesToBatch,
    ConnectorV2,
    EnvToModulePipeline,
    GeneralAdvantageEstimation,
    LearnerConnectorPipeline,
    ModuleToEnvPipeline,
    defaults,
)
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.errors import ConnectorError, EpisodeError, PipelineError
from episodia.modules import MLPActorCritic
from episodia.testing import check_connector
from tiny_connectors import run


def mirrored(episode):
    return SingleAgentEpisode(
        f"mirrored-{episode.id_}",
        observations=list(-np.asarray(episode.get_observations())),
        actions=list(episode.get_actions()),
        rewards=list(episode.get_rewards()),
        extra_model_outputs={name: list(column.get()) for name, column in episode.extra_model_outputs.items()},
        terminated=episode.is_terminated,
        truncated=episode.is_truncated,
        len_lookback_buffer=0,
    )


class Mirror(ConnectorV2):
    """Adds the mirror image of each episode."""

    reads = writes = frozenset()
    lookback = 0
    changes_episodes = True

    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        episodes.extend([mirrored(episode) for episode in episodes])
        return batch


class DropShort(Mirror):
    """Drops episodes of one step."""

    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        episodes[:] = [episode for episode in episodes if len(episode) > 1]
        return batch


class ReplaceAll(ColumnPiece):
    """Replaces each episode by its mirror image, as a shipped piece would: on columns."""

    reads = writes = frozenset()
    lookback = 0
    changes_episodes = True

    def work(self, run):
        for position, episode in enumerate(list(run.episodes)):
            run.episodes[position] = mirrored(episode)


class Silent(Mirror):
    """Declares nothing about the list."""

    changes_episodes = None


class Liar(Mirror):
    """Denies that it changes the list."""

    changes_episodes = False


def drives():
    return [drive(2, 0), drive(1, 1), drive(3, 2)]


def observed(*pieces, episodes=None):
    pipeline = defaults.learner(custom=pieces)
    return run(pipeline, drives() if episodes is None else episodes)["default_policy"][Columns.OBS]


def rows(episodes):
    return np.concatenate([episode.get_observations()[: len(episode)] for episode in episodes])


# --- Pipelines --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece", [Mirror, Silent])
def test_rows_of_added_episodes_follow_those_of_the_list(piece):
    expected = rows(drives())

    np.testing.assert_array_equal(observed(piece()), np.concatenate([expected, -expected]))


def test_dropped_episodes_have_no_rows():
    np.testing.assert_array_equal(observed(DropShort()), rows([drive(2, 0), drive(3, 2)]))


def test_replaced_episodes_give_their_own_rows():
    np.testing.assert_array_equal(observed(ReplaceAll()), -rows(drives()))


def test_later_pieces_see_what_earlier_pieces_made_of_the_list():
    assert len(observed(DropShort(), Mirror(), ReplaceAll(), Mirror(name="again"))) == 4 * 5


def test_the_list_of_the_caller_stays_as_it_is():
    episodes = EpisodeList(drives())

    assert len(observed(Mirror(), episodes=episodes)) == len(observed(Mirror(), episodes=episodes)) == 12
    assert [len(episode) for episode in episodes] == [2, 1, 3]


def test_added_episodes_get_advantages_like_all_others():
    module = MLPActorCritic(drives()[0].observation_space, drives()[0].action_space)
    pipeline = defaults.learner(custom=[Mirror()], targets=[GeneralAdvantageEstimation()])
    together = pipeline(rl_module=module, episodes=drives())["default_policy"]
    listed = [*drives(), *map(mirrored, drives())]
    expected = defaults.learner(targets=[GeneralAdvantageEstimation()])(rl_module=module, episodes=listed)

    assert together[Columns.ADVANTAGES].tolist() == expected["default_policy"][Columns.ADVANTAGES].tolist()


def test_multi_agent_episodes_can_be_added():
    class Twice(Mirror):
        def __call__(self, *, rl_module, batch, episodes, **kwargs):
            episodes += [MultiAgentEpisode.from_state(episode.get_state()) for episode in episodes]
            return batch

    duel = MultiAgentEpisode(
        observations=[{"a": t, "b": 10 + t} for t in range(3)],
        actions=[{"a": 0, "b": 1}] * 2,
        rewards=[{"a": 0.0, "b": 1.0}] * 2,
        agent_module_ids={"a": "left", "b": "right"},
        len_lookback_buffer=0,
    )
    batch = run(defaults.learner(custom=[Twice()]), [duel])

    assert batch["left"][Columns.OBS].tolist() == [0, 1, 0, 1]
    assert batch["right"][Columns.OBS].tolist() == [10, 11, 10, 11]


# --- Mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [EnvToModulePipeline, ModuleToEnvPipeline])
def test_runners_reject_a_piece_that_declares_to_change_the_list(kind):
    with pytest.raises(PipelineError, match=r"'Mirror' at 0.*each episode of a runner needs an action"):
        kind(connectors=[Mirror()])


def test_runners_reject_changes_that_are_not_declared():
    with pytest.raises(ConnectorError, match=r"'Silent'.*at the present moment"):
        run(EnvToModulePipeline(connectors=[Silent()]), drives())


def test_a_change_behind_written_columns_is_an_error_when_the_pipeline_is_built():
    with pytest.raises(PipelineError, match="Move 'Mirror' before 'AddObservationsFromEpisodesToBatch'"):
        LearnerConnectorPipeline(connectors=[AddObservationsFromEpisodesToBatch(), Mirror()])


def test_an_undeclared_change_behind_written_columns_is_an_error_when_it_happens():
    pipeline = LearnerConnectorPipeline(connectors=[AddObservationsFromEpisodesToBatch(), Silent()])

    with pytest.raises(ConnectorError, match=r"'Silent'.*rows of the earlier list.*in front of the pieces"):
        run(pipeline, drives())


def test_a_false_declaration_is_an_error_when_the_list_changes():
    with pytest.raises(ConnectorError, match=r"'Liar'.*Declare `changes_episodes = True`"):
        observed(Liar())


def test_a_declaration_that_is_not_a_truth_value_is_rejected():
    with pytest.raises(PipelineError, match=r"changes_episodes = 'no'"):
        LearnerConnectorPipeline(connectors=[type("Odd", (Mirror,), {"changes_episodes": "no"})()])


# --- Checks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece", [Mirror, DropShort, ReplaceAll])
def test_pieces_that_change_the_list_keep_the_laws(piece):
    check_connector(piece())


@pytest.mark.parametrize("piece", [Silent, Liar])
def test_check_connector_finds_changes_that_are_not_declared(piece):
    with pytest.raises(AssertionError, match=r"Declare `changes_episodes = True`|declares `changes_episodes = True`"):
        check_connector(piece())


# --- Lists ------------------------------------------------------------------------------------------------------------


def test_a_list_of_episodes_changes_like_a_list():
    first, second, third = drives()
    episodes, plain = EpisodeList([first]), [first]
    for each in (episodes, plain):
        each.append(second)
        each.extend([third, first])
        each.insert(1, third)
        each += [second]
        each[0] = third
        each[1:3] = [second]
        del each[-1]
        each.remove(third)
        assert each.pop() is first

    assert list(episodes) == plain
    np.testing.assert_array_equal(episodes.flat(Columns.OBS).values, rows(plain))
    episodes.clear()
    assert len(episodes) == 0


def test_forks_and_columns_are_right_after_each_change():
    first, second, third = drives()
    forks = EpisodeList([first, second]).forked()
    forks.flat(Columns.OBS)
    changed = forks[1]
    forks[:] = [third, changed]
    forks[0].set_rewards(new_data=[9.0] * 3)
    changed.set_rewards(new_data=[7.0])

    assert forks.flat(Columns.REWARDS).values.tolist() == [9.0, 9.0, 9.0, 7.0]
    assert 9.0 not in third.get_rewards()
    assert 7.0 not in second.get_rewards()


def test_a_change_that_fails_leaves_the_list_as_it_was():
    episodes = EpisodeList(drives())
    with pytest.raises(EpisodeError, match="expected episodes of one kind"):
        episodes.append(MultiAgentEpisode())

    assert [len(episode) for episode in episodes] == [2, 1, 3]
    assert episodes.num_edits == 0
