"""A home with Treadle's own folder, and a project with a nested working directory, as real files.

Entry: `ProjectPlace`.
"""

from __future__ import annotations

from pathlib import Path

from treadle.config.places import Project, project_of
from treadle.config.trust import Trust, survey, trust_of
from treadle.config.trust_store import trust


class ProjectPlace:
    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.own = self.home / ".treadle"
        self.root = root / "shop"
        self.here = self.root / "src" / "web"
        for folder in (self.own, self.root / ".git", self.here):
            folder.mkdir(parents=True)

    def says(self, name: str, text: str) -> Path:
        """In the project."""
        return written(self.root / name, text)

    @property
    def project(self) -> Project:
        found = project_of(self.here)
        assert found is not None
        return found

    def trust(self) -> None:
        trust(self.own, self.project, survey(self.project, self.own))

    def trusted(self) -> Trust:
        return trust_of(self.own, self.project)


def written(path: Path, text: str) -> Path:
    """Readable for nobody else, as the user's own files have to be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path
