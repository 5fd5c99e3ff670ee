"""Connectors that are wrong on purpose, each in one way, and with the law that finds it out."""

import numpy as np
from gymnasium import spaces

from episodia import Columns
from episodia.connectors import ConnectorV2, Kind, add_column, change_column, change_observations
from episodia.testing import Subject

FAULTY = {}


def breaks(law, message="", **options):
    """Register a class under the law that finds it out; the message says what differed."""

    def register(kind):
        FAULTY[kind.__name__] = (lambda: Subject.of(kind(), **options), law, message)
        return kind

    return register


class AddsX(ConnectorV2):
    """Adds the column `x`, one value for each row, that `value` makes of the rewards so far."""

    reads, writes, lookback = frozenset(), frozenset({"x"}), 0

    def __call__(self, *, batch, episodes, **kwargs):
        add_column(batch, "x", episodes, self.value)
        return batch

    def value(self, rows):
        return rows.flat(Columns.OBS)


def actions(episode):
    return {"actions": np.array([episode.t, 1.0], np.float32)}


# --- What it leaves behind --------------------------------------------------------------------------------------------


@breaks("lists_are_changed_only_if_declared", "Declare `changes_episodes = True`")
class DropsEpisodesInSilence(ConnectorV2):
    reads, writes, lookback = frozenset(), frozenset(), 0

    def __call__(self, *, batch, episodes, **kwargs):
        if not episodes.is_current:
            del episodes[1:]
        return batch


@breaks("observations_keep_their_tail", "Pass `tail=True`")
class WindowsWithoutATail(ConnectorV2):
    reads, writes, lookback = frozenset(), frozenset({"obs"}), 1

    def __call__(self, *, batch, episodes, **kwargs):
        add_column(batch, "obs", episodes, lambda rows: rows.windows("obs", shifts=[-1, 0], fill=0.0))
        return batch


@breaks("observations_keep_their_tail", "Pass `tail=True`")
class DropsTheTail(ConnectorV2):
    reads, writes, lookback = frozenset({"obs"}), frozenset({"obs"}), 0

    def __call__(self, *, batch, episodes, **kwargs):
        change_column(batch, "obs", episodes, lambda column, _: column.body())
        return batch


@breaks("global_random_generators_stay_as_they_are", "np.random")
class SeedsTheGlobalGenerator(AddsX):
    def value(self, rows):
        np.random.seed(7)  # noqa: NPY002  # that is its fault
        noise = np.random.normal()  # noqa: NPY002  # as above
        return rows.flat(Columns.OBS).map(lambda leaf: leaf + noise)


@breaks("declared_columns_arrive", "x")
class RemovesItsColumn(ConnectorV2):
    reads, writes, lookback = frozenset(), frozenset({"x"}), 0

    def __call__(self, *, batch, episodes, **kwargs):
        add_column(dict(batch), "x", episodes, lambda rows: rows.flat(Columns.OBS))
        return batch


# --- Data of others ---------------------------------------------------------------------------------------------------


@breaks("callers_data_stay_as_they_are", "what the module has put out", outputs=actions)
class ScalesActionsInPlace(ConnectorV2):
    reads, writes, lookback = frozenset({"actions"}), frozenset({"actions"}), 0

    def __call__(self, *, batch, **kwargs):
        batch["actions"] *= 2
        return batch


@breaks("callers_data_stay_as_they_are", "rewards")
class ReachesBehindTheFork(AddsX):
    def value(self, rows):
        for episode in rows._episodes:
            episode.set_rewards(new_data=[reward + 1 for reward in episode.get_rewards()])
        return rows.flat(Columns.OBS)


@breaks("no_episode_is_kept", "sample-2")
class KeepsEpisodesAlive(AddsX):
    def __init__(self):
        super().__init__()
        self.history = []

    def __call__(self, *, batch, episodes, **kwargs):
        self.history.extend(episodes)
        return super().__call__(batch=batch, episodes=episodes, **kwargs)


# --- Time -------------------------------------------------------------------------------------------------------------


@breaks("cutting_changes_nothing", "column 'x', row 0")
class LeaksTheFuture(AddsX):
    def value(self, rows):
        return rows.windows(Columns.REWARDS, shifts=[1], fill=0.0)


@breaks("cutting_changes_nothing", "DroppedHistoryError")
class IgnoresItsLookback(AddsX):
    def value(self, rows):
        return rows.windows(Columns.OBS, shifts=[-2], fill=0.0)


@breaks("cutting_changes_nothing", "cut at 1")
class CountsFromTheChunk(ConnectorV2):
    reads, writes, lookback = frozenset(), frozenset({"x"}), 0

    def __call__(self, *, batch, episodes, **kwargs):
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            steps = [len(episode)] if episodes.is_current else range(len(episode))
            for step in steps:
                self.add_batch_item(batch, "x", step, episode)
        return batch


@breaks("acting_sees_what_learning_sees", "column 'x'")
class LearnsFromWhatNobodySaw(AddsX):
    def value(self, rows):
        return rows.flat(Columns.OBS) if rows.is_current else rows.flat(Columns.OBS).map(lambda obs: obs * 1.01)


@breaks("acting_sees_what_learning_sees", "float64")
class ActsInAnotherDtype(AddsX):
    def value(self, rows):
        return rows.flat(Columns.OBS).map(lambda obs: obs.astype(np.float64 if rows.is_current else np.float32))


@breaks("chunks_stand_for_themselves", "running instead of truncated")
class TakesEveryEndThatIsNoTruncationForTheLast(ConnectorV2):
    """Adds the observation that a value is bootstrapped from, and forgets chunks of episodes that go on."""

    reads, writes, lookback = frozenset(), frozenset({"x"}), 0
    kind = Kind.FORWARD_LOOKING

    def __call__(self, *, batch, episodes, **kwargs):
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            value = float(np.sum(episode.get_observations(-1))) if episode.is_truncated else -1.0
            self.add_n_batch_items(batch, "x", [value] * len(episode), len(episode), episode)
        return batch


@breaks("chunks_stand_for_themselves", "instead of the whole")
class DiscountsFromTheBeginningOfTheChunk(AddsX):
    kind = Kind.FORWARD_LOOKING

    def value(self, rows):
        rewards = rows.flat(Columns.REWARDS)
        ages = rows.steps()[1] - np.repeat(rows.t_started, rewards.lengths)
        return rewards.with_values(rewards.values * 0.5**ages + 1.0)


# --- Other episodes ---------------------------------------------------------------------------------------------------


@breaks("episodes_do_not_depend_on_each_other", "column 'rewards'")
class MixesEpisodes(ConnectorV2):
    reads, writes, lookback = frozenset({"rewards"}), frozenset({"rewards"}), 0
    kind = Kind.FORWARD_LOOKING

    def __call__(self, *, batch, episodes, **kwargs):
        change_column(batch, "rewards", episodes, lambda column, _: column.map(np.cumsum))
        return batch


@breaks("order_of_episodes_does_not_matter", "reversed")
class DependsOnTheOrder(AddsX):
    kind = Kind.BATCH_WIDE

    def value(self, rows):
        return rows.flat(Columns.T).with_values(rows.steps()[0])


@breaks("masked_rows_do_not_count", "column 'rewards'")
class ForgetsTheMask(ConnectorV2):
    reads, writes, lookback = frozenset({"rewards"}), frozenset({"rewards"}), 0
    kind = Kind.BATCH_WIDE

    def __call__(self, *, batch, episodes, **kwargs):
        change_column(
            batch,
            "rewards",
            episodes,
            lambda column, _: column.map(lambda all_: all_ - (all_.mean() if len(all_) else 0)),
        )
        return batch


# --- Few rows ---------------------------------------------------------------------------------------------------------


@breaks("it_runs", "found NoneType")
class ReturnsNothing(AddsX):
    def __call__(self, *, batch, episodes, **kwargs):
        super().__call__(batch=batch, episodes=episodes)


@breaks("it_runs", "ZeroDivisionError")
class AlwaysFails(AddsX):
    def value(self, rows):
        return 1 / 0


@breaks("it_runs", "no pipeline that it works in")
class ForgetsTheLastStep(ConnectorV2):
    reads, writes, lookback = frozenset(), frozenset({"x"}), 0

    def __call__(self, *, batch, episodes, **kwargs):
        for episode in self.single_agent_episode_iterator(episodes):
            self.add_n_batch_items(batch, "x", episode.get_rewards()[:-1], len(episode) - 1, episode)
        return batch


@breaks("it_runs_without_episodes", "ValueError")
class NeedsAnEpisode(AddsX):
    def value(self, rows):
        highest = max(rows.lengths.tolist())
        return rows.flat(Columns.OBS).map(lambda obs: obs + 0 * highest)


@breaks("it_runs_on_single_steps", "IndexError")
class NeedsTwoSteps(ConnectorV2):
    reads, writes, lookback = frozenset({"rewards"}), frozenset({"x"}), 0
    kind = Kind.FORWARD_LOOKING

    def __call__(self, *, batch, episodes, **kwargs):
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            drift = episode.get_rewards(1) - episode.get_rewards(0)
            self.add_n_batch_items(batch, "x", [drift] * len(episode), len(episode), episode)
        return batch


@breaks("it_runs_on_episodes_without_steps", "IndexError")
class NeedsAStep(ConnectorV2):
    reads, writes, lookback = frozenset({"rewards"}), frozenset({"x"}), 0
    kind = Kind.FORWARD_LOOKING

    def __call__(self, *, batch, episodes, **kwargs):
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            last = episode.get_rewards(-1)
            self.add_n_batch_items(batch, "x", [last] * len(episode), len(episode), episode)
        return batch


# --- Forms, copies, chance, memory ------------------------------------------------------------------------------------


@breaks("form_does_not_matter", "growing instead of finalized")
class TreatsListsAndArraysDifferently(ConnectorV2):
    reads, writes, lookback = frozenset({"rewards"}), frozenset({"x"}), 0

    def __call__(self, *, batch, episodes, **kwargs):
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            # A list is repeated where an array is doubled.
            doubled = (episode.get_rewards() * 2)[: len(episode)]
            self.add_n_batch_items(batch, "x", doubled, len(episode), episode)
        return batch


@breaks("it_pickles", "lambda")
class CannotBeSent(AddsX):
    def __init__(self):
        super().__init__()
        self.scale = lambda obs: obs * 2

    def value(self, rows):
        return rows.flat(Columns.OBS).map(self.scale)


@breaks("same_state_gives_same_rows", "another copy of the same piece")
class UsesGlobalRandomness(AddsX):
    def value(self, rows):
        return rows.flat(Columns.OBS).map(lambda obs: obs + np.random.random(obs.shape))  # noqa: NPY002  # the fault


@breaks("same_state_gives_same_rows", "explore=True", outputs=actions)
class ForgetsTheSeed(ConnectorV2):
    reads, writes, lookback = frozenset({"actions"}), frozenset({"actions"}), 0

    def __call__(self, *, batch, explore=None, **kwargs):
        if explore:
            batch["actions"] = batch["actions"] + np.random.default_rng().normal(size=batch["actions"].shape)
        return batch


@breaks("running_again_changes_nothing", "the second time")
class HasASecretMemory(AddsX):
    calls = 0

    def value(self, rows):
        self.calls += 1
        return rows.flat(Columns.OBS).map(lambda obs: obs + self.calls)


@breaks("running_again_changes_nothing", "after a commit")
class CommitsWithoutAState(AddsX):
    commits = 0

    def commit(self):
        self.commits += 1

    def value(self, rows):
        return rows.flat(Columns.OBS).map(lambda obs: obs + self.commits)


class Remembers(AddsX):
    """Adds how often it was called, and is right about its state."""

    is_stateful = True

    def __init__(self):
        super().__init__()
        self.calls = 0

    def value(self, rows):
        self.calls += 1
        return rows.flat(Columns.OBS).map(lambda obs: obs + self.calls)

    def get_state(self, *_, **__):
        return {"calls": self.calls}

    def set_state(self, state):
        self.calls = state["calls"]


@breaks("restored_pieces_go_on_alike", "which was set before")
class DropsItsState(Remembers):
    def set_state(self, state):
        pass


@breaks("restored_pieces_go_on_alike", "empty state")
class SavesNothing(Remembers):
    def get_state(self, *_, **__):
        return {}


@breaks("restored_pieces_go_on_alike", "found a set")
class SavesObjects(Remembers):
    def get_state(self, *_, **__):
        return {"calls": self.calls, "seen": {1, 2}}


@breaks("restored_pieces_go_on_alike", "`is_stateful` is False")
class DeniesItsState(Remembers):
    is_stateful = False


# --- Declarations -----------------------------------------------------------------------------------------------------


@breaks("columns_are_those_declared", r"\['y'\] were written")
class WritesWhatItDoesNotDeclare(AddsX):
    def __call__(self, *, batch, episodes, **kwargs):
        add_column(batch, "y", episodes, self.value)
        return super().__call__(batch=batch, episodes=episodes, **kwargs)


@breaks("columns_are_those_declared", r"\['obs'\] were read")
class ReadsWhatItDoesNotDeclare(AddsX):
    def __call__(self, *, batch, episodes, **kwargs):
        column = batch.get("obs")
        if column is None:
            return super().__call__(batch=batch, episodes=episodes, **kwargs)
        batch["x"] = column
        return batch


@breaks("columns_are_those_declared", r"no column \['z'\]")
class PromisesWhatItDoesNotWrite(AddsX):
    writes = frozenset({"x", "z"})


@breaks("columns_are_those_declared", r"\['rewards'\] were written")
class RemovesWhatOthersNeed(AddsX):
    def __call__(self, *, batch, episodes, **kwargs):
        if "rewards" in batch:
            del batch["rewards"]
        return super().__call__(batch=batch, episodes=episodes, **kwargs)


@breaks("episodes_are_written_only_if_declared", r"changed the episodes \['sample-")
class DeniesThatItWrites(AddsX):
    writes_to_episodes = False

    def __call__(self, *, batch, episodes, **kwargs):
        for episode in episodes:
            episode.set_observations(new_data=episode.get_observations(-1) + 1, at_indices=-1)
        return super().__call__(batch=batch, episodes=episodes, **kwargs)


@breaks("episodes_are_written_only_if_declared", r"changed the episodes \['sample-")
class WritesOnlyWhileExploring(DeniesThatItWrites):
    def __call__(self, *, batch, episodes, explore=None, **kwargs):
        if explore:
            for episode in episodes:
                episode.custom_data["seen"] = True
        return AddsX.__call__(self, batch=batch, episodes=episodes, **kwargs)


class ChangesObservations(ConnectorV2):
    """Gives observations a third number, and says so."""

    reads, lookback = frozenset(), 0
    writes = fills = frozenset({"obs"})
    bounds = (-100.0, 100.0)

    def __call__(self, *, batch, episodes, **kwargs):
        change_observations(batch, episodes, lambda column, _: column.map(self.change))
        return batch

    def change(self, obs):
        return np.concatenate([obs, obs[..., :1]], axis=-1)

    def recompute_output_observation_space(self, input_observation_space, input_action_space):
        return spaces.Box(*self.bounds, (3,), np.float32)


@breaks("observations_are_in_the_declared_space", r"float32\[2\]")
class DeclaresAnotherShape(ChangesObservations):
    def change(self, obs):
        return obs[..., ::-1]


@breaks("observations_are_in_the_declared_space", r"float64\[3\]")
class DeclaresAnotherDtype(ChangesObservations):
    def change(self, obs):
        return super().change(obs).astype(np.float64)


@breaks("observations_are_in_the_declared_space", "row")
class DeclaresTighterBounds(ChangesObservations):
    bounds = (-0.5, 0.5)


# --- Many agents ------------------------------------------------------------------------------------------------------


@breaks("agents_have_the_rows_of_their_own_episodes", "multi_agent_episodes=()")
class KnowsOneAgentOnly(ConnectorV2):
    reads, writes, lookback = frozenset({"rewards"}), frozenset({"x"}), 0

    def __call__(self, *, batch, episodes, **kwargs):
        for episode in episodes:
            self.add_n_batch_items(batch, "x", list(episode.get_rewards()), len(episode), episode)
        return batch


@breaks("agents_have_the_rows_of_their_own_episodes", "column 'x'")
class MixesAgentsUp(AddsX):
    def value(self, rows):
        observations = rows.flat(Columns.OBS)
        is_team = any(episode.agent_id is not None for episode in rows.agent_episodes) and len(rows) > 2
        return observations.map(lambda obs: obs[::-1]) if is_team else observations
