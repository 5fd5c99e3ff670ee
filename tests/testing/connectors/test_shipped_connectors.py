"""No shipped connector raises a false alarm: each of them keeps all laws that apply to it."""

import numpy as np
from gymnasium import spaces

from episodia import connectors as shipped
from episodia.connectors import (
    ActionDecoder,
    AddColumnsFromEpisodesToTrainBatch,
    AddInfosFromEpisodesToTrainBatch,
    AddLossMask,
    AddNextObservationsFromEpisodesToTrainBatch,
    AddObservationsFromEpisodesToBatch,
    AddStatesFromEpisodesToBatch,
    AddTimeDimToBatchAndZeroPad,
    AddViews,
    AgentToModuleMapping,
    BatchIndividualItems,
    ClipRewards,
    ComputeReturnsToGo,
    ConnectorPipelineV2,
    ConnectorV2,
    DropModuleOutputs,
    EpsilonGreedy,
    FlattenObservations,
    FrameStacking,
    GaussianNoise,
    GeneralAdvantageEstimation,
    GetActions,
    HindsightGoals,
    IgnoreTerminations,
    MeanStdFilter,
    ModuleToAgentUnmapping,
    MultiAgentObservationPreprocessor,
    NormalizeAndClipActions,
    NStepReturns,
    NumpyToTensor,
    OneHotObservations,
    PrevActionsPrevRewards,
    RemoveSingleTsTimeRankFromBatch,
    RewardShaper,
    ScaleRewards,
    SignRewards,
    SingleAgentObservationPreprocessor,
    Standardize,
    TensorToNumpy,
    UnBatchToIndividualItems,
    UniformNoise,
    View,
    VTrace,
    WriteObservationsToEpisodes,
)
from episodia.modules import MLPActorCritic
from episodia.testing import SPACES, Subject, parametrize_with_checks
from valued_modules import MemoryModule, SumModule

BOX = spaces.Box(-8.0, 8.0, (2,), np.float32)
NESTED = spaces.Dict({"seen": BOX, "felt": spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2)])})
GOALS = spaces.Dict(dict.fromkeys(("observation", "achieved_goal", "desired_goal"), BOX))
REALS = spaces.Box(-2.0, 5.0, (2,), np.float32)
CHOICES = spaces.Discrete(3)


class Halve(SingleAgentObservationPreprocessor):
    """Halves observations, in the running episode."""

    lookback = 0

    def preprocess(self, observation, episode):
        return observation / 2


class TellOthers(MultiAgentObservationPreprocessor):
    """Shows everybody the sum of what all see."""

    lookback = 0

    def preprocess(self, observations, episode):
        total = sum(observations.values()) / 8
        return dict.fromkeys(observations, total)


class PayTheNewest(RewardShaper):
    """Pays what is seen after the step."""

    def reward(self, episode, age):
        return float(np.sum(episode.get_observations(-age)))


class Halves(ActionDecoder):
    """Turns choices into real numbers."""

    def decode(self, action, episode):
        return np.float32(action / 2)


def is_near(achieved, desired, _):
    return -np.abs(achieved - desired).sum(-1)


def reals(episode):
    """What a module puts out for real-valued actions: numbers that only depend on the episode and its time."""
    return {"actions": np.array([np.sin(episode.t), np.cos(len(episode.id_) + episode.t)], np.float32)}


def choices(episode):
    return {"actions": np.int64(episode.t % 3), "action_logp": np.float32(-1.0)}


def logits(episode):
    return {"action_dist_inputs": np.array([episode.t, 1.0, 2.0], np.float32)}


# An observation that is reached at a step counts for it, and is where the next step begins, which may be masked.
TWO_STEPS = {"masked_rows_do_not_count": "an observation belongs to two steps"}

RECORDED = {"columns_are_those_declared": "pipelines cannot know whether a runner recorded `action_logp`"}


def of(connector, **options):
    return Subject.of(connector, **options)


SUBJECTS = [
    # From the episodes.
    of(AddObservationsFromEpisodesToBatch()),
    of(AddNextObservationsFromEpisodesToTrainBatch()),
    of(AddColumnsFromEpisodesToTrainBatch()),
    of(AddInfosFromEpisodesToTrainBatch()),
    of(AddStatesFromEpisodesToBatch(), rl_module=MemoryModule()),
    of(AddTimeDimToBatchAndZeroPad(), before=[AddStatesFromEpisodesToBatch()], rl_module=MemoryModule()),
    of(AddViews({"last_rewards": View("rewards", shift=[-2, -1]), "obs_before": View("obs", shift=-1)})),
    # Observations.
    of(FlattenObservations()),
    of(FlattenObservations(NESTED, CHOICES, name="flatten nested ones")),
    of(OneHotObservations(spaces.Discrete(4, start=2), CHOICES)),
    of(FrameStacking(num_frames=3)),
    of(MeanStdFilter()),
    of(MeanStdFilter(SPACES["dict"], CHOICES, name="filter of nested ones")),
    of(FrameStacking(SPACES["box image uint8"], CHOICES, num_frames=2, name="stacked images")),
    of(PrevActionsPrevRewards()),
    of(PrevActionsPrevRewards(BOX, REALS, n_prev_actions=3, n_prev_rewards=2, name="previous reals")),
    of(Halve()),
    of(TellOthers(), episodes=()),
    of(WriteObservationsToEpisodes(), before=[FlattenObservations()]),
    # Rewards and targets.
    of(ClipRewards(low=-0.5, high=0.5)),
    of(SignRewards()),
    of(ScaleRewards(factor=3.0)),
    of(GeneralAdvantageEstimation(), rl_module=SumModule()),
    of(VTrace(BOX, CHOICES), rl_module=MLPActorCritic(BOX, CHOICES, hidden=(4,)), expected_failures=RECORDED),
    of(HindsightGoals(GOALS, CHOICES, compute_reward=is_near, seed=2), expected_failures=TWO_STEPS),
    of(ComputeReturnsToGo()),
    of(NStepReturns(n=2)),
    of(Standardize(column="rewards")),
    of(Standardize(), before=[GeneralAdvantageEstimation()], rl_module=SumModule()),
    of(AddLossMask()),
    of(IgnoreTerminations()),
    of(PayTheNewest()),
    # Forms.
    of(AgentToModuleMapping()),
    of(BatchIndividualItems(), before=[AddObservationsFromEpisodesToBatch()]),
    of(NumpyToTensor(), before=[AddObservationsFromEpisodesToBatch()]),
    # Actions.
    of(GetActions(), outputs=logits, before=[NumpyToTensor()], rl_module=MLPActorCritic(BOX, CHOICES)),
    of(
        GetActions(seed=3, name="GetActions with a seed"),
        outputs=logits,
        before=[NumpyToTensor()],
        rl_module=MLPActorCritic(BOX, CHOICES),
    ),
    # The laws ask for every column; tests of pruning show that named ones go.
    of(DropModuleOutputs(), outputs=choices),
    of(TensorToNumpy(), outputs=choices, before=[NumpyToTensor()]),
    of(RemoveSingleTsTimeRankFromBatch(), outputs=choices),
    of(UnBatchToIndividualItems(), outputs=choices),
    of(Halves(module_action_space=CHOICES), outputs=choices),
    of(NormalizeAndClipActions(BOX, REALS), outputs=reals),
    of(EpsilonGreedy(BOX, CHOICES, epsilon=0.5, seed=1), outputs=choices),
    of(GaussianNoise(BOX, REALS, std=0.3, seed=1), outputs=reals),
    of(UniformNoise(BOX, REALS, amplitude=0.3, seed=1), outputs=reals),
    of(ModuleToAgentUnmapping(), outputs=choices, episodes=()),
]


@parametrize_with_checks(SUBJECTS)
def test_h3_shipped_connectors_keep_the_law(check):
    check()


def test_every_shipped_connector_is_checked():
    pieces = [one for one in vars(shipped).values() if isinstance(one, type) and issubclass(one, ConnectorV2)]
    checked = {kind for subject in SUBJECTS for kind in type(subject.connector).__mro__}

    assert {piece for piece in pieces if not issubclass(piece, ConnectorPipelineV2)} <= checked
