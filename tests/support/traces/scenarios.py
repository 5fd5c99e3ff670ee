"""Seeded scenarios: what is played, batched and learned in each of them, as nested dicts of columns."""

from functools import partial

import gymnasium as gym
import numpy as np
import torch

from episodia.connectors import (
    ComputeReturnsToGo,
    EpsilonGreedy,
    FlattenObservations,
    FrameStacking,
    GaussianNoise,
    MeanStdFilter,
    PrevActionsPrevRewards,
)
from episodia.env_runners import MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.learners import A2CConfig, Learner, PPOConfig, ReinforceConfig, default_pipeline
from episodia.policies import MultiAgentPolicy, Policy
from scripted_agents import Echo, ScriptedEnv
from traces.games import ACTIONS, OBSERVATIONS, CartPoles, Turns, Walkers
from traces.networks import SEED, network, recorded_weights
from traces.pieces import AddSpeeds, Cropped, Doubled, NotesReturns, Unchanged
from traces.recorded_columns import of_episodes, of_games
from traces.special_scenarios import SPECIAL

CARTPOLE, PENDULUM = "CartPole-v1", "Pendulum-v1"
ALGORITHMS = {"PPO": PPOConfig, "A2C": A2CConfig, "REINFORCE": ReinforceConfig}


def spaces_of(env):
    made = gym.make(env)
    return made.observation_space, made.action_space


class Played:
    """A single-agent runner with a network behind `pieces`; both can be made again with the same seeds."""

    def __init__(self, env=CARTPOLE, kind="MLP", pieces=(), to_env=(), **settings):
        self.env, self.kind, self.pieces = env, kind, pieces
        observation_space, action_space = spaces_of(env)
        pipeline = default_pipeline(PPOConfig(), observation_space, action_space, custom=[make() for make in pieces])
        shown = pipeline.observation_space if pieces else observation_space
        self.module = network(kind, shown, action_space)
        settings = {"num_envs": 3, "seed": SEED, **settings}
        made, behind = [make() for make in pieces], [make() for make in to_env]
        self.runner = SingleAgentEnvRunner(
            env, self.module, env_to_module=made or None, module_to_env=behind or None, **settings
        )

    def learner(self, config):
        """Return a learner of the same network, with the same pieces in front unless they write into the episodes."""
        custom = [make() for make in self.pieces if make not in (Doubled, Cropped, AddSpeeds, NotesReturns)]
        pipeline = default_pipeline(
            config,
            *spaces_of(self.env),
            custom=custom,
            stateful=self.module.is_stateful(),
            module=self.module,
        )
        return Learner(self.module, config, learner_pipeline=pipeline if custom else None, seed=SEED)


# --- Episodes -------------------------------------------------------------------------------------------------------


def episodes(*goals, **options):
    """Return the episodes of some samples in a row."""
    with Played(**options).runner as runner:
        return {f"sample {number}": of_episodes(runner.sample(**goal)) for number, goal in enumerate(goals)}


def steps(count=60, **options):
    return {"num_timesteps": count, **options}


EPISODES = {
    "sync 1 env": partial(episodes, steps(40), steps(41), num_envs=1),
    "sync 5 envs": partial(episodes, steps(100), steps(101), steps(7), num_envs=5),
    "vectorised": partial(episodes, steps(), steps(61), vectorization="vector_entry_point"),
    "async": partial(episodes, steps(), steps(61), num_envs=2, vectorization="async"),
    "Pendulum": partial(episodes, steps(), steps(), env=PENDULUM),
    "Pendulum, 1 env": partial(episodes, steps(), env=PENDULUM, num_envs=1),
    "LSTM": partial(episodes, steps(), steps(), kind="LSTM"),
    "GRU": partial(episodes, steps(), steps(), kind="GRU"),
    "default module": partial(episodes, steps(), kind="default"),
    "random actions": partial(episodes, steps(random_actions=True), steps(), steps(random_actions=True)),
    "random actions, Pendulum": partial(episodes, steps(random_actions=True), env=PENDULUM),
    "whole episodes": partial(episodes, {"num_episodes": 4}, {"num_episodes": 5}, steps(), {"num_episodes": 2}),
    "not exploring": partial(episodes, steps(explore=False), steps()),
    "force reset": partial(episodes, steps(), steps(force_reset=True)),
    "horizon": partial(episodes, steps(), steps(), horizon=9),
    "soft horizon": partial(episodes, steps(), steps(), soft_horizon=9),
    "terminations ignored": partial(episodes, steps(), ignore_terminations=True),
    "lookback 5": partial(episodes, steps(), steps(20), steps(20), lookback=5),
    "delayed rewards": partial(episodes, steps(), steps(), reward_delay=2),
}

STACK = (partial(FrameStacking, num_frames=4), FlattenObservations)
PAST = (partial(PrevActionsPrevRewards, n_prev_actions=2, n_prev_rewards=2), FlattenObservations)
EPISODES |= {
    "FrameStacking": partial(episodes, steps(), steps(), pieces=STACK),
    "FrameStacking, LSTM": partial(episodes, steps(), steps(), pieces=STACK, kind="LSTM"),
    "PrevActionsPrevRewards": partial(episodes, steps(), steps(), pieces=PAST),
    "PrevActionsPrevRewards, default module": partial(episodes, steps(), pieces=PAST[:1], kind="default"),
    "FlattenObservations": partial(episodes, steps(), steps(), pieces=(FlattenObservations,)),
    "MeanStdFilter": partial(episodes, steps(), steps(), steps(), pieces=(MeanStdFilter,)),
    "MeanStdFilter, vectorised": partial(
        episodes, steps(), steps(), pieces=(MeanStdFilter,), vectorization="vector_entry_point"
    ),
    "plugin that does nothing": partial(episodes, steps(), steps(), pieces=(Unchanged,)),
    "plugin with add_batch_item": partial(episodes, steps(), steps(), pieces=(AddSpeeds,)),
    "plugin that looks back": partial(episodes, steps(), steps(), pieces=(NotesReturns,)),
    "observation preprocessor": partial(episodes, steps(), steps(), pieces=(Doubled,)),
    "observation preprocessor of another dtype": partial(episodes, steps(), steps(), pieces=(Cropped,)),
    "preprocessor, filter and plugin": partial(episodes, steps(), steps(), pieces=(Cropped, Unchanged, MeanStdFilter)),
    "preprocessor, stack, vectorised": partial(
        episodes, steps(), steps(), pieces=(Doubled, *STACK), vectorization="vector_entry_point"
    ),
    "EpsilonGreedy": partial(
        episodes, steps(), steps(explore=False), to_env=(partial(EpsilonGreedy, epsilon=0.5, seed=1),)
    ),
    "GaussianNoise": partial(
        episodes, steps(), steps(explore=False), env=PENDULUM, to_env=(partial(GaussianNoise, std=0.3, seed=1),)
    ),
}


# --- Games of several agents ----------------------------------------------------------------------------------------


def team_runner(game, num_agents=3, kind="MLP", pieces=(), modules=("default_policy",), **settings):
    networks = {module_id: network(kind, OBSERVATIONS, ACTIONS) for module_id in modules}
    by_agent = None if len(modules) == 1 else lambda agent, _: modules[int(agent[-1]) % len(modules)]
    return MultiAgentEnvRunner(
        partial(game, num_agents),
        networks,
        agent_to_module_mapping_fn=by_agent,
        env_to_module=[make() for make in pieces] or None,
        **{"num_envs": 2, "seed": SEED, "lookback": 1, **settings},
    )


def games(*goals, **options):
    with team_runner(**options) as runner:
        return {f"sample {number}": of_games(runner.sample(**goal)) for number, goal in enumerate(goals)}


def scripted(kind, *goals):
    """Return games in which agents come late, wait, and leave at random, with rewards for agents that do not act."""
    numbers = iter(range(2))
    runner = MultiAgentEnvRunner(
        lambda: ScriptedEnv(next(numbers), kind), {"default_policy": Echo()}, num_envs=2, seed=SEED, lookback=1
    )
    with runner:
        return {f"sample {number}": of_games(runner.sample(**goal)) for number, goal in enumerate(goals)}


TWO = ("left", "right")
FILTERS = partial(MeanStdFilter, multi_agent=True)
GAMES = {
    "agents together": partial(games, steps(30), steps(31), game=Walkers),
    "agents leave one by one": partial(games, steps(), steps(), game=CartPoles, num_agents=4),
    "agents in turns": partial(games, steps(30), steps(7), game=Turns),
    "two modules": partial(games, steps(30), steps(30), game=Walkers, num_agents=4, modules=TWO),
    "two modules in turns": partial(games, steps(30), steps(30), game=Turns, modules=TWO),
    "two modules, agents leave": partial(games, steps(), steps(), game=CartPoles, modules=TWO),
    "LSTM": partial(games, steps(30), steps(30), game=CartPoles, kind="LSTM"),
    "whole games": partial(games, {"num_episodes": 3}, {"num_episodes": 3}, steps(20), game=CartPoles),
    "async": partial(games, steps(30), steps(30), game=CartPoles, vectorization="async"),
    "random actions": partial(games, steps(30, random_actions=True), steps(30), game=CartPoles),
    "horizon": partial(games, steps(30), steps(30), game=CartPoles, horizon=7),
    "soft horizon": partial(games, steps(30), steps(30), game=Walkers, soft_horizon=7),
    "steps of agents": partial(games, steps(50), steps(50), game=CartPoles, count_steps_by="agent_steps"),
    "lookback 3": partial(games, steps(30), steps(10), game=CartPoles, lookback=3),
    "plugin that does nothing": partial(games, steps(30), steps(30), game=CartPoles, pieces=(Unchanged,)),
    "plugin with add_batch_item": partial(games, steps(30), steps(30), game=CartPoles, pieces=(AddSpeeds,)),
    "observation preprocessor": partial(games, steps(30), steps(30), game=CartPoles, pieces=(Doubled,)),
    "observation preprocessor in turns": partial(games, steps(30), steps(30), game=Turns, pieces=(Doubled,)),
    "MeanStdFilter": partial(games, steps(30), steps(30), game=CartPoles, pieces=(FILTERS,)),
    "scripted, together": partial(scripted, "simultaneous", steps(30), steps(9)),
    "scripted, in turns": partial(scripted, "turns", steps(30), steps(9)),
    "scripted, at random": partial(scripted, "random", steps(60), steps(9), {"num_episodes": 6}, steps(30)),
}


# --- Batches and weights --------------------------------------------------------------------------------------------


def on_chunks(learner):
    """Let REINFORCE take chunks that go on; their returns end at the cut, as when the traces were recorded."""
    if any(isinstance(piece, ComputeReturnsToGo) for piece in learner.pipeline):
        learner.pipeline.replace(ComputeReturnsToGo, ComputeReturnsToGo(gamma=learner.config.gamma))
    return learner


def batches(algorithm, **options):
    """Return what learners make of two samples, of which the second begins with chunks."""
    played = Played(**options)
    learner = on_chunks(played.learner(ALGORITHMS[algorithm]()))
    with played.runner as runner:
        return {f"batch {number}": learner.batch_of(runner.sample(num_timesteps=90)) for number in range(2)}


def team_batches(algorithm, **options):
    with team_runner(**options) as runner:
        learner = on_chunks(Learner(runner.modules, ALGORITHMS[algorithm](), seed=SEED))
        return {f"batch {number}": learner.batch_of(runner.sample(num_timesteps=50)) for number in range(2)}


def weights(algorithm, **options):
    """Return the weights, and some metrics, after three updates."""
    played = Played(**options)
    return _learned(played.runner, played.learner(ALGORITHMS[algorithm]()))


def team_weights(algorithm, **options):
    runner = team_runner(**options)
    return _learned(runner, Learner(runner.modules, ALGORITHMS[algorithm](), seed=SEED))


def _learned(runner, learner):
    on_chunks(learner)
    with runner:
        for _ in range(3):
            metrics = learner.update(runner.sample(num_timesteps=120), num_epochs=2, minibatch_size=40)
        played = runner.sample(num_timesteps=30)
    return {
        "weights": recorded_weights(learner),
        "entropy": {module_id: np.float64(metrics[module_id]["entropy"]) for module_id in learner.trained_modules},
        "num_steps": {module_id: metrics[module_id]["num_steps"] for module_id in learner.trained_modules},
        "played": [len(one) for one in played],
    }


KINDS = {"MLP": {}, "LSTM": {"kind": "LSTM"}, "GRU": {"kind": "GRU"}, "Pendulum": {"env": PENDULUM}}
LEARNED = {f"{algorithm} {name}": (algorithm, options) for algorithm in ALGORITHMS for name, options in KINDS.items()}
TEAMS = {
    f"{algorithm} {name}": (algorithm, options)
    for algorithm in ALGORITHMS
    for name, options in {
        "agents leave": {"game": CartPoles},
        "turns": {"game": Turns},
        "two modules": {"game": CartPoles, "modules": TWO},
        "agents leave, LSTM": {"game": CartPoles, "kind": "LSTM"},
    }.items()
}
BEHIND = {
    "FrameStacking": STACK,
    "PrevActionsPrevRewards": PAST,
    "MeanStdFilter": (MeanStdFilter,),
    "preprocessor": (Doubled,),
}
BATCHES = {name: partial(batches, algorithm, **options) for name, (algorithm, options) in LEARNED.items()}
BATCHES |= {f"PPO {name}": partial(batches, "PPO", pieces=pieces) for name, pieces in BEHIND.items()}
BATCHES |= {"PPO lookback 0": partial(batches, "PPO", lookback=0), "PPO horizon": partial(batches, "PPO", horizon=9)}
BATCHES |= {
    f"many agents, {name}": partial(team_batches, algorithm, **options) for name, (algorithm, options) in TEAMS.items()
}
WEIGHTS = {name: partial(weights, algorithm, **options) for name, (algorithm, options) in LEARNED.items()}
WEIGHTS |= {
    f"many agents, {name}": partial(team_weights, algorithm, **options)
    for name, (algorithm, options) in TEAMS.items()
    if name in ("PPO two modules", "A2C agents leave", "REINFORCE turns")
}


# --- Policies, evaluations and states -------------------------------------------------------------------------------


def acted(explore=False, **options):
    """Return the actions of a policy alone, over several episodes."""
    played = Played(**options)
    with played.runner as runner:
        runner.sample(num_timesteps=30)
        policy = Policy(played.module, runner.env_to_module, runner.module_to_env, explore=explore, seed=SEED)
    env, actions, lengths = gym.make(played.env), [], []
    for episode in range(3):
        observation, _ = env.reset(seed=SEED + episode)
        begun = len(actions)
        for _ in range(25):
            actions.append(policy(observation))
            observation, reward, terminated, truncated, _ = env.step(actions[-1])
            policy.observe(reward)
            if terminated or truncated:
                break
        lengths.append(len(actions) - begun)
        policy.reset()
    return {"actions": np.array(actions), "lengths": lengths}


def team_acted(**options):
    with team_runner(**options) as runner:
        mapping = (lambda agent, _: TWO[int(agent[-1]) % 2]) if "modules" in options else None
        policy = MultiAgentPolicy(
            dict(runner.modules),
            runner.env_to_module,
            runner.module_to_env,
            agent_to_module_mapping_fn=mapping,
            seed=SEED,
        )
    game, taken = options["game"](3), []
    for episode in range(2):
        seen, _ = game.reset(seed=SEED + episode)
        over = False
        while not over:
            actions = policy(seen)
            taken.append({agent: int(action) for agent, action in actions.items()})
            seen, rewards, terminateds, truncateds, _ = game.step(actions)
            policy.observe(rewards)
            over = terminateds["__all__"] or truncateds["__all__"]
            seen = {agent: seen[agent] for agent in seen if not terminateds.get(agent)}
        policy.reset()
    return {"actions": taken}


def evaluated(**options):
    played = Played(**options)
    with played.runner as runner:
        first = of_episodes(runner.evaluate(3))
        sampled = of_episodes(runner.sample(num_timesteps=40))
        return {"first": first, "sampled": sampled, "second": of_episodes(runner.evaluate(2, explore=True, seed=3))}


def team_evaluated(**options):
    with team_runner(**options) as runner:
        first = of_games(runner.evaluate(3))
        return {"first": first, "sampled": of_games(runner.sample(num_timesteps=40))}


def restored(**options):
    """Return what a runner plays from the state of another one."""
    with Played(**options).runner as runner:
        runner.sample(num_timesteps=50)
        state = runner.get_state()
    with Played(**options).runner as other:
        other.set_state(state)
        return of_episodes(other.sample(num_timesteps=50))


def team_restored(**options):
    with team_runner(**options) as runner:
        runner.sample(num_timesteps=30)
        state = runner.get_state()
    with team_runner(**options) as other:
        other.set_state(state)
        return of_games(other.sample(num_timesteps=30))


def counted(**options):
    """Return the counters of a runner, and of a callback."""
    seen = []
    callbacks = [
        {"on_episode_end": lambda episode, **_: seen.append([episode.id_, len(episode), episode.get_return()])}
    ]
    with Played(callbacks=callbacks, **options).runner as runner:
        runner.sample(num_timesteps=100)
        metrics = runner.get_metrics().as_dict()
    timed = ("time", "duration", "per_s")
    exact = {name: value for name, value in metrics.items() if not any(word in name for word in timed)}
    return {"ended": seen, "metrics": exact}


def watched(**options):
    """Return what a callback sees after each step of games."""
    seen = []
    callbacks = [
        {"on_episode_step": lambda episode, env_index, **_: seen.append([env_index, episode.id_, episode.env_t])}
    ]
    with team_runner(callbacks=callbacks, **options) as runner:
        return {"games": of_games(runner.sample(num_timesteps=40)), "seen": seen}


OTHERS = {
    "policy": acted,
    "policy that explores": partial(acted, explore=True),
    "policy with an LSTM": partial(acted, kind="LSTM", explore=True),
    "policy behind FrameStacking": partial(acted, pieces=STACK),
    "policy behind PrevActionsPrevRewards": partial(acted, pieces=PAST, explore=True),
    "policy behind MeanStdFilter": partial(acted, pieces=(MeanStdFilter,)),
    "policy behind a preprocessor": partial(acted, pieces=(Cropped,), explore=True),
    "policy in Pendulum": partial(acted, env=PENDULUM, explore=True),
    "policy of many agents": partial(team_acted, game=CartPoles),
    "policy of many agents in turns": partial(team_acted, game=Turns, modules=TWO),
    "evaluation": evaluated,
    "evaluation with an LSTM and a filter": partial(evaluated, kind="LSTM", pieces=(MeanStdFilter,)),
    "evaluation of many agents": partial(team_evaluated, game=CartPoles),
    "state": restored,
    "state with a filter": partial(restored, pieces=(MeanStdFilter,)),
    "state with exploration": partial(restored, to_env=(partial(EpsilonGreedy, epsilon=0.5, seed=1),)),
    "state of many agents": partial(team_restored, game=CartPoles, modules=TWO),
    "metrics": counted,
    "callback on each step of many agents": partial(watched, game=CartPoles),
}

_GROUPS = {"episodes": EPISODES, "games": GAMES, "batches": BATCHES, "weights": WEIGHTS, "special": SPECIAL, "": OTHERS}
SCENARIOS = {
    f"{group}: {name}" if group else name: play
    for group, scenarios in _GROUPS.items()
    for name, play in scenarios.items()
}


def play(name):
    """Return the columns of one scenario, played on one thread as when it was recorded."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return SCENARIOS[name]()
    finally:
        torch.set_num_threads(threads)
