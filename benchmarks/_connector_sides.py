"""The pipelines of both sides, as their own learners and runners build them, and the same networks behind them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from _connector_data import GAMMA, LAMBDA, MAX_SEQ_LEN, UNITS, FlatValues, RecurrentValues, Trajectory
from gymnasium import spaces
from torch import Tensor, nn

OBSERVATIONS = spaces.Box(-10.0, 10.0, (4,), np.float32)
ACTIONS = spaces.Discrete(2)
# The name that both sides have for the only module.
MODULE_ID = "default_policy"
BatchOf = Callable[[Any], dict[str, Any]]
EXTRAS = ("action_logp", "action_dist_inputs")


class Ours:
    """Episodes, modules and pipelines of episodia."""

    counts_artificial_steps = False

    def __init__(self) -> None:
        self.episode_class = import_module("episodia").SingleAgentEpisode
        self.logging: dict[str, Any] = {}

    @staticmethod
    def batches(network: FlatValues | RecurrentValues) -> BatchOf:
        """Return what a PPO learner makes of episodes."""
        learners = import_module("episodia.learners")
        config = learners.PPOConfig(gamma=GAMMA, lambda_=LAMBDA, max_seq_len=MAX_SEQ_LEN)
        learner = learners.Learner(
            _OurModule(network), config, observation_space=OBSERVATIONS, action_space=ACTIONS, seed=0
        )
        return lambda episodes: learner.batch_of(episodes)[MODULE_ID]

    def env_to_module(self) -> Any:
        """Return the default env-to-module pipeline."""
        return import_module("episodia.connectors.defaults").env_to_module(OBSERVATIONS, ACTIONS)

    @staticmethod
    def acting_module(network: FlatValues | RecurrentValues) -> Any:
        """Return a module that computes values with `network`."""
        return _OurModule(network)


class _OurModule(nn.Module):
    """A network as a module that computes values. It is never asked to act, or for what a loss needs."""

    observation_space, action_space = OBSERVATIONS, ACTIONS

    def __init__(self, network: FlatValues | RecurrentValues) -> None:
        super().__init__()
        self.network = network
        self._state = _initial_state(network)

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        return self.network.values(batch)

    def forward_train(self, batch: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    forward_exploration = forward_inference = forward_train

    def is_stateful(self) -> bool:
        return bool(self._state)

    def get_initial_state(self) -> dict[str, np.ndarray]:
        return self._state


class RLlib:
    """Episodes, modules and pipelines of RLlib: what PPO's configuration and learner put together."""

    counts_artificial_steps = True

    def __init__(self) -> None:
        self.episode_class = import_module("ray.rllib.env.single_agent_episode").SingleAgentEpisode
        self._config = import_module("ray.rllib.algorithms.ppo").PPOConfig()
        # Its runners and learners always pass their logger, which times every piece.
        logger = import_module("ray.rllib.utils.metrics.metrics_logger").MetricsLogger(root=False)
        self.logging = {"metrics": logger, "metrics_prefix_key": ("connectors",)}

    def batches(self, network: FlatValues | RecurrentValues) -> BatchOf:
        """Return what PPO's learner pipeline makes of episodes."""
        pieces = import_module("ray.rllib.connectors.learner")
        pipeline = self._config.build_learner_connector(OBSERVATIONS, ACTIONS)
        pipeline.prepend(pieces.AddOneTsToEpisodesAndTruncate())
        pipeline.append(pieces.GeneralAdvantageEstimation(gamma=GAMMA, lambda_=LAMBDA))
        # A learner holds its module in a container.
        container = import_module("ray.rllib.core.rl_module.multi_rl_module").MultiRLModule()
        container.add_module(MODULE_ID, self.acting_module(network))

        def batch_of(episodes: Any) -> dict[str, Any]:
            made = pipeline(
                rl_module=container, batch={}, episodes=episodes, shared_data={}, metrics=self.logging["metrics"]
            )
            return made[MODULE_ID]

        return batch_of

    def env_to_module(self) -> Any:
        """Return PPO's env-to-module pipeline."""
        return self._config.build_env_to_module_connector(spaces={"__env_single__": (OBSERVATIONS, ACTIONS)})

    @staticmethod
    def acting_module(network: FlatValues | RecurrentValues) -> Any:
        """Return a module that computes values with `network`, as a runner holds it."""
        base = import_module("ray.rllib.core.rl_module.torch").TorchRLModule
        values = import_module("ray.rllib.core.rl_module.apis.value_function_api").ValueFunctionAPI
        state = _initial_state(network)
        methods = {
            "compute_values": lambda _, batch, embeddings=None: network.values(batch),  # noqa: ARG005
            "get_initial_state": lambda _: state,
        }
        made = type("ValuesOnly", (base, values), methods)
        return made(observation_space=OBSERVATIONS, action_space=ACTIONS, model_config={"max_seq_len": MAX_SEQ_LEN})


def recorder_of(data: list[Trajectory], steps: list[dict[str, Any]]) -> Any:
    """Return a recorder of ours that has recorded `data`, one lane for each, in the vector steps `steps`."""
    recorder = import_module("episodia.episodes.recorder.recorder").Recorder(OBSERVATIONS, ACTIONS, len(data), seed=0)
    recorder.reset(np.stack([trajectory.obs[0] for trajectory in data]))
    for step in steps:
        recorder.step(**step)
    return recorder


def vector_steps(data: list[Trajectory], states: list[dict[str, np.ndarray]] | None = None) -> list[dict[str, Any]]:
    """Return `data` as a vector environment and a module would have brought it, step by step."""
    return [_vector_step(data, states, t) for t in range(max(map(len, data)))]


def _vector_step(data: list[Trajectory], states: list[dict[str, np.ndarray]] | None, t: int) -> dict[str, Any]:
    lanes = [lane for lane, trajectory in enumerate(data) if len(trajectory) > t]
    rows = [data[lane] for lane in lanes]
    ends = np.array([len(row) == t + 1 for row in rows])
    extras: dict[str, Any] = {name: np.stack([getattr(row, name)[t] for row in rows]) for name in EXTRAS}
    if states is not None:
        extras["state_out"] = {name: np.stack([states[lane][name][t] for lane in lanes]) for name in "hc"}
    return {
        "observations": np.stack([row.obs[t + 1] for row in rows]),
        "actions": np.array([row.actions[t] for row in rows]),
        "rewards": np.array([row.rewards[t] for row in rows]),
        "terminateds": ends & np.array([row.terminated for row in rows]),
        "truncateds": ends & np.array([row.truncated for row in rows]),
        "extras": extras,
        "lanes": None if len(lanes) == len(data) else np.array(lanes),
    }


def _initial_state(network: FlatValues | RecurrentValues) -> dict[str, np.ndarray]:
    if isinstance(network, FlatValues):
        return {}
    return {name: np.zeros(UNITS, np.float32) for name in "hc"}


def finalized_episode(side: Ours | RLlib, data: Trajectory, states: dict[str, np.ndarray] | None = None) -> Any:
    """Return `data` as an episode of `side`, in arrays; with `states` as what a recurrent module has put out."""
    outputs: dict[str, Any] = {name: list(getattr(data, name)) for name in EXTRAS}
    if states is not None:
        outputs["state_out"] = [dict(zip(states, pair, strict=True)) for pair in zip(*states.values(), strict=True)]
    episode = side.episode_class(
        observations=list(data.obs),
        observation_space=OBSERVATIONS,
        actions=data.actions.tolist(),
        action_space=ACTIONS,
        rewards=data.rewards.tolist(),
        terminated=data.terminated,
        truncated=data.truncated,
        extra_model_outputs=outputs,
        len_lookback_buffer=0,
    )
    episode.to_numpy()
    return episode


def running_episode(side: Ours | RLlib, data: Trajectory) -> Any:
    """Return an episode of `side` that was stepped through `data` and goes on."""
    episode = side.episode_class(observation_space=OBSERVATIONS, action_space=ACTIONS)
    episode.add_env_reset(data.obs[0].copy(), {})
    for t in range(len(data)):
        outputs = {name: getattr(data, name)[t] for name in EXTRAS}
        step = data.obs[t + 1].copy(), int(data.actions[t]), float(data.rewards[t]), {}
        episode.add_env_step(*step, extra_model_outputs=outputs)
    return episode
