"""Replay: episodes at rest, and every way of sampling from them.

`ReplayBuffer(capacity, ...)` stores episodes; these are its methods:

- `add(episodes)` stores episodes or chunks of them, and returns `Added`: steps that came, steps and episodes that were evicted.
- `sample(num, draw, lookback=, modules=)` returns an `EpisodeList` (`Sampled`) that gathers columns when they are asked for.
  Beside the stored columns it has `keys`, and, depending on selector and draw, `weights`, `discounts` and `loss_mask`.
- `update_priorities(keys, values)` tells the selector new values, and returns how many keys were stale.
- `episodes()` returns all that is stored as an `EpisodeList`; `len(buffer)` and `num_steps` count steps; `clear()` forgets all.
- `get_state()` and `set_state(state)`: JSON values and arrays; `save(path)` and `load(path)`: the same in a directory.

Draws: `Transitions`, `Sequences`, `WholeEpisodes`, `JointSteps`. Selectors: `Uniform`, `Proportional`, `InOrder`, `AtMost`,
`Fresh`, and your own. Evicted are the oldest steps, the oldest episodes, or all but a random part (a reservoir). Storage:
`InMemory`, `MemoryMapped`; a `ReplayReader` samples in another process. `RateLimiter` says when a loop may add or sample.
"""

from episodia.replay.adding.minari_episodes import minari_episodes
from episodia.replay.buffer import ReplayBuffer
from episodia.replay.draws.draw import Draw
from episodia.replay.draws.joint_steps import JointSteps
from episodia.replay.draws.step_sequences import Sequences
from episodia.replay.draws.transitions import Transitions
from episodia.replay.draws.whole_episodes import WholeEpisodes
from episodia.replay.experience_memory import ExperienceMemory, ExperienceSampler
from episodia.replay.mixed_replay import MixedReplay
from episodia.replay.rate_limiter import RateLimiter
from episodia.replay.replay_protocol import Replay
from episodia.replay.rows.row_storage import InMemory, MemoryMapped, RowStorage
from episodia.replay.samples.sampled import Sampled
from episodia.replay.samples.sampled_modules import SampledModules
from episodia.replay.selectors.ages import AtMost, Fresh, InOrder
from episodia.replay.selectors.proportional import Proportional
from episodia.replay.selectors.selector import (
    AddedSteps,
    Selection,
    Selector,
    StatefulSelector,
    StoredSteps,
    Uniform,
)
from episodia.replay.selectors.sequence_priorities import sequence_priorities
from episodia.replay.sharing.replay_reader import ReplayReader
from episodia.replay.table import Added

__all__ = [
    "Added",
    "AddedSteps",
    "AtMost",
    "Draw",
    "ExperienceMemory",
    "ExperienceSampler",
    "Fresh",
    "InMemory",
    "InOrder",
    "JointSteps",
    "MemoryMapped",
    "MixedReplay",
    "Proportional",
    "RateLimiter",
    "Replay",
    "ReplayBuffer",
    "ReplayReader",
    "RowStorage",
    "Sampled",
    "SampledModules",
    "Selection",
    "Selector",
    "Sequences",
    "StatefulSelector",
    "StoredSteps",
    "Transitions",
    "Uniform",
    "WholeEpisodes",
    "minari_episodes",
    "sequence_priorities",
]


def __dir__() -> list[str]:
    return sorted(__all__)
