"""Whether a check finds out what is wrong on purpose."""

import re

from episodia.testing import checks_of, result_of


def assert_found_out(name, subject, law, message):
    """Check that `subject`, which is called `name`, breaks `law`, and that the failure says `message`, a pattern."""
    check = next(check for check in checks_of([subject]) if check.name == law)

    result = result_of(check)

    assert result.outcome == "failed", result
    assert re.match(f"(?s){name} breaks the law `{law}`.*({message})", result.text), result
