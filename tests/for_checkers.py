"""Modules whose annotations name types that only type checkers import. Entry: `defined`."""

from __future__ import annotations
import __future__

import sys
from typing import Any

_LATE = 0 if sys.version_info >= (3, 14) else __future__.annotations.compiler_flag
"""From Python 3.14 on, annotations are evaluated when they are read, and need no future import."""


def defined(source: str) -> dict[str, Any]:
    """Run the source of a module and return its names."""
    names: dict[str, Any] = {"__name__": "elsewhere"}
    exec(compile(source, "elsewhere.py", "exec", _LATE, dont_inherit=True), names)
    return names
