"""Every faulty connector is found out, by the law that it breaks."""

import pytest

from episodia.testing import CONNECTOR_LAWS, check_connector
from faulty_connectors import FAULTY, ChangesObservations, Remembers
from found_out import assert_found_out

LAWS = {law.__name__: law for law in CONNECTOR_LAWS}


@pytest.mark.parametrize("name", FAULTY)
def test_h8_a_faulty_connector_breaks_its_law(name):
    make, law, message = FAULTY[name]

    assert_found_out(name, make(), law, message)


def test_there_are_many_of_them_for_every_law_but_one():
    found = {law for _, law, _ in FAULTY.values()}

    assert len(FAULTY) >= 20
    # A lookback that is larger than needed is a remark, and one that is too small breaks the law of cuts.
    assert LAWS.keys() - found == {"lookback_is_as_small_as_declared"}


@pytest.mark.parametrize("kind", [Remembers, ChangesObservations])
def test_what_the_faulty_ones_are_made_of_is_right(kind):
    outcomes = {result.outcome for result in check_connector(kind())}

    assert outcomes <= {"passed", "skipped"}
