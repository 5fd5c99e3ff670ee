"""A game of PettingZoo with action masks, played through both pipelines of a runner: every move is legal."""

import pettingzoo
import pytest

from episodia import Columns, MultiAgentEpisode
from episodia.connectors.defaults import env_to_module, module_to_env
from episodia.connectors.module_to_env.epsilon_greedy import EpsilonGreedy
from episodia.modules import MLPActorCritic, MultiModule


def _modules(env):
    """Return two players, and the module that each agent is served by."""
    players = dict(zip(env.possible_agents, ("first", "second"), strict=True))
    return players, MultiModule(
        {
            module: MLPActorCritic(env.observation_space(agent), env.action_space(agent))
            for agent, module in players.items()
        }
    )


def _moves(env, seed, explore):
    """Play a game; yield each move and the mask that it was made under."""
    players, modules = _modules(env)
    env.reset(seed=seed)
    agent = env.agent_selection
    game = MultiAgentEpisode(agent_to_module_mapping_fn=lambda agent_id, *_, **__: players[agent_id])
    game.add_env_reset(observations={agent: env.observe(agent)})
    before, after = (
        env_to_module(multi_agent=True),
        module_to_env(multi_agent=True, custom=[EpsilonGreedy(epsilon=0.5)]),
    )
    while not any(env.terminations.values()):
        shared_data, agent = {}, env.agent_selection
        batch = before(rl_module=modules, batch={}, episodes=[game], explore=explore, shared_data=shared_data)
        outputs = {module: modules[module].forward_exploration(columns) for module, columns in batch.items()}
        acted = after(rl_module=modules, batch=outputs, episodes=[game], explore=explore, shared_data=shared_data)
        (chosen,) = acted[Columns.ACTIONS_FOR_ENV]
        assert chosen.keys() == {agent}
        yield int(chosen[agent]), env.observe(agent)["action_mask"]
        env.step(int(chosen[agent]))
        following = env.agent_selection
        game.add_env_step(
            {following: env.observe(following)}, {agent: acted[Columns.ACTIONS][0][agent]}, dict(env.rewards)
        )


@pytest.mark.parametrize("explore", [True, False])
def test_every_move_is_legal(explore):
    env = pettingzoo.make("aec", "classic/tictactoe-v3")

    for seed in range(5):
        moves = list(_moves(env, seed, explore))

        assert len(moves) >= 5
        assert all(mask[move] for move, mask in moves)
