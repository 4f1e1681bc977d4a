"""Discovery of agent definition files, in Treadle's own folder and in the project's folders down to
the working directory.

The files of an untrusted project are returned separately, for the user to inspect or name. keys.py
reads the contents. Entry points: `find`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from treadle.config.file import UNPRINTABLE
from treadle.config.places import FOLDER, Project
from treadle.config.trust import AGENTS_NAME, DEFINITION_ENDINGS, Trust, TrustState, command

SHOWN_MAX = 20
"""Maximum number of files in one warning."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""Valid name of an `Agent`."""


class DefinitionProblem(NamedTuple):
    """A problem in a definition, with its location."""

    place: str
    """File or Python module."""
    line: int | None
    """Line number, from 1; None if unknown."""
    text: str

    def __str__(self) -> str:
        place = UNPRINTABLE.sub(
            lambda found: repr(found[0])[1:-1], self.place.replace("\n", "\\n").replace("\t", "\\t")
        )
        return f"{place}{'' if self.line is None else f':{self.line}'}: {self.text}"


class DefinitionFile(NamedTuple):
    name: str
    """Name of the agent."""
    path: Path
    root: Path | None = None
    """Project that the file belongs to; None for the user's own."""
    trust: Trust | None = None
    """Trust under which the file is used; None for the user's own files and for untrusted
    projects.
    """

    @property
    def is_untrusted(self) -> bool:
        return self.root is not None and self.trust is None


@dataclass(frozen=True, slots=True)
class FoundDefinitions:
    """Definition files by name. A name is either in `files` or in `refused`."""

    files: dict[str, DefinitionFile] = field(default_factory=dict[str, DefinitionFile])
    """Files in effect, by agent name."""
    refused: dict[str, DefinitionProblem] = field(default_factory=dict[str, DefinitionProblem])
    """Problems by agent name: two files of one name in a folder, and invalid names."""
    hidden: list[tuple[DefinitionFile, Path]] = field(
        default_factory=list[tuple[DefinitionFile, Path]]
    )
    """Replaced files, each with the path of the file that takes precedence."""

    def admit(self, withheld: FoundDefinitions, taken: Container[str] = ()) -> None:
        """Add the definitions of an untrusted project.

        Names that are already defined, or are in `taken`, keep their meaning.
        """
        here = {*self.files, *self.refused}
        for name, file in withheld.files.items():
            if name in self.files:
                self.hidden.append((file, self.files[name].path))
            elif name not in here and name not in taken:
                self.files[name] = file
        for name, problem in withheld.refused.items():
            if name not in here and name not in taken:
                self.refused[name] = problem
        self.hidden.extend(withheld.hidden)

    def replaced(self) -> list[str]:
        """Return a line for each file that another one replaces."""
        return [
            f"{file.name}: {by} replaces {file.path}, {self._why(file, by)}"
            for file, by in self.hidden
        ]

    def _why(self, file: DefinitionFile, by: Path) -> str:
        counts = self.files.get(file.name)
        is_own = counts is not None and counts.path == by and counts.root is None
        return (
            "because your own takes precedence: rename one to use both"
            if is_own
            else "which is farther away"
        )

    def left_out(self) -> str | None:
        """Return a warning that names these files of an untrusted project."""
        roots = {file.root: None for file in self.files.values() if file.root is not None}
        for root in roots:  # at most one exists
            shown = ", ".join(
                file.path.relative_to(root).as_posix()
                for file in list(self.files.values())[:SHOWN_MAX]
            )
            return (
                f"left out, because {root} is not trusted: {shown}. Review it, then run: "
                f"{command(root)}"
            )
        return None

    def refusal(self, name: str) -> str | None:
        """Return the reason why an agent of an untrusted project cannot be used; None if these
        files do not define it.
        """
        file = self.files.get(name)
        if file is None or file.root is None:
            return None
        return (
            f"{name!r} is an agent of {file.root}, which is not trusted: look at {file.path}, "
            f"then: {command(file.root)}"
        )


def find(
    own: Path | None, project: Project | None, trust: Trust | None = None
) -> tuple[FoundDefinitions, FoundDefinitions]:
    """Find the definitions in effect, and those of a project that `trust` does not cover.

    `own`: Treadle's own folder; None ignores it. If several agents have the same name, the user's
    own takes precedence, then the project's nearest. Blocks while it lists folders; reads no file.
    """
    theirs = FoundDefinitions()
    if trust is None or trust.standing is not TrustState.HOLDS:
        trust = None
    if project is not None:
        for place in project.folders():
            if own is None or os.path.realpath(place / FOLDER) != os.path.realpath(own):
                _add(theirs, place / FOLDER / AGENTS_NAME, project.root, trust)
    found, withheld = (
        (FoundDefinitions(), theirs) if trust is None else (theirs, FoundDefinitions())
    )
    if own is not None:
        _add(found, own / AGENTS_NAME)
    return found, withheld


def _add(
    found: FoundDefinitions, folder: Path, root: Path | None = None, trust: Trust | None = None
) -> None:
    by_name: dict[str, list[Path]] = {}
    for path in _files(folder):
        by_name.setdefault(path.stem, []).append(path)
    for paths in by_name.values():
        add_file(found, paths, root, trust)


def add_file(
    found: FoundDefinitions, paths: Sequence[Path], root: Path | None, trust: Trust | None = None
) -> None:
    """Add the only file of a name, or record a problem if one folder has several.

    Replaces a file of that name that was added before.
    """
    name = paths[0].stem
    if (replaced := found.files.pop(name, None)) is not None:
        found.hidden.append((replaced, paths[0]))
    found.refused.pop(name, None)
    if len(paths) > 1:
        files = " and ".join(path.name for path in paths)
        found.refused[name] = DefinitionProblem(
            str(paths[0]), 1, f"{files} both define the agent {name!r}: keep one of them"
        )
    elif not NAME.fullmatch(name):
        found.refused[name] = DefinitionProblem(
            str(paths[0]),
            1,
            f"{name!r} is not a valid agent name: use up to 64 letters, digits, '_', '-' and '.'",
        )
    else:
        found.files[name] = DefinitionFile(name, paths[0], root, trust)


def _files(folder: Path) -> list[Path]:
    """Return definition files sorted by name. Names that begin with a dot or underscore are
    skipped.
    """
    try:
        return sorted(
            path
            for path in folder.iterdir()
            if path.suffix in DEFINITION_ENDINGS and path.name[0] not in "._" and not path.is_dir()
        )
    except OSError:
        return []
