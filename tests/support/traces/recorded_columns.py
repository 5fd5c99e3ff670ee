"""Columns of what was played and learned: all rows of all episodes one after another, under readable names."""

import numpy as np


def of_episodes(episodes):
    """Return the columns of single-agent episodes, lookback included."""
    chunks = list(episodes)
    return {
        "id": [chunk.id_ for chunk in chunks],
        "t": [[chunk.t_started, chunk.t] for chunk in chunks],
        "lookback": [int(lookback) for lookback in episodes.lookbacks],
        "is_terminated": [bool(chunk.is_terminated) for chunk in chunks],
        "is_truncated": [bool(chunk.is_truncated) for chunk in chunks],
        "weights_version": [chunk.weights_version for chunk in chunks],
        **_rows_of(chunks, [int(lookback) for lookback in episodes.lookbacks]),
    }


def of_games(games):
    """Return the columns of multi-agent episodes: what all agents have in common, and the rows of each of them."""
    agents = [(game, agent, game.agent_episodes[agent]) for game in games for agent in sorted(game.agent_episodes)]
    ends = {
        "is_terminated": [game.is_terminated for game in games],
        "is_truncated": [game.is_truncated for game in games],
    }
    return {
        "id": [game.id_ for game in games],
        "env_t": [[game.env_t_started, game.env_t, game.env_lookback] for game in games],
        **ends,
        "terminateds": [_by_name(game.get_terminateds()) for game in games],
        "truncateds": [_by_name(game.get_truncateds()) for game in games],
        "return": np.array([game.get_return(include_hanging_rewards=True) for game in games], np.float64),
        "seen_at": [sorted(map(str, seen)) for game in games for seen in game.get_observations(return_list=True)],
        "acted_at": [sorted(map(str, acted)) for game in games for acted in game.get_actions(return_list=True)],
        "agents": {
            "name": [[agent, one.module_id] for _, agent, one in agents],
            "t": [[one.t_started, one.t] for _, _, one in agents],
            "ends": [[bool(one.is_terminated), bool(one.is_truncated)] for _, _, one in agents],
            **_rows_of([one for _, _, one in agents], [one.observations.lookback for _, _, one in agents]),
        },
    }


def _by_name(flags):
    return {str(agent): bool(flags[agent]) for agent in sorted(flags, key=str)}


def _rows_of(chunks, lookbacks):
    spans = [slice(-lookback if lookback else 0, None) for lookback in lookbacks]

    def read(getter, *key):
        # A chunk without a step of its own has no extra outputs.
        having = [pair for pair in zip(chunks, spans, strict=True) if not key or key[0] in pair[0].extra_model_outputs]
        return _joined([getattr(chunk, getter)(*key, span, neg_index_as_lookback=True) for chunk, span in having])

    infos = [info for chunk in chunks for info in chunk.get_infos()]
    extras = {key: None for chunk in chunks for key in chunk.extra_model_outputs}
    return {
        "observations": read("get_observations"),
        "actions": read("get_actions"),
        "rewards": read("get_rewards"),
        "infos": [{key: info[key] for key in sorted(info)} for info in infos],
        "extra": {key: read("get_extra_model_outputs", key) for key in extras},
    }


def _joined(parts):
    """Return the items of all `parts` in one array, or in nested dicts of arrays; nothing without parts."""
    filled = [part for part in parts if isinstance(part, dict) or len(part)]
    if not filled:
        return None
    if isinstance(filled[0], dict):
        return {key: _joined([part[key] for part in filled]) for key in filled[0]}
    return np.concatenate([np.asarray(part) for part in filled])
