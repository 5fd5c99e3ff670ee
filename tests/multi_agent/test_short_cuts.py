"""Short ways through frequent steps and short columns end where the long way does."""

from unittest import mock

from hypothesis import given

from episodia.episodes import multi_agent_stepping
from episodia.testing import assert_same_multi_agent_episode, multi_agent_schedules


@given(schedule=multi_agent_schedules())
def test_agents_with_nothing_to_decide_are_stored_as_the_rules_for_all_agents_say(schedule):
    with mock.patch.object(multi_agent_stepping, "_plain_agents", lambda *_: {}):
        by_the_rules = schedule.stepped()

    assert_same_multi_agent_episode(schedule.stepped(), by_the_rules, ignore=["times"])
