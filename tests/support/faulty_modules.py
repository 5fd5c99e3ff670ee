"""Modules that are wrong on purpose, each in one way, and with the law that finds it out."""

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from episodia.modules import ActorCritic, Rule, dist_for
from episodia.testing import ModuleSubject

FAULTY = {}

BOX = spaces.Box(-2.0, 2.0, (3,), np.float32)
CHOICES = spaces.Discrete(3, start=1)
MASKED = spaces.Dict({"board": BOX, "action_mask": spaces.MultiBinary(3)})


def breaks(law, message="", observation_space=BOX):
    """Register a class under the law that finds it out; the message says what differed."""

    def register(kind):
        def make():
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                return ModuleSubject.of(kind(observation_space, CHOICES))

        FAULTY[kind.__name__] = (make, law, message)
        return kind

    return register


class Net(nn.Module):
    """A right one, which the faulty ones are made of: two layers of weights, and one more for values."""

    def __init__(self, observation_space, action_space):
        super().__init__()
        self.observation_space, self.action_space = observation_space, action_space
        self.distribution = dist_for(action_space)
        self.hidden = nn.Linear(3, 8)
        self.policy = nn.Linear(8, 3)
        self.value = nn.Linear(8, 1)

    def features(self, batch):
        return torch.tanh(self.hidden(batch["obs"]))

    def logits(self, batch):
        return self.policy(self.features(batch))

    def forward_exploration(self, batch):
        return {"action_dist_inputs": self.logits(batch)}

    def forward_inference(self, batch):
        return self.forward_exploration(batch)

    def forward_train(self, batch):
        return {**self.forward_exploration(batch), "vf_preds": self.compute_values(batch)}

    def compute_values(self, batch, embeddings=None):
        return self.value(self.features(batch)).squeeze(-1)

    def get_initial_state(self):
        return {}

    def is_stateful(self):
        return False

    def get_inference_action_dist_cls(self):
        return self.distribution

    get_exploration_action_dist_cls = get_train_action_dist_cls = get_inference_action_dist_cls


class Leaner(Rule):
    """A right rule, which faulty ones are made of."""

    def act(self, batch):
        return 1 + (np.asarray(batch["obs"])[:, 0] > 0)


# --- What comes out ---------------------------------------------------------------------------------------------------


@breaks("it_runs", "`forward_inference` returned tuple")
class ReturnsATuple(Net):
    def forward_inference(self, batch):
        return self.logits(batch), None


@breaks("it_runs", r"found no \['forward_inference', 'forward_exploration'")
class IsNoModule:
    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space


@breaks("it_runs", "puts out .'logits'., expected `actions`")
class NamesColumnsInItsOwnWay(Net):
    def forward_exploration(self, batch):
        return {"logits": self.logits(batch)}


@breaks("it_runs", "expected a method `get_inference_action_dist_cls`")
class HasNoDistribution(Net):
    get_inference_action_dist_cls = property()


@breaks("it_runs", r"asked for \['previous_action'\]: declare a view")
class NeedsWhatItDoesNotDeclare(Net):
    def features(self, batch):
        return super().features(batch) + batch["previous_action"]


@breaks("columns_are_those_declared", r"asks for \['wind'\]")
class HopesForAColumn(Net):
    def features(self, batch):
        return super().features(batch) + batch.get("wind", 0.0)


@breaks("outputs_have_a_row_for_each_observation", r"a batch of 1.*float32\[3\], expected the leading axes \[1\]")
class SqueezesABatchOfOne(Net):
    def logits(self, batch):
        return super().logits(batch).squeeze()


@breaks("outputs_have_a_row_for_each_observation", r"expected the leading axes")
class AnswersForTheFirstOnly(Leaner):
    def act(self, batch):
        return super().act(batch)[:1]


@breaks("outputs_have_a_row_for_each_observation", "found items .*in a batch of one")
class HasAnotherFormAlone(Leaner):
    def act(self, batch):
        chosen = super().act(batch)
        return chosen.astype(np.float64) if len(chosen) == 1 else chosen


@breaks("it_runs_on_empty_batches")
class NeedsARow(Net):
    def features(self, batch):
        return super().features(batch) + 0.0 * batch["obs"].max()


@breaks("outputs_are_finite", r"column 'vf_preds', row \d+: found nan")
class TakesTheRootOfNegatives(Net):
    def compute_values(self, batch, embeddings=None):
        return batch["obs"][:, 0].sqrt() + super().compute_values(batch)


@breaks("actions_fit_the_action_space", r"row \d: found 0")
class CountsFromZero(Leaner):
    def act(self, batch):
        return super().act(batch) - 1


@breaks("actions_fit_the_action_space", r"found 1\.5 ")
class ActsInBetween(Leaner):
    def act(self, batch):
        return super().act(batch) + 0.5


@breaks("masked_actions_are_never_chosen", "found the action 1, expected one that the mask", observation_space=MASKED)
class IgnoresTheMask(Leaner):
    def act(self, batch):
        return np.ones(len(batch["obs"]["board"]), np.int64)


# --- Rows and batches -------------------------------------------------------------------------------------------------


@breaks("rows_do_not_depend_on_each_other", "column 'action_dist_inputs', row 0")
class CentersTheBatch(Net):
    def features(self, batch):
        features = super().features(batch)
        return features - features.mean(0)


@breaks("callers_batches_stay_as_they_are", r"found \['obs'\] changed")
class ScalesItsInput(Net):
    def features(self, batch):
        batch["obs"] /= 2
        return torch.tanh(self.hidden(batch["obs"]))


@breaks("callers_batches_stay_as_they_are", r"found \['obs'\] changed")
class TakesColumnsOut(Net):
    def features(self, batch):
        observations = batch.pop("obs") if "rewards" in batch else batch["obs"]
        batch.setdefault("obs", observations + 1)
        return torch.tanh(self.hidden(observations))


@breaks("callers_batches_stay_as_they_are", r"found \['embeddings'\] changed")
class LeavesANote(Net):
    def forward_inference(self, batch):
        batch["embeddings"] = self.features(batch)
        return super().forward_inference(batch)


@breaks("learning_sees_what_acted", "column 'action_dist_inputs'")
class LearnsWithAnotherTemperature(Net):
    def forward_train(self, batch):
        outputs = super().forward_train(batch)
        return {**outputs, "action_dist_inputs": outputs["action_dist_inputs"] / 2}


@breaks("values_are_those_of_the_forward_pass", "without embeddings.*column 'values'")
class HasTwoOpinions(Net):
    def forward_train(self, batch):
        outputs = super().forward_train(batch)
        return {**outputs, "vf_preds": outputs["vf_preds"] + 1}


@breaks("values_are_those_of_the_forward_pass", r"\[\d+, 1\], expected \[\d+\]")
class KeepsAnAxisOfValues(Net):
    def compute_values(self, batch, embeddings=None):
        return self.value(self.features(batch))


@breaks(
    "it_computes_what_it_is_asked_for", "actor=True, critic=False.: found the columns .'action_dist_inputs', 'vf_preds'"
)
class ComputesEverything(ActorCritic):
    def __init__(self, *spaces):
        super().__init__(*spaces)
        self.policy, self.value = nn.Linear(3, 3), nn.Linear(3, 1)

    def forward(self, batch, *, actor=True, critic=True):
        return {"action_dist_inputs": self.policy(batch["obs"]), "vf_preds": self.compute_values(batch)}

    def compute_values(self, batch, embeddings=None):
        return self.value(batch["obs"]).squeeze(-1)

    def get_initial_state(self):
        return {}

    def is_stateful(self):
        return False

    def get_config(self):
        return {}


@breaks("arrays_do_as_well_as_tensors", "AttributeError")
class WantsTensors(Leaner):
    def forward_inference(self, batch):
        return {"actions": 1 + (batch["obs"].detach()[:, 0] > 0).long()}


# --- Memory -----------------------------------------------------------------------------------------------------------


@breaks("passes_leave_no_trace", "a second time")
class CountsCalls(Net):
    calls = 0

    def logits(self, batch):
        self.calls += 1
        return super().logits(batch) * self.calls


@breaks("acting_changes_no_weights", "running_mean")
class NormalisesOverBatches(Net):
    def __init__(self, *spaces):
        super().__init__(*spaces)
        self.norm = nn.BatchNorm1d(3)

    def features(self, batch):
        return torch.tanh(self.hidden(self.norm(batch["obs"])))


@breaks("same_state_gives_same_outputs", "other global seeds")
class DropsOutWhileActing(Net):
    def features(self, batch):
        return nn.functional.dropout(super().features(batch), 0.5)


@breaks("same_state_gives_same_outputs", "column 'actions'")
class ThrowsGlobalDice(Leaner):
    def act(self, batch):
        return np.random.randint(1, 4, len(batch["obs"]))  # noqa: NPY002  # that is what is wrong with it


@breaks("restored_modules_go_on_alike", r"HidesLayersInAList.layers\[0\]")
class HidesLayersInAList(Net):
    def __init__(self, *spaces):
        super().__init__(*spaces)
        self.layers = [nn.Linear(3, 8)]

    def features(self, batch):
        return torch.tanh(self.layers[0](batch["obs"]))


@breaks("restored_modules_go_on_alike", "after its state was set")
class KeepsAFactorForItself(Net):
    def __init__(self, *spaces):
        super().__init__(*spaces)
        self.factor = float(torch.rand(()))

    def logits(self, batch):
        return super().logits(batch) * self.factor

    def get_config(self):
        return {}


@breaks("restored_modules_go_on_alike", "column 'actions'")
class ForgetsItsGenerator(Leaner):
    def __init__(self, *spaces):
        super().__init__(*spaces)
        self.rng = np.random.default_rng(0)

    def act(self, batch):
        return self.rng.integers(1, 4, len(batch["obs"]))

    def get_state(self):
        return {"seed": 0}

    def set_state(self, state):
        self.rng = np.random.default_rng(state["seed"])


@breaks("it_pickles", "lambda")
class HoldsALambda(Net):
    def __init__(self, *spaces):
        super().__init__(*spaces)
        self.scale = lambda features: features

    def features(self, batch):
        return self.scale(super().features(batch))


@breaks("learning_reaches_the_weights", "nothing that has gradients")
class LearnsWithoutGradients(Net):
    @torch.no_grad()
    def forward_train(self, batch):
        return super().forward_train(batch)


# --- States -----------------------------------------------------------------------------------------------------------


class Memory(Net):
    """A right one with a state, which faulty ones are made of: it adds up what it has seen."""

    def get_initial_state(self):
        return {"sum": np.zeros(3, np.float32)}

    def is_stateful(self):
        return True

    def sums(self, batch):
        return batch["state_in"]["sum"].unsqueeze(1) + batch["obs"].cumsum(1)

    def features(self, batch):
        return torch.tanh(self.hidden(self.sums(batch)))

    def state_out(self, batch):
        sums = self.sums(batch)
        last = batch["seq_lens"] - 1 if "seq_lens" in batch else torch.full((len(sums),), sums.shape[1] - 1)
        return {"sum": sums[torch.arange(len(sums)), last]}

    def forward_exploration(self, batch):
        return {**super().forward_exploration(batch), "state_out": self.state_out(batch)}


@breaks("states_look_like_the_first_one", "expected `state_out` among them")
class PutsOutNoState(Memory):
    def forward_inference(self, batch):
        return {"action_dist_inputs": self.logits(batch)}


@breaks("states_look_like_the_first_one", "found rows of `state_out`")
class ChangesTheFormOfItsState(Memory):
    def state_out(self, batch):
        return {"sum": super().state_out(batch)["sum"].unsqueeze(-1)}


@breaks("states_look_like_the_first_one", "found Tensor as the initial state")
class BeginsWithATensor(Memory):
    def get_initial_state(self):
        return {"sum": torch.zeros(3)}


@breaks("states_look_like_the_first_one", "expected none without a state")
class HasAStateAndDeniesIt(Net):
    def get_initial_state(self):
        return {"h": np.zeros(3, np.float32)}


@breaks("steps_give_what_sequences_give", "step by step")
class DropsItsState(Memory):
    def state_out(self, batch):
        return {"sum": torch.zeros(len(batch["obs"]), 3)}


@breaks("steps_give_what_sequences_give", "step by step")
class LooksAhead(Memory):
    def sums(self, batch):
        return super().sums(batch) + batch["obs"].mean(1, keepdim=True)


@breaks("padding_changes_nothing", "column 'state_out'")
class TakesPaddingForSteps(Memory):
    def state_out(self, batch):
        return {"sum": self.sums(batch)[:, -1]}


#: What the faulty ones are made of.
RIGHT = (Net, Leaner, Memory)
