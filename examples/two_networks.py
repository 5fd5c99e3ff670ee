"""Two networks that learn at once: a speaker sees which door has the prize, a listener has to open that door.

Each role has its own spaces and network, and needs the other role to earn a reward: the speaker has to say a different word
for each door, and the listener has to learn what the words mean. At random one door in two is right.

A known limit: with three or four doors these settings sometimes end with two doors that share a word, which neither network
can correct alone; with two doors every seed has learned the task.

python examples/two_networks.py
"""

import argparse

import numpy as np
import torch
from gymnasium import spaces

from episodia.env_runners import MultiAgentEnv, MultiAgentEnvRunner
from episodia.learners import Learner, PPOConfig
from episodia.modules import MultiModule, default_module

DOORS, ROUNDS = 2, 5


class Doors(MultiAgentEnv):
    """Five rounds: the speaker says a word, the listener hears it and opens a door; both get 1 if the door is right."""

    possible_agents = agents = ("speaker", "listener")
    observation_spaces = {  # noqa: RUF012  # the same for all
        "speaker": spaces.Discrete(DOORS),  # where the prize is
        "listener": spaces.Discrete(DOORS + 1),  # the last word; the highest number is silence
    }
    action_spaces = {"speaker": spaces.Discrete(DOORS), "listener": spaces.Discrete(DOORS)}  # noqa: RUF012  # the same

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.t, self.prize = 0, int(self.rng.integers(DOORS))
        return {"speaker": self.prize}, {}

    def step(self, actions):
        if "speaker" in actions:
            return {"listener": int(actions["speaker"])}, {}, {}, {}, {}
        is_right = float(actions["listener"] == self.prize)
        self.t, self.prize = self.t + 1, int(self.rng.integers(DOORS))
        is_over = self.t == ROUNDS
        shown = {"speaker": self.prize, "listener": DOORS} if is_over else {"speaker": self.prize}
        return shown, dict.fromkeys(self.agents, is_right), {"__all__": is_over}, {}, {}


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(options.seed)
    modules = MultiModule(
        {
            role: default_module(
                Doors.observation_spaces[role], Doors.action_spaces[role], hidden=(32,), generator=generator
            )
            for role in Doors.agents
        }
    )
    # Each agent is mapped to the module of its name.
    runner = MultiAgentEnvRunner(Doors, modules, num_envs=8, seed=options.seed)
    # An action pays off in its own round only.
    learner = Learner(modules, PPOConfig(gamma=0.0, entropy_coefficient=0.05), seed=options.seed)

    steps = 0
    while steps < options.steps:
        metrics = learner.update(runner.sample(num_timesteps=512), num_epochs=10, minibatch_size=128)
        played = runner.get_metrics()
        if (steps + played.num_env_steps) // 5_000 > steps // 5_000:
            right = np.mean(played.agent_returns["listener"]) / ROUNDS
            entropies = ", ".join(f"{role} {metrics[role]['entropy']:.2f}" for role in Doors.agents)
            print(f"{steps + played.num_env_steps:>7} steps  {right:4.0%} right  entropy: {entropies}")
        steps += played.num_env_steps

    games = runner.evaluate(100)
    score = float(np.mean([game.agent_episodes["listener"].get_return() for game in games])) / ROUNDS
    runner.close()
    print(f"100 evaluation games: {score:.1%} of the doors were right")
    return score


if __name__ == "__main__":
    main()
