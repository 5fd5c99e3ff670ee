"""The names of the columns of episodes and batches."""

from typing import Final


class Columns:
    """Column names, spelled as RLlib's users know them.

    Axes: `T` time steps of one episode, `B` rows of a batch.
    """

    # From environment and module; `obs` and `infos` have T + 1 items, all others T.
    OBS: Final = "obs"
    INFOS: Final = "infos"
    ACTIONS: Final = "actions"  # the action that `action_logp` refers to
    ACTIONS_FOR_ENV: Final = "actions_for_env"  # what the environment received: clipped, unsquashed, with noise
    REWARDS: Final = "rewards"
    TERMINATEDS: Final = "terminateds"
    TRUNCATEDS: Final = "truncateds"
    NEXT_OBS: Final = "new_obs"

    # The origin of a row.
    EPS_ID: Final = "eps_id"
    AGENT_ID: Final = "agent_id"
    MODULE_ID: Final = "module_id"
    ENV_INDEX: Final = "env_index"  # of the environments of its runner
    AGENT_INDEX: Final = "agent_index"  # of the agents of its episode, in the order in which they came
    WEIGHTS_VERSION: Final = "weights_version"
    FRAGMENT_ID: Final = "fragment_id"
    T: Final = "t"

    # Recurrent modules.
    SEQ_LENS: Final = "seq_lens"
    STATE_IN: Final = "state_in"
    NEXT_STATE_IN: Final = "next_state_in"
    STATE_OUT: Final = "state_out"
    NEXT_STATE_OUT: Final = "next_state_out"

    # Outputs of a module.
    EMBEDDINGS: Final = "embeddings"
    ACTION_DIST_INPUTS: Final = "action_dist_inputs"
    ACTION_MASK: Final = "action_mask"  # nonzero where an action is allowed
    ACTION_PROB: Final = "action_prob"
    ACTION_LOGP: Final = "action_logp"
    VF_PREDS: Final = "vf_preds"
    Q_VALUES: Final = "q_values"  # one for each discrete action
    Q_ATOMS: Final = "q_atoms"  # the distribution of returns of each discrete action
    VALUES_BOOTSTRAPPED: Final = "values_bootstrapped"

    # Computed by learner connectors.
    ADVANTAGES: Final = "advantages"
    VALUE_TARGETS: Final = "value_targets"
    INTRINSIC_REWARDS: Final = "intrinsic_rewards"
    RETURNS_TO_GO: Final = "returns_to_go"
    DISCOUNTS: Final = "discounts"  # the factor of the value after the step (or the n steps)
    LOSS_MASK: Final = "loss_mask"

    NEXT_ACTION_MASK: Final = "new_action_mask"  # which actions are allowed after the step, or the n steps

    # Of samples from a replay buffer.
    KEYS: Final = "keys"  # which stored step a row is; priorities are updated by it
    WEIGHTS: Final = "weights"  # of each row in the loss, against the bias of priorities


COLUMN_NAMES: Final = frozenset(value for name, value in vars(Columns).items() if name.isupper())


DEFAULT_MODULE_ID: Final = "default_policy"
"""The id of the module of agents that are mapped to no other module."""
