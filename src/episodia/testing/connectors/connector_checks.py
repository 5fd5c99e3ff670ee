"""`check_connector`, which checks a connector against all laws."""

from __future__ import annotations

from typing import Any

from episodia.connectors import ConnectorV2
from episodia.testing.connectors.connector_agents import agents_have_the_rows_of_their_own_episodes
from episodia.testing.connectors.connector_declarations import (
    columns_are_those_declared,
    episodes_are_written_only_if_declared,
    lists_are_changed_only_if_declared,
    lookback_is_as_small_as_declared,
    observations_are_in_the_declared_space,
)
from episodia.testing.connectors.connector_effects import (
    declared_columns_arrive,
    global_random_generators_stay_as_they_are,
    observations_keep_their_tail,
)
from episodia.testing.connectors.connector_laws import (
    acting_sees_what_learning_sees,
    callers_data_stay_as_they_are,
    chunks_stand_for_themselves,
    cutting_changes_nothing,
    episodes_do_not_depend_on_each_other,
    form_does_not_matter,
    it_runs_on_episodes_without_steps,
    it_runs_on_single_steps,
    it_runs_without_episodes,
    masked_rows_do_not_count,
    order_of_episodes_does_not_matter,
    running_again_changes_nothing,
)
from episodia.testing.connectors.connector_memory import (
    it_pickles,
    no_episode_is_kept,
    restored_pieces_go_on_alike,
    same_state_gives_same_rows,
)
from episodia.testing.connectors.connector_running import places_of
from episodia.testing.connectors.connector_subject import Subject
from episodia.testing.law_checking import CheckResult, Family, Law, NotApplicableError, described, results_in, shorter


def it_runs(subject: Subject, _: object) -> list[str]:
    """It takes ordinary episodes and returns a batch, in a learner, env-to-module or module-to-env pipeline."""
    if not subject.episodes:
        raise NotApplicableError("no single-agent episodes were given")
    open_, rejected, broken = places_of(subject)
    if broken:
        place, error = next(iter(broken.items()))
        raise AssertionError(
            f"it runs ({place}): {type(error).__name__}: {error}\nIf it needs a module, pass `rl_module=`; if other pieces "
            "feed it, `before=`; if it takes what a module puts out, `outputs=`."
        ) from error
    if not open_:
        reasons = "\n".join(f"  {place}: {reason}" for place, reason in rejected.items())
        raise AssertionError(
            f"it runs: found no pipeline that it works in, expected one.\n{reasons}\nPass the pieces that feed it as "
            "`before=`, or what a module puts out as `outputs=`."
        )
    return [f"it has no place in {place} pipelines: {reason}" for place, reason in rejected.items()]


#: The laws, in the order in which they are checked.
CONNECTOR_LAWS: tuple[Law, ...] = (
    it_runs,
    lists_are_changed_only_if_declared,
    global_random_generators_stay_as_they_are,
    observations_keep_their_tail,
    declared_columns_arrive,
    callers_data_stay_as_they_are,
    it_runs_without_episodes,
    it_runs_on_single_steps,
    it_runs_on_episodes_without_steps,
    form_does_not_matter,
    cutting_changes_nothing,
    chunks_stand_for_themselves,
    acting_sees_what_learning_sees,
    episodes_do_not_depend_on_each_other,
    order_of_episodes_does_not_matter,
    masked_rows_do_not_count,
    running_again_changes_nothing,
    same_state_gives_same_rows,
    restored_pieces_go_on_alike,
    it_pickles,
    no_episode_is_kept,
    columns_are_those_declared,
    episodes_are_written_only_if_declared,
    lookback_is_as_small_as_declared,
    observations_are_in_the_declared_space,
    agents_have_the_rows_of_their_own_episodes,
)

CONNECTORS = Family(
    laws=CONNECTOR_LAWS,
    inputs=lambda subject: subject.fresh_episodes(),
    smaller=shorter,
    described=described,
    without_inputs=(it_runs, it_runs_without_episodes, agents_have_the_rows_of_their_own_episodes),
    causes=(
        lists_are_changed_only_if_declared,
        global_random_generators_stay_as_they_are,
        observations_keep_their_tail,
        columns_are_those_declared,
        declared_columns_arrive,
        episodes_are_written_only_if_declared,
    ),
)


def check_connector(connector: ConnectorV2, **options: Any) -> list[CheckResult]:
    """Check a connector against all laws, and return the results; print them to see which checks were skipped, and why.

    Args:
        connector: What to check. Each run uses a copy.
        **options: Those of `Subject.of`: `before`, `rl_module`, `outputs`, `episodes`, `multi_agent_episodes`, and
            `expected_failures`.

    Raises:
        AssertionError: If laws are broken; it names each law and the difference, on the smallest episodes that show it.

    >>> from episodia.connectors import FrameStacking
    >>> for result in check_connector(FrameStacking(num_frames=3))[9:11]:
    ...     print(result)
    passed   form_does_not_matter
    passed   cutting_changes_nothing
    """
    return results_in(CONNECTORS, Subject.of(connector, **options))
