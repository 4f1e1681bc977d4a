"""A home and a project with a nested working directory, as real files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.projects import ProjectPlace, written
from treadle.agents.coding import Assistant, coding_agent
from treadle.config import load


class Place(ProjectPlace):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        (self.root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")

    def mine(self, name: str, text: str) -> Path:
        """In Treadle's own folder."""
        return written(self.own / name, text)

    def assistant(
        self, cwd: Path | None = None, *, env: dict[str, str] | None = None, **options: Any
    ) -> Assistant:
        config = load({"HOME": str(self.home), **(env or {})}, cwd=cwd or self.here)
        return coding_agent(config, cwd or self.here, **options)

    def blocks(self, **options: Any) -> list[str]:
        agent = self.assistant(**options).agent
        return [block.text for block in agent.system(agent.values({}))]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
