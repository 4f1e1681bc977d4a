"""Modules that take a second to import, for the tests that use them. Entry: `Late`.

Each worker of pytest collects every file of tests, and runs a part of the tests.
"""

from __future__ import annotations

from typing import Any

import pytest


class Late:
    """A module that is imported where something of it is used; without it the test is skipped."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest asks every object of a file for marks of mocks
            raise AttributeError(name)
        return getattr(pytest.importorskip(self._name), name)
