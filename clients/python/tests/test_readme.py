"""What the README shows works."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

README = Path(__file__).resolve().parent.parent / "README.md"


def readme_blocks() -> list[str]:
    """The README's blocks of Python."""
    return re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_its_first_program_passes_its_own_test() -> None:
    blocks = readme_blocks()
    module = types.ModuleType("report")
    sys.modules["report"] = module
    names: dict[str, Any] = vars(module)
    for block in blocks:
        if "app.run()" in block or "def test_" in block:
            exec(block, names)
    names["test_the_report_is_made"]()


def test_every_block_is_python() -> None:
    for block in readme_blocks():
        if not block.startswith("@"):
            compile(block, "README.md", "exec")
