"""Small episodes whose every number can be checked by eye."""

from episodia import SingleAgentEpisode


def walk(**kwargs):
    """Return four steps: observations 0 … 4, actions 10 … 13, rewards 0.5 … 3.5, one extra output."""
    return SingleAgentEpisode(
        "walk",
        **{
            "observations": [0, 1, 2, 3, 4],
            "actions": [10, 11, 12, 13],
            "rewards": [0.5, 1.5, 2.5, 3.5],
            "infos": [{"t": t} for t in range(5)],
            "extra_model_outputs": {"logp": [-0.1, -0.2, -0.3, -0.4]},
            "len_lookback_buffer": 0,
            **kwargs,
        },
    )


def stepped(steps, *, start=0, **kwargs):
    """Return an episode like `walk`, built step by step."""
    episode = SingleAgentEpisode("walk", **kwargs)
    episode.add_env_reset(start, {"t": 0})
    for t in range(steps):
        episode.add_env_step(start + t + 1, 10 + t, t + 0.5, {"t": t + 1}, extra_model_outputs={"logp": -t})
    return episode
