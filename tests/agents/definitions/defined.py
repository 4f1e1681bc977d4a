"""A project with a home, and definitions in both. Entry: `Defined`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.projects import ProjectPlace, written
from treadle.agents.definitions import Catalog
from treadle.config import load

HEAD = "---\ndescription: A guide\n"
"""Two lines of a Markdown definition; what is added to `description` stands in line 3."""


class Defined(ProjectPlace):
    def project_says(self, name: str, text: str) -> Path:
        return self.says(f".treadle/agents/{name}", text)

    def own_says(self, name: str, text: str) -> Path:
        return written(self.own / "agents" / name, text)

    def catalog(
        self, config: str = "", *, flags: dict[str, Any] | None = None, trusted: bool = True
    ) -> Catalog:
        if config:
            written(self.own / "config.yaml", config)
        if trusted:
            self.trust()
        return Catalog(load({"HOME": str(self.home)}, cwd=self.here, flags=flags), self.here)

    def wrong(self, text: str, name: str = "guide.md") -> list[str]:
        """What is wrong with a definition of the project, each as `LINE: TEXT`."""
        path = self.project_says(name, text)
        problems = self.catalog().problems(path.stem)
        assert {problem.place for problem in problems} <= {str(path)}
        return [f"{problem.line}: {problem.text}" for problem in problems]
