"""The recorder of the documentation: its code block, as a module."""

import re
from pathlib import Path

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "env_runners.md"

(_block,) = [
    block
    for block in re.findall(r"```python\n(.*?)```", _PAGE.read_text(encoding="utf-8"), re.DOTALL)
    if "class ListRecorder" in block
]
exec(compile("from episodia import SingleAgentEnvRunner\n" + _block, str(_PAGE), "exec"))  # noqa: S102  # of this repository
