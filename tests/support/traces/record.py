"""Record the traces again: `python tests/support/traces/record.py [TEXT]`, all of them or those whose name contains TEXT.

Do so only where a change of behaviour is meant, and name the change in the commit.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from traces.figures import figures_of  # noqa: E402  # found only now
from traces.scenarios import SCENARIOS, play  # noqa: E402

RECORDED = HERE / "recorded.json"


def main(text=""):
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    for name in SCENARIOS:
        if text in name:
            recorded[name] = figures_of(play(name))
    compact = {name: json.dumps(recorded[name], separators=(",", ":")) for name in SCENARIOS}
    lines = [f"{json.dumps(name)}: {figures}" for name, figures in compact.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
