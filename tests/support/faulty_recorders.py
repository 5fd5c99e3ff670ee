"""Recorders that are wrong on purpose, each in one way, and with the law that finds it out."""

import itertools

import numpy as np

from episodia import EpisodeList, SingleAgentEpisode
from episodia.testing import RecorderSubject
from list_recorder import ListRecorder

FAULTY = {}

_numbers = itertools.count()


def breaks(law, message=""):
    """Register a class under the law that finds it out; the message says what differed."""

    def register(kind):
        FAULTY[kind.__name__] = (RecorderSubject(kind), law, message)
        return kind

    return register


@breaks("it_runs", "found list from `take`")
class ReturnsAList(ListRecorder):
    def take(self, keep=bool):
        return list(super().take(keep))


@breaks("it_runs", "expected finalized")
class ReturnsGrowingEpisodes(ListRecorder):
    def take_finished(self, keep=bool):
        episodes, self.finished = EpisodeList(self.finished), []
        return episodes


@breaks("every_step_is_there_once", "number of steps")
class ForgetsLeftChunks(ListRecorder):
    def take(self, keep=bool):
        with self.changing():
            for lane in self.running_lanes():
                if len(self.present[lane]):
                    self.present[lane] = self.present[lane].cut(len_lookback_buffer=self.lookback)
        return self.take_finished(keep)


@breaks("every_step_is_there_once", "tag")
class DropsExtraOutputs(ListRecorder):
    def step(self, *args, extras=None, **kwargs):
        super().step(*args, **kwargs)


@breaks("every_step_is_there_once", "infos")
class DropsInfos(ListRecorder):
    def step(self, *args, infos=None, **kwargs):
        super().step(*args, **kwargs)


@breaks("ends_are_as_given", "is_terminated")
class TakesTruncatedForTerminated(ListRecorder):
    def end(self, lane):
        self.present[lane].is_terminated, self.present[lane].is_truncated = True, False
        super().end(lane)


@breaks("chunks_carry_their_lookback", "lookback: found 0, expected 1|lookback: found 0, expected 2")
class HasNoLookback(ListRecorder):
    lookback = property(lambda _: 0)


@breaks("running_episodes_are_shown", "lane 0")
class ListsInAnotherOrder(ListRecorder):
    def list_episodes(self):
        return super().list_episodes()[::-1]


@breaks("lanes_are_independent", "idle lanes")
class DropsAllLanes(ListRecorder):
    def drop(self, lanes):
        lost = super().drop(lanes)
        super().drop(self.running_lanes())
        return lost


@breaks("all_that_waits_is_here", "number of steps")
class ListsFinishedEpisodesOnly(ListRecorder):
    def episodes_here(self):
        return {episode.id_: episode for episode in self.finished}


@breaks("a_reset_keeps_what_was_recorded", "number of steps")
class ForgetsWhatAResetLeaves(ListRecorder):
    def reset(self, observations, infos=None, *, lanes=None):
        finished = list(self.finished)
        super().reset(observations, infos, lanes=lanes)
        self.finished = finished


@breaks("settings_reach_the_episodes", "class")
class MakesEpisodesOfItsOwn(ListRecorder):
    episode_class = SingleAgentEpisode


@breaks("settings_reach_the_episodes", "spaces")
class KnowsNoSpaces(ListRecorder):
    observation_space = action_space = None


@breaks("settings_reach_the_episodes", "version of the weights")
class CountsNoVersions(ListRecorder):
    def begin(self, *args):
        super().begin(*args)
        self.present[args[0]].weights_version = 0


@breaks("arrays_stay_apart", "observations")
class KeepsTheArraysOfOthers(ListRecorder):
    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.seen = [None] * self.num_lanes

    def step(self, observations, *args, **kwargs):
        super().step(observations, *args, **kwargs)
        self.seen = list(observations)

    def take_finished(self, keep=bool):
        for lane, row in enumerate(self.seen):
            for episode in self.finished:
                if row is not None and episode.id_ == self.present[lane].id_ and len(episode):
                    episode.set_observations(new_data=np.array(row), at_indices=-1)
        return super().take_finished(keep)


@breaks("ids_follow_the_seed", "ids follow the seed")
class NumbersAllEpisodes(ListRecorder):
    def next_id(self, lane):
        return str(next(_numbers))


@breaks("an_interrupted_take_loses_nothing", "number of steps")
class ForgetsTooEarly(ListRecorder):
    def take_finished(self, keep=bool):
        finished, self.finished = self.finished, []
        episodes = EpisodeList(episode.finalize() for episode in finished)
        keep(episodes)
        return episodes


@breaks("an_interrupt_leaves_whole_steps", "steps of the lanes")
class KnowsOfNoInterrupts(ListRecorder):
    is_broken = property(lambda _: False)
