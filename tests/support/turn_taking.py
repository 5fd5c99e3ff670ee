"""A small multi-agent episode whose every item can be checked by eye: two agents that take turns.

    environment step   0    1    2    3    4    5
    a                  a0        a2        a4          observations; a acts on them with A0, A2, A4
    b                       b1        b3        b5     b acts with B1, B3

After five steps A4 is pending. Step t brings a the reward t and b the reward 10 t, also to who waits.
"""

from episodia import MultiAgentEpisode


def by_first_letter(agent, episode):  # noqa: ARG001  # a mapping function is called with both
    """Return the module of an agent: "mod_a" for "a"."""
    return f"mod_{agent}"


def turns(steps=5, **kwargs):
    """Return the episode after `steps` environment steps."""
    episode = MultiAgentEpisode("game", **{"agent_to_module_mapping_fn": by_first_letter, **kwargs})
    episode.add_env_reset(observations={"a": "a0"}, infos={"a": {"i": "a0"}})
    play(episode, steps)
    return episode


def play(episode, steps, **last):
    """Add turns; what is in `last` goes to the last one."""
    for step in range(steps):
        t = episode.env_t
        actor, watcher = ("a", "b") if t % 2 == 0 else ("b", "a")
        shown = f"{watcher}{t + 1}"
        episode.add_env_step(
            {watcher: shown},
            {actor: f"{actor.upper()}{t}"},
            {"a": t + 1.0, "b": 10.0 * (t + 1)},
            {watcher: {"i": shown}},
            extra_model_outputs={actor: {"x": f"X{actor}{t}"}},
            **(last if step == steps - 1 else {}),
        )


def columns(episode, agent):
    """Return observations, actions and rewards of one agent's own episode, without the lookback."""
    single = episode.agent_episodes[agent]
    return single.get_observations(), single.get_actions(), single.get_rewards()
