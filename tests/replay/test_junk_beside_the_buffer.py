"""What lies around the buffer answers junk with errors of the library."""

import contextlib
import tracemalloc

import numpy as np
import pytest
import torch

from episodia import SingleAgentEpisode
from episodia.connectors import BatchView
from episodia.episodes import EpisodeStore
from episodia.errors import EpisodiaError
from episodia.replay import AtMost, MixedReplay, RateLimiter, ReplayBuffer, Sequences, minari_episodes
from episodia.rllib import EpisodeReplayBuffer, PrioritizedEpisodeReplayBuffer

JUNK = [
    *(None, b"x", -1, 1.5, float("nan"), True, [], [1, [2]], {}, {"a": 1}, set(), object(), len),
    *(np.array(["a"]), np.array([[1, 2]]), np.array(3), torch.zeros(2)),
]


def filled(made):
    made.add([SingleAgentEpisode(observations=[0, 1, 2], actions=[5, 6], rewards=[0.5, 1.0], len_lookback_buffer=0)])
    return made


def buffer():
    return filled(ReplayBuffer(100, seed=0))


def rllib_buffer():
    return filled(PrioritizedEpisodeReplayBuffer(100, seed=0))


def mixed():
    return MixedReplay([buffer(), buffer()], [1, 1])


VIEW = BatchView({"a": np.arange(3)})
CALLS = {
    "RateLimiter, samples_per_insert": lambda junk: RateLimiter(samples_per_insert=junk, error=9),
    "RateLimiter, error": lambda junk: RateLimiter(samples_per_insert=1, error=junk),
    "RateLimiter.set_state": lambda junk: RateLimiter(samples_per_insert=1, error=9).set_state(junk),
    "MixedReplay, buffers": lambda junk: MixedReplay(junk, [1]),
    "MixedReplay, shares": lambda junk: MixedReplay([buffer()], junk),
    "MixedReplay, one share": lambda junk: MixedReplay([buffer()], [junk]),
    "MixedReplay.sample": lambda junk: mixed().sample(junk),
    "MixedReplay.update_priorities": lambda junk: mixed().update_priorities(junk, [1.0]),
    "MixedReplay.set_state": lambda junk: mixed().set_state(junk),
    "minari_episodes": lambda junk: list(minari_episodes(junk)),
    "BatchView": BatchView,
    "BatchView.of": BatchView.of,
    "BatchView.cat": BatchView.cat,
    "BatchView[...]": lambda junk: VIEW[junk],
    "BatchView.split": lambda junk: list(VIEW.split(junk)),
    "BatchView.split, rng": lambda junk: list(VIEW.split(2, rng=junk)),
    "EpisodeStore": EpisodeStore,
    "ReplayBuffer.sample, modules": lambda junk: buffer().sample(2, modules=junk),
    "ReplayBuffer.update_priorities, keys": lambda junk: buffer().update_priorities(junk, [1.0]),
    "ReplayBuffer.update_priorities, values": lambda junk: buffer().update_priorities([1], junk),
    "ReplayBuffer.save": lambda junk: buffer().save(junk),
    "ReplayBuffer.load": lambda junk: buffer().load(junk),
    "EpisodeReplayBuffer": EpisodeReplayBuffer,
    "EpisodeReplayBuffer, seed": lambda junk: EpisodeReplayBuffer(seed=junk),
    "EpisodeReplayBuffer.add": lambda junk: EpisodeReplayBuffer(100).add(junk),
    "EpisodeReplayBuffer.sample": lambda junk: rllib_buffer().sample(junk),
    "EpisodeReplayBuffer.sample, length": lambda junk: rllib_buffer().sample(2, batch_length_T=junk),
    "EpisodeReplayBuffer.sample, n_step": lambda junk: rllib_buffer().sample(2, n_step=junk),
    "EpisodeReplayBuffer.sample, range": lambda junk: rllib_buffer().sample(2, n_step=(junk, 3)),
    "EpisodeReplayBuffer.sample, beta": lambda junk: rllib_buffer().sample(2, beta=junk),
    "EpisodeReplayBuffer.set_state": lambda junk: rllib_buffer().set_state(junk),
}


@pytest.mark.parametrize("name", CALLS)
def test_junk_is_an_error_of_the_library_or_fits(name):
    accepted = 0
    for junk in JUNK:
        with contextlib.suppress(EpisodiaError):
            CALLS[name](junk)
            accepted += 1

    assert accepted <= len(JUNK) // 2


@pytest.mark.parametrize("values", [[[1.0], [1.0, 2.0]], torch.ones(1, requires_grad=True), [object()]])
def test_values_that_are_no_array_are_no_priorities(values):
    made = buffer()
    keys = made.sample(1).keys

    with pytest.raises(EpisodiaError, match="found"):
        made.update_priorities(keys, values)
    with pytest.raises(EpisodiaError, match="found"):
        made.update_priorities(values, [1.0])


@pytest.mark.parametrize("modules", [5, [], "default_policy", [["default_policy"]], np.array([1, 2])])
def test_modules_that_are_not_stored_are_not_sampled(modules):
    with pytest.raises(EpisodiaError, match="expected some of"):
        buffer().sample(1, modules=modules)


HUGE = [2**31, 2**62, 2**64, 10**30]


@pytest.mark.parametrize("huge", HUGE)
@pytest.mark.parametrize(
    "call",
    [
        lambda huge: buffer().sample(2, Sequences(huge)),
        lambda huge: buffer().sample(2, Sequences(2, burn_in=huge)),
        lambda huge: buffer().sample(2, Sequences(2, every=huge)),
        lambda huge: filled(ReplayBuffer(100, selector=AtMost(huge), seed=0)).sample(2),
        lambda huge: rllib_buffer().sample(2, batch_length_T=huge),
        lambda huge: rllib_buffer().sample(2, n_step=huge),
        lambda huge: rllib_buffer().sample(2, n_step=(1, huge)),
    ],
)
def test_huge_numbers_fit_or_are_errors_of_the_library(call, huge):
    with contextlib.suppress(EpisodiaError):
        call(huge)


def test_a_step_that_may_be_drawn_very_often_costs_no_memory_for_each_draw():
    made = filled(ReplayBuffer(100, selector=AtMost(10**9), seed=0))

    tracemalloc.start()
    made.sample(50)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 10_000_000


@pytest.mark.parametrize("flag", [np.zeros(2), torch.zeros(2), 1, None])
def test_sampling_episodes_is_true_or_false(flag):
    with pytest.raises(EpisodiaError, match="sample_episodes"):
        rllib_buffer().sample(2, sample_episodes=flag)


@pytest.mark.parametrize("add", [lambda junk: buffer().add(junk), lambda junk: rllib_buffer().add(junk)])
def test_a_number_of_torch_is_not_a_list_of_episodes(add):
    with pytest.raises(EpisodiaError, match="expected a list of episodes"):
        add(torch.tensor(3))
