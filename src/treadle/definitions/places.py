"""Which files define agents: those of Treadle's own folder, and of the project from its root down to the working directory.

What stands in them is keys.py's. Entry: `find`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from treadle.config.file import UNPRINTABLE
from treadle.config.places import FOLDER, Project

AGENTS_NAME = "agents"
ENDINGS = (".md", ".yaml", ".yml")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""What an `Agent` may be named."""


class Problem(NamedTuple):
    """What is wrong, and where."""

    place: str
    """A file; a Python module."""
    line: int | None
    """From 1; None where the place has none."""
    text: str

    def __str__(self) -> str:
        place = UNPRINTABLE.sub(lambda found: repr(found[0])[1:-1], self.place.replace("\n", "\\n").replace("\t", "\\t"))
        return f"{place}{'' if self.line is None else f':{self.line}'}: {self.text}"


class DefinitionFile(NamedTuple):
    name: str
    """The agent's."""
    path: Path
    root: Path | None = None
    """The project that it belongs to; None: it is the user's own."""


@dataclass(frozen=True, slots=True)
class Found:
    """Each name in one of `files` and `refused`."""

    files: dict[str, DefinitionFile] = field(default_factory=dict[str, DefinitionFile])
    """Those that count, by name."""
    refused: dict[str, Problem] = field(default_factory=dict[str, Problem])
    """Names of agents that two files of one folder have, or that can be none."""
    hidden: list[tuple[DefinitionFile, Path]] = field(default_factory=list[tuple[DefinitionFile, Path]])
    """Those in whose place a nearer file of the same name counts."""


def find(own: Path | None, project: Project | None) -> Found:
    """`own`: Treadle's own folder; None: nothing of it counts. Of two agents of one name the nearer one counts, the project's before the user's own.

    Blocks while it looks into folders; no file is read.
    """
    found = Found()
    if own is not None:
        _add(found, own / AGENTS_NAME, None)
    if project is not None:
        for place in project.folders():
            if own is None or os.path.realpath(place / FOLDER) != os.path.realpath(own):
                _add(found, place / FOLDER / AGENTS_NAME, project.root)
    return found


def _add(found: Found, folder: Path, root: Path | None) -> None:
    by_name: dict[str, list[Path]] = {}
    for path in _files(folder):
        by_name.setdefault(path.stem, []).append(path)
    for paths in by_name.values():
        add_file(found, paths, root)


def add_file(found: Found, paths: Sequence[Path], root: Path | None) -> None:
    """The one file of a name, or several of one folder, which is wrong. A farther one of that name counts no more."""
    name = paths[0].stem
    if (farther := found.files.pop(name, None)) is not None:
        found.hidden.append((farther, paths[0]))
    found.refused.pop(name, None)
    if len(paths) > 1:
        files = " and ".join(path.name for path in paths)
        found.refused[name] = Problem(str(paths[0]), 1, f"{files} both define the agent {name!r}: keep one of them")
    elif not NAME.fullmatch(name):
        found.refused[name] = Problem(str(paths[0]), 1, f"{name!r} is no name for an agent: use up to 64 letters, digits, '_', '-' and '.'")
    else:
        found.files[name] = DefinitionFile(name, paths[0], root)


def _files(folder: Path) -> list[Path]:
    """In the order of their names. What begins with a dot or an underscore defines nothing."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix in ENDINGS and path.name[0] not in "._" and not path.is_dir())
    except OSError:
        return []
