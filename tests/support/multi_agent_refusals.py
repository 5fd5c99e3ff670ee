"""For tests of bad input: a multi-agent episode that uses everything, and a check that rejected calls change nothing."""

import copy

import numpy as np
from gymnasium import spaces

from episodia import MultiAgentEpisode
from refusals import message_of, missing_in, same

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)


def busy():
    """Return an episode with an agent of every kind.

    environment step   0   1   2   3
    "acts"             o───o───o───o     acts and observes
    "waits"            o───o─────────    has an action that is pending
    "idles"            o   o             was shown something and has not acted
    "done"             o───o───|         has ended
    """
    episode = MultiAgentEpisode(
        "game",
        observation_space=dict.fromkeys(["acts", "waits", "idles", "done"], BOX),
        action_space=dict.fromkeys(["acts", "waits", "idles", "done"], spaces.Discrete(3)),
    )
    everyone = ["acts", "waits", "idles", "done"]
    episode.add_env_reset(observations={agent: seen(0) for agent in everyone})
    step(episode, everyone, everyone)
    step(episode, ["acts", "done"], ["acts", "waits", "done"], terminateds={"done": True})
    step(episode, ["acts"], ["acts"])
    return episode


def seen(t):
    return np.full(2, t / 10, np.float32)


def step(episode, observing, acting, **kwargs):
    episode.add_env_step(
        {agent: seen(episode.env_t + 1) for agent in observing},
        dict.fromkeys(acting, 1),
        dict.fromkeys(acting, 0.5),
        extra_model_outputs={agent: {"logp": -1.0} for agent in acting},
        **kwargs,
    )


def assert_refused(episode, call, error, *words):
    """Check that `call` raises `error` with all `words` in its message, and changes nothing."""
    before = snapshot(episode)

    message = message_of(error, lambda: call(episode))
    assert missing_in(message, ("'game'", "found", "expected", *words)) == []
    assert same(snapshot(episode), before)


def snapshot(episode):
    """Return a deep copy of all that an episode holds."""
    forms = {agent: single.is_finalized for agent, single in episode.agent_episodes.items()}
    return copy.deepcopy({**episode.get_state(), "text": repr(episode), "forms": forms})


OBS, EXTRAS = {"acts": seen(4)}, {"acts": {"logp": -1.0}}
STEP = {"observations": OBS, "actions": {"acts": 1}, "rewards": {"acts": 0.5}, "extra_model_outputs": EXTRAS}
