"""How agents come into a multi-agent episode, how they end, and whether their clocks fit the common one."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any, Final

from gymnasium import Space

from episodia.episodes.multi_agent.pending_step import PendingStep
from episodia.episodes.multi_agent.timeline import Timeline
from episodia.episodes.single_agent.single_agent_columns import as_infos
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import EpisodeError, EpisodiaError

if TYPE_CHECKING:
    from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode
    from episodia.episodes.multi_agent.multi_agent_facts import AgentID

# Stands for all agents, among flags.
ALL: Final = "__all__"
# What RLlib's environments may have among their infos, beside those of agents.
COMMON: Final = "__common__"


def of_agents(infos: Mapping[AgentID, Any]) -> Mapping[AgentID, Any]:
    """Return the infos of agents, without those that are common to all."""
    return {agent: info for agent, info in infos.items() if agent != COMMON} if COMMON in infos else infos


def check_name(agent: AgentID) -> None:
    """Refuse an agent with the name that stands for all."""
    if agent == ALL:
        raise EpisodeError(
            f"found an agent named {ALL!r}, expected another name: it stands for all agents, among flags only."
        )


def start(episode: MultiAgentEpisode, observations: Mapping[AgentID, Any], infos: Mapping[AgentID, Any]) -> None:
    """Store the observations of the reset."""
    modules, started = dict(episode._agent_to_module_mapping), {}
    try:
        for agent, observation in observations.items():
            started[agent] = new_agent_episode(episode, agent)
            _reset_agent(episode, started[agent], observation, infos.get(agent))
        waiting = _waiting_infos(episode, observations, of_agents(infos))
    except BaseException:  # also from the user's mapping function
        episode._agent_to_module_mapping = modules
        raise
    episode._pending.update(waiting)
    episode.agent_episodes.update(started)
    episode._timelines.update({agent: Timeline([episode.env_t]) for agent in started})
    episode._observed_last = set(started)
    episode._was_reset = True


def _reset_agent(
    episode: MultiAgentEpisode, single: SingleAgentEpisode, observation: Any, infos: Mapping[str, Any] | None
) -> None:
    try:
        single.add_env_reset(observation, infos)
        if episode.is_finalized:
            single.finalize()
    except EpisodiaError as error:
        raise type(error)(f"episode {episode.id_!r}, agent {single.agent_id!r}: {error}") from error


def _waiting_infos(
    episode: MultiAgentEpisode, observations: Mapping[AgentID, Any], infos: Mapping[AgentID, Any]
) -> dict[AgentID, PendingStep]:
    """Return the infos of a reset that wait for the first observation of their agent."""
    waiting = {}
    for agent, given in infos.items():
        if agent not in observations:
            try:
                check_name(agent)
                waiting[agent] = PendingStep(infos=as_infos(given))
            except EpisodiaError as error:
                raise type(error)(f"episode {episode.id_!r}, agent {agent!r}, infos of the reset: {error}") from error
    return {agent: step for agent, step in waiting.items() if step.infos}


def new_agent_episode(episode: MultiAgentEpisode, agent: AgentID) -> SingleAgentEpisode:
    """Return an empty episode for an agent that comes."""
    check_name(agent)
    single = SingleAgentEpisode(
        episode._agent_episode_ids.get(agent, f"{episode.id_}[{agent!r}]"),
        observation_space=_space_of(episode.observation_space, agent),
        action_space=_space_of(episode.action_space, agent),
        agent_id=agent,
        module_id=episode.module_for(agent),
        multi_agent_episode_id=episode.id_,
    )
    version = episode.weights_version
    if version is not None:
        single.weights_version = version
    return single


def _space_of(spaces: Any, agent: AgentID) -> Space[Any] | None:
    spaces = getattr(spaces, "spaces", spaces)  # of a `gymnasium.spaces.Dict`
    return None if spaces is None else spaces.get(agent)


def has_ended(episode: MultiAgentEpisode, agent: AgentID) -> bool:
    """Tell whether an agent has ended, in this chunk or before it."""
    return agent in episode._gone or (agent in episode.agent_episodes and episode.agent_episodes[agent].is_done)


def end_in(agent: AgentID, terminated: Container[AgentID], truncated: Container[AgentID]) -> tuple[bool, bool]:
    """Return whether an agent terminates and whether it is truncated, where these do: its own flags go before those of all.

    >>> end_in("a", {"b", "__all__"}, {"a"}), end_in("c", {"b", "__all__"}, {"a"})
    ((False, True), (True, False))
    """
    own = agent in terminated, agent in truncated
    return own if any(own) else (ALL in terminated, ALL in truncated)


def end_of(single: SingleAgentEpisode) -> str:
    """Return how the episode of an agent that is done has ended."""
    return "terminated" if single.is_terminated else "truncated"


def end_if_all_ended(episode: MultiAgentEpisode, terminated: bool, truncated: bool) -> None:
    """Let the episode end as the environment says, or else with the last of its agents."""
    episode.is_terminated, episode.is_truncated = terminated, truncated
    # Counted, as asking each agent would make every step as dear as there are agents.
    if terminated or truncated or not episode._ended or len(episode._ended) < len(episode.agent_episodes):
        return
    if "terminated" in {*map(end_of, episode.agent_episodes.values()), *episode._gone.values()}:
        episode.is_terminated = True
    else:
        episode.is_truncated = True


def check_timeline(episode: MultiAgentEpisode, agent: AgentID) -> None:
    """Refuse a timeline that does not fit the agent's episode or the common clock."""
    single, steps = episode.agent_episodes[agent], episode._timelines[agent].env_steps
    # An agent that was not shown its last observation has its previous one repeated, at no environment step.
    missing = single.observations.len_incl_lookback() - len(steps)
    if missing not in ((0, 1) if single.is_done else (0,)):
        raise EpisodeError(f"found {missing} observations more than environment steps, expected one step for each.")
    if steps != sorted(set(steps)) or (steps and steps[-1] > episode.env_t):
        raise EpisodeError(f"found the environment steps {steps}, expected ascending ones up to {episode.env_t}.")
