"""One project for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.definitions.defined import Defined


@pytest.fixture
def defined(tmp_path: Path) -> Defined:
    return Defined(tmp_path)
