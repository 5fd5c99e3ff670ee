"""Write the files that the current version is remembered by: `python tests/golden/make.py`, once for each release.

A folder that exists is left as it is: what a released version has written never changes.
"""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np

from episodia.connectors import MeanStdFilter
from episodia.policies import Policy
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


def main():
    folder = Path(__file__).parent / version("episodia")
    folder.mkdir()
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


if __name__ == "__main__":
    main()
