"""Write the files that the current version is remembered by: `python tests/golden/make.py`, once for each release.

What exists is left as it is: what a released version has written never changes.
"""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np

from episodia import SingleAgentEpisode
from episodia.connectors import MeanStdFilter
from episodia.episodes import EpisodeStore
from episodia.policies import Policy
from episodia.replay import Proportional, ReplayBuffer
from episodia.training import train

OBSERVATIONS = np.random.default_rng(0).normal(scale=2.0, size=(40, 4)).astype(np.float32)


def answers_of(policy):
    """Return how a policy acts on fixed observations, without exploration."""
    policy.reset()
    actions = []
    for observation in OBSERVATIONS:
        actions.append(int(policy(observation)))
        policy.observe(1.0)
    return actions


def write_run(folder):
    """Write a run, its policy and what is known about them."""
    options = {"num_envs": 2, "num_timesteps": 64, "hidden": (8,), "recurrent": "gru", "progress": False, "seed": 3}
    with train(
        "ppo", "CartPole-v1", steps=256, out=folder / "run", connectors=[MeanStdFilter()], **options
    ) as training:
        policy = training.policy()
        policy.save(folder / "policy")
        facts = {
            "steps": training.steps,
            "iteration": training.iteration,
            "return_mean": training.return_mean,
            "actions": answers_of(Policy.load(folder / "policy")),
            "weights_sum": float(sum(np.abs(value).sum() for value in training.runner.get_weights().values())),
        }
    (folder / "run" / "learning_curve.png").unlink(missing_ok=True)
    (folder / "facts.json").write_text(json.dumps(facts) + "\n")


def walks():
    """Return episodes that are the same in each version: one that has ended, and two that go on."""
    return [
        SingleAgentEpisode(
            f"walk-{number}",
            observations=OBSERVATIONS[number : number + 6],
            actions=np.arange(5) % 2,
            rewards=np.linspace(0.0, 1.0, 5),
            extra_model_outputs={"action_logp": np.linspace(-1.0, 0.0, 5)},
            infos=[{"t": t} for t in range(6)],
            terminated=number == 0,
            len_lookback_buffer=0,
        )
        for number in range(3)
    ]


def new_buffer():
    """Return an empty buffer with the arguments of the saved one."""
    return ReplayBuffer(64, selector=Proportional(), seed=0)


def write_replay(folder):
    """Write a run that learns from replay, a buffer, and a store of episodes."""
    options = {"num_envs": 2, "num_timesteps": 10, "warm_up": 20, "batch_size": 8, "capacity": 64, "hidden": (8,)}
    train("dqn", "CartPole-v1", steps=60, out=folder / "replay_run", progress=False, seed=3, **options).close()
    (folder / "replay_run" / "learning_curve.png").unlink(missing_ok=True)
    buffer = new_buffer()
    buffer.add(walks())
    buffer.save(folder / "buffer")
    with EpisodeStore(folder / "store") as store:
        store.append(walks())


def main():
    folder = Path(__file__).parent / version("episodia")
    folder.mkdir(exist_ok=True)
    if not (folder / "facts.json").exists():
        write_run(folder)
    if not (folder / "store").exists():
        write_replay(folder)


if __name__ == "__main__":
    main()
