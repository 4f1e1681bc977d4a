"""A home and a project with a nested working directory, as real files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from treadle.coding import Assistant, coding_agent
from treadle.config import Project, Trust, load, project_of, trust_of
from treadle.config.trust import survey, trust


class Place:
    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.own = self.home / ".treadle"
        self.root = root / "shop"
        self.here = self.root / "src" / "web"
        for folder in (self.own, self.root / ".git", self.here):
            folder.mkdir(parents=True)
        (self.root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")

    def says(self, name: str, text: str) -> Path:
        """In the project."""
        return _written(self.root / name, text)

    def mine(self, name: str, text: str) -> Path:
        """In Treadle's own folder."""
        return _written(self.own / name, text)

    @property
    def project(self) -> Project:
        found = project_of(self.here)
        assert found is not None
        return found

    def trust(self) -> None:
        trust(self.own, self.project, survey(self.project, self.own))

    def trusted(self) -> Trust:
        return trust_of(self.own, self.project)

    def assistant(self, cwd: Path | None = None, *, env: dict[str, str] | None = None, **options: Any) -> Assistant:
        config = load({"HOME": str(self.home), **(env or {})}, cwd=cwd or self.here)
        return coding_agent(config, cwd or self.here, **options)

    def blocks(self, **options: Any) -> list[str]:
        agent = self.assistant(**options).agent
        return [block.text for block in agent.system(agent.values({}))]


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
