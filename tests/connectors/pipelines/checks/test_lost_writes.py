"""What learner pieces write into episodes is for later pieces: a write that none of them reads is an error."""

import numpy as np
import pytest
from gymnasium.spaces import Discrete

from episodia import Columns, MultiAgentEpisode, SingleAgentEpisode
from episodia.connectors import (
    AddViews,
    BatchIndividualItems,
    ConnectorV2,
    LearnerConnectorPipeline,
    View,
    defaults,
)
from episodia.errors import BatchError
from episodia.rllib import ConnectorV2 as ItemConnector

LATE = "piece 'Writer' wrote .* and no later piece has read"


class Writer(ConnectorV2):
    """Calls `write` for each episode."""

    def __init__(self, write, column=None, **kwargs):
        super().__init__(**kwargs)
        self.write, self.column = write, column

    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        for episode in self.single_agent_episode_iterator(episodes):
            self.write(episode)
        if self.column is not None:
            batch[self.column] = np.zeros(sum(map(len, episodes)))
        return batch


class Reader(ConnectorV2):
    """Adds the rewards of the episodes under another name."""

    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        for episode in self.single_agent_episode_iterator(episodes):
            self.add_n_batch_items(batch, "seen", list(episode.get_rewards()), len(episode), episode)
        return batch


def drive(id_="drive", *, finalized=True):
    episode = SingleAgentEpisode(
        id_,
        observations=[0, 1, 2, 3],
        actions=[0, 1, 0],
        rewards=[1.0, 2.0, 3.0],
        extra_model_outputs={"vf_preds": [0.5, 0.5, 0.5]},
        observation_space=Discrete(4),
        action_space=Discrete(2),
        terminated=True,
        len_lookback_buffer=0,
    )
    return episode.finalize() if finalized else episode


def double(episode):
    episode.set_rewards(new_data=[2 * reward for reward in episode.get_rewards()])


WRITES = {
    "set_observations": lambda episode: episode.set_observations(new_data=1, at_indices=0),
    "set_actions": lambda episode: episode.set_actions(new_data=[1, 1, 1]),
    "set_rewards": double,
    "set_extra_model_outputs": lambda episode: episode.set_extra_model_outputs(
        key="vf_preds", new_data=9.0, at_indices=-1
    ),
    "data": lambda episode: setattr(episode.rewards, "data", [7.0] * 3),
    "item": lambda episode: episode.rewards.__setitem__(0, 7.0),
}


def behind_the_columns(*pieces):
    pipeline = defaults.learner()
    for piece in reversed(pieces):
        pipeline.insert_after("AddColumnsFromEpisodesToTrainBatch", piece)
    return pipeline


def run(pipeline, episodes, rl_module=None):
    return pipeline(rl_module=rl_module, episodes=episodes)["default_policy"]


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("finalized", [True, False])
def test_a_write_behind_the_piece_that_reads_the_column_is_an_error(write, finalized):
    late = defaults.learner(targets=[Writer(write)])

    with pytest.raises(BatchError, match=LATE):
        run(late, [drive(finalized=finalized)])


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_in_front_of_the_piece_that_reads_the_column_reaches_it(write):
    written = drive()
    write(written)

    made, expected = run(defaults.learner(custom=[Writer(write)]), [drive()]), run(defaults.learner(), [written])

    assert made.keys() == expected.keys()
    for name in (Columns.OBS, Columns.ACTIONS, Columns.REWARDS, "vf_preds"):
        np.testing.assert_array_equal(made[name], expected[name])


def test_the_error_names_the_column_the_episodes_and_the_reader_that_came_before():
    with pytest.raises(BatchError) as caught:
        run(defaults.learner(targets=[Writer(double)]), [drive("first"), drive("second")])

    text = str(caught.value)
    assert "'rewards'" in text
    assert "'first'" in text
    assert "in front of 'AddColumnsFromEpisodesToTrainBatch'" in text


def test_a_write_that_a_later_plugin_reads_is_not_lost():
    late = behind_the_columns(Writer(double), Reader())

    assert run(late, [drive()])["seen"].tolist() == [2.0, 4.0, 6.0]


def test_a_write_that_only_an_earlier_plugin_has_read_is_lost():
    with pytest.raises(BatchError, match=LATE):
        run(behind_the_columns(Reader(), Writer(double)), [drive()])


def test_a_write_that_a_later_view_reads_is_not_lost():
    views = AddViews({"before": View(Columns.REWARDS, shift=-1)})
    pipeline = LearnerConnectorPipeline(connectors=[Writer(double), views, BatchIndividualItems()])

    assert pipeline(episodes=[drive()])["before"].tolist() == [0.0, 2.0, 4.0]


def test_a_piece_may_write_what_it_also_puts_into_the_batch():
    late = behind_the_columns(Writer(double, Columns.REWARDS))

    assert run(late, [drive()])[Columns.REWARDS].tolist() == [0.0] * 3


def test_a_piece_that_writes_another_column_of_the_batch_has_lost_its_write():
    with pytest.raises(BatchError, match=LATE):
        run(behind_the_columns(Writer(double, "bonus")), [drive()])


def test_a_piece_that_gets_items_is_watched_too():
    class Writer(ItemConnector):
        def __call__(self, *, rl_module, batch, episodes, **kwargs):
            for episode in self.single_agent_episode_iterator(episodes):
                double(episode)
            return batch

    with pytest.raises(BatchError, match=LATE):
        run(behind_the_columns(Writer()), [drive()])


def test_a_write_into_an_episode_that_is_dropped_is_not_reported():
    class Drop(ConnectorV2):
        changes_episodes = True

        def __call__(self, *, rl_module, batch, episodes, **kwargs):
            episodes[0].set_extra_model_outputs(key="vf_preds", new_data=9.0, at_indices=0)
            del episodes[0]
            return batch

    pipeline = LearnerConnectorPipeline(connectors=[Drop()])

    assert pipeline(episodes=[drive()]) == {}


def test_a_write_of_one_agent_is_watched():
    def game():
        episode = MultiAgentEpisode(agent_to_module_mapping_fn=lambda agent, _: f"module_{agent}")
        episode.add_env_reset(observations={"a": 0, "b": 0})
        episode.add_env_step({"a": 1, "b": 1}, {"a": 0, "b": 0}, {"a": 1.0, "b": 1.0}, terminateds={"__all__": True})
        return episode.finalize()

    class Writer(ConnectorV2):
        def __call__(self, *, rl_module, batch, episodes, **kwargs):
            for episode in episodes:
                episode.set_rewards(new_data={"a": [5.0]})
            return batch

    early = defaults.learner(custom=[Writer()])(episodes=[game()])

    assert early["module_a"][Columns.REWARDS].tolist() == [5.0]
    with pytest.raises(BatchError, match=LATE):
        defaults.learner(targets=[Writer()])(episodes=[game()])


def test_an_error_leaves_the_next_run_untouched():
    pipeline, episode = defaults.learner(targets=[Writer(double, name="Late")]), drive()
    with pytest.raises(BatchError, match="piece 'Late'"):
        run(pipeline, [episode])
    pipeline.remove("Late")

    assert run(pipeline, [episode])[Columns.REWARDS].tolist() == [1.0, 2.0, 3.0]


def terminate(episode):
    episode.is_terminated = not episode.is_terminated


@pytest.mark.parametrize("is_late", [False, True])
def test_flags_that_are_set_behind_the_piece_that_adds_them_are_an_error(is_late):
    pipeline = defaults.learner(custom=[] if is_late else [Writer(terminate)])
    if is_late:
        pipeline.insert_before(BatchIndividualItems, Writer(terminate))
        with pytest.raises(BatchError, match="piece 'Writer' wrote 'terminateds' into an episode, and no later piece"):
            pipeline(rl_module=None, episodes=[drive()])
    else:
        flags = pipeline(rl_module=None, episodes=[drive()])["default_policy"][Columns.TERMINATEDS]

        assert flags.tolist()[-1] is not drive().is_terminated


def test_flags_may_be_set_for_a_later_piece():
    pipeline = defaults.learner()
    pipeline.insert_before("AgentToModuleMapping", Writer(terminate))
    pipeline.insert_before("AgentToModuleMapping", Reader())

    assert pipeline(rl_module=None, episodes=[drive()])["default_policy"]["seen"].shape == (3,)
