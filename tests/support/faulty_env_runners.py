"""Env runners that are wrong on purpose, each in one way, and with the law that finds it out."""

import itertools
import multiprocessing
import time

import numpy as np

from episodia import EpisodeList
from episodia.env_runners import MultiAgentEnvRunner
from episodia.testing import EnvRunnerSubject
from plain_runner import PlainRunner

FAULTY = {}
PROCESSES = []

_numbers = itertools.count()


def breaks(law, message="", **options):
    """Register a class under the law that finds it out; the message says what differed."""

    def register(kind):
        FAULTY[kind.__name__] = (EnvRunnerSubject(kind, **options), law, message)
        return kind

    return register


# --- What comes out ---------------------------------------------------------------------------------------------------


@breaks("it_runs", "not finalized")
class LeavesEpisodesGrowing(PlainRunner):
    def sample(self, **options):
        return EpisodeList([copy_of_reset(episode) for episode in super().sample(**options)])


def copy_of_reset(episode):
    """Return a growing episode that has only been reset, as `episode` was."""
    spaces = {"observation_space": episode.observation_space, "action_space": episode.action_space}
    growing = type(episode)(episode.id_, **spaces)
    growing.add_env_reset(episode.get_observations(0))
    return growing


@breaks("it_runs", "found dict from `sample`")
class ReturnsADict(PlainRunner):
    def sample(self, **options):
        return {episode.id_: episode for episode in super().sample(**options)}


@breaks("every_step_is_there_once", r"expected one that begins at|found nothing of")
class LosesShortChunks(PlainRunner):
    def cut(self):
        for lane in self.lanes:
            if lane.episode is not None and len(lane.episode) == 1:
                lane.episode = lane.episode.cut(len_lookback_buffer=self.lookback)
        super().cut()


@breaks("every_step_is_there_once", "expected one that begins at")
class ReturnsChunksTwice(PlainRunner):
    def sample(self, **options):
        episodes = list(super().sample(**options))
        return EpisodeList([*episodes, *episodes[:1]])


@breaks("every_step_is_there_once", "found observations")
class ForgetsTheLastObservation(PlainRunner):
    def record(self, episode, action, result, extra):
        observation, reward, terminated, truncated, info = result
        if terminated or truncated:
            observation = np.array([*observation[:3], 0, -1], np.float32)
        super().record(episode, action, (observation, reward, terminated, truncated, info), extra)


@breaks("every_step_is_there_once", "found is_terminated True, expected False")
class TakesTruncatedForTerminated(PlainRunner):
    def record(self, episode, action, result, extra):
        observation, reward, terminated, truncated, info = result
        super().record(episode, action, (observation, reward, terminated or truncated, False, info), extra)


@breaks("every_step_is_there_once", "expected one that begins at 0")
class RenamesChunks(PlainRunner):
    def sample(self, **options):
        episodes = super().sample(**options)
        for episode in episodes:
            episode.id_ = f"chunk-{next(_numbers)}"
        return episodes


@breaks("every_step_is_there_once", "expected one that begins at")
class NamesAllEpisodesAlike(PlainRunner):
    def next_name(self, lane):
        return f"lane-{lane.seed}"


@breaks("every_step_is_there_once", "of .*environment, episode. in one episode")
class MixesEpisodesUp(PlainRunner):
    def cut(self):
        # A lane that continues the episode of another lane, after as many steps.
        super().cut()
        running = [lane for lane in self.lanes if lane.episode is not None]
        for one, other in itertools.pairwise(running):
            if one.episode.t == other.episode.t:
                one.episode, other.episode = other.episode, one.episode


@breaks("as_many_steps_as_were_asked_for", "expected 1 to 3")
class PlaysTooMuch(PlainRunner):
    def sample(self, *, num_timesteps=None, **options):
        return super().sample(num_timesteps=num_timesteps and 3 * num_timesteps + 3, **options)


@breaks("as_many_episodes_as_were_asked_for", "found 2, expected 1")
class PlaysOneMore(PlainRunner):
    def sample(self, *, num_episodes=None, **options):
        return super().sample(num_episodes=num_episodes and num_episodes + 1, **options)


@breaks("as_many_episodes_as_were_asked_for", "expected a whole one")
class CountsChunksAsEpisodes(PlainRunner):
    def sample(self, *, num_episodes=None, **options):
        if num_episodes is None:
            return super().sample(**options)
        return EpisodeList(list(super().sample(num_timesteps=6 * num_episodes, **options))[:num_episodes])


# --- What acts --------------------------------------------------------------------------------------------------------


@breaks("actions_are_those_of_the_module", "found actions")
class MixesLanesUp(PlainRunner):
    def choose(self, *arguments):
        actions, extras = super().choose(*arguments)
        return actions[::-1], extras


@breaks("actions_are_those_of_the_module", "found tag")
class MixesOutputsUp(PlainRunner):
    def choose(self, *arguments):
        actions, extras = super().choose(*arguments)
        return actions, extras[::-1]


@breaks("actions_are_those_of_the_module", r"found the extra outputs \[\]")
class ForgetsOutputs(PlainRunner):
    def choose(self, *arguments):
        actions, extras = super().choose(*arguments)
        return actions, [None] * len(extras)


@breaks("exploring_decides_what_acts", r"sample\(explore=False\)")
class AlwaysExplores(PlainRunner):
    def sample(self, *, explore=True, **options):
        return super().sample(**options)


@breaks("exploring_decides_what_acts", r"sample\(random_actions=True\).*expected none")
class AsksTheModuleAnyway(PlainRunner):
    def sample(self, *, random_actions=False, **options):
        return super().sample(**options)


@breaks("chunks_carry_their_lookback", "found a lookback of 0")
class ForgetsTheLookback(PlainRunner):
    def __init__(self, *arguments, lookback, **options):
        super().__init__(*arguments, lookback=0, **options)


# --- Environments and seeds -------------------------------------------------------------------------------------------


@breaks("environments_are_used_as_they_should_be", "a step after the end of an episode")
class StepsAfterTheEnd(PlainRunner):
    def step(self, *arguments):
        super().step(*arguments)
        for lane in self.lanes:
            if lane.episode is None:
                lane.env.step(0)


@breaks("environments_are_used_as_they_should_be", "the first reset without a seed")
class NeverSeeds(PlainRunner):
    def next_seed(self, lane):
        return None


@breaks("environments_are_used_as_they_should_be", r"found the seeds \[5, 5, 5\]")
class HasOneSeedForAll(PlainRunner):
    def next_seed(self, lane):
        return 5


@breaks("it_runs", "inside of Discrete")
class ActsOutsideTheSpace(PlainRunner):
    def choose(self, *arguments):
        actions, extras = super().choose(*arguments)
        return actions + 5, extras


@breaks("same_seed_gives_same_episodes", "found the episodes")
class IgnoresTheSeed(PlainRunner):
    def __init__(self, *arguments, seed, **options):
        super().__init__(*arguments, seed=seed + 1 + next(_numbers), **options)


@breaks("same_seed_gives_same_episodes", "with two seeds of the runner")
class AlwaysHasTheSameSeed(PlainRunner):
    def __init__(self, *arguments, seed, **options):
        super().__init__(*arguments, seed=3, **options)


@breaks("same_seed_gives_same_episodes", "actions")
class ThrowsOtherDice(PlainRunner):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.rng = np.random.default_rng(next(_numbers))


# --- Memory -----------------------------------------------------------------------------------------------------------


@breaks("returned_episodes_stay", "rewards")
class WritesIntoOldEpisodes(PlainRunner):
    last = ()

    def sample(self, **options):
        for episode in self.last:
            episode.set_rewards(new_data=[0.0] * len(episode))
        self.last = super().sample(**options)
        return self.last


@breaks("an_error_loses_nothing", "hides what the module raises")
class HidesErrors(PlainRunner):
    def sample(self, **options):
        try:
            return super().sample(**options)
        except RuntimeError:
            return EpisodeList([])


@breaks("an_error_loses_nothing", "found nothing of|begins at|found observations")
class DropsEverythingOnAnError(PlainRunner):
    def sample(self, **options):
        try:
            return super().sample(**options)
        except RuntimeError:
            self.leave_episodes()
            self.waiting.clear()
            raise


@breaks("evaluation_leaves_sampling_alone", "found the episodes")
class EvaluatesInItsOwnEnvironments(PlainRunner):
    def evaluate(self, num_episodes):
        return self.sample(num_episodes=num_episodes)


@breaks("evaluation_leaves_sampling_alone", "expected two whole episodes")
class EvaluatesOnce(PlainRunner):
    def evaluate(self, num_episodes):
        return super().evaluate(1)


@breaks("restored_runners_go_on_alike", "found the episodes")
class ForgetsHowManyEpisodesThereWere(PlainRunner):
    def set_state(self, state):
        super().set_state({**state, "counts": [0] * len(self.lanes)})


@breaks("it_closes_what_it_has_opened", r"the environments \[0, 1, 2\] open")
class LeavesEnvironmentsOpen(PlainRunner):
    def close(self):
        self.is_closed = True


@breaks("it_closes_what_it_has_opened", "closed already")
class ClosesOnlyOnce(PlainRunner):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.closings = 0

    def close(self):
        self.closings += 1
        if self.closings == 2:
            raise ValueError("closed already")
        super().close()


@breaks("it_closes_what_it_has_opened", "still works after `close`")
class GoesOnAfterTheEnd(PlainRunner):
    def close(self):
        super().close()
        self.is_closed = False
        for lane in self.lanes:
            lane.env.usage.is_closed = True
            lane.env = type(lane.env)(lane.env.usage.number)
            lane.episode = None


@breaks("it_closes_what_it_has_opened", "found the processes")
class LeavesAProcess(PlainRunner):
    def close(self):
        # Only this law closes a second time, and one process is enough.
        if self.is_closed and not PROCESSES:
            PROCESSES.append(multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,), daemon=True))
            PROCESSES[0].start()
        super().close()


# --- Several agents ---------------------------------------------------------------------------------------------------


class Wrapped:
    """A right runner of several agents, whose calls go through the faulty ones."""

    def __init__(self, *arguments, **options):
        self.inner = MultiAgentEnvRunner(*arguments, **options)

    def __getattr__(self, name):
        return getattr(self.inner, name)


@breaks("every_step_is_there_once", "begins at|found nothing of", multi_agent=True)
class LosesAChunkOfMany(Wrapped):
    def sample(self, **options):
        return EpisodeList(list(self.inner.sample(**options))[1:])


@breaks("every_step_is_there_once", "agent 'always': found sum of rewards", multi_agent=True)
class PaysTwice(Wrapped):
    def sample(self, **options):
        episodes = self.inner.sample(**options)
        for game in episodes:
            episode = game.agent_episodes.get("always")
            if episode is not None and len(episode):
                episode.set_rewards(new_data=2 * episode.get_rewards())
        return episodes


@breaks("chunks_carry_their_lookback", "found a lookback of 0", multi_agent=True)
class ForgetsTheLookbackOfMany(Wrapped):
    def __init__(self, *arguments, lookback, **options):
        super().__init__(*arguments, lookback=0, **options)
