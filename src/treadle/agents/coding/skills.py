"""Skills: folders with a SKILL.md. The model sees names and descriptions, and reads a skill with
`read`.

A skill is addressed as `skill:NAME`, and its other files as `skill:NAME/PATH`, so that the prompt
contains no path of this machine. A project's skills apply only if it is trusted. Entry points:
`find_skills`, `SkillReader`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec
from typing_extensions import override

from treadle._internal.held_files import read_checked
from treadle.config import Project, Trust
from treadle.config.file import Broken, read_bytes
from treadle.config.places import FOLDER
from treadle.config.trust import SKILL_NAME, SKILLS_NAME, TrustState
from treadle.tools.builtin.read import Read, ReadArguments
from treadle.tools.tool import ToolContext, ToolFailed, ToolOutput

PREFIX = "skill:"
SKILLS_MAX = 100
DESCRIPTION_MAX_CHARS = 1_024

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?\n)---[ \t]*(?:\n|\Z)", re.DOTALL)


class Skill(NamedTuple):
    name: str
    description: str
    folder: Path
    trust: Trust | None
    """Trust in the project that owns the skill; None for the user's own."""


Skills: TypeAlias = Mapping[str, Skill]


def find_skills(own: Path | None, project: Project, trust: Trust, warnings: list[str]) -> Skills:
    """Return skills by name, sorted. If two have the same name, the nearer one takes precedence.

    Appends problems to `warnings`.
    """
    found: dict[str, Skill] = {}
    for folder in _folders(own / SKILLS_NAME) if own is not None else ():
        _add(found, folder, None, warnings)
    for place in project.folders() if trust.standing is TrustState.HOLDS else ():
        for folder in _folders(place / FOLDER / SKILLS_NAME):
            _add(found, folder, trust, warnings)
    if len(found) > SKILLS_MAX:
        warnings.append(
            f"{len(found)} skills exceed the limit: only the first {SKILLS_MAX} by name are shown "
            "to the model"
        )
    return dict(sorted(found.items())[:SKILLS_MAX])


def _folders(place: Path) -> list[Path]:
    try:
        # isfile() returns False for directories without search permission
        return sorted(folder for folder in place.iterdir() if os.path.isfile(folder / SKILL_NAME))
    except OSError:
        return []


def _add(found: dict[str, Skill], folder: Path, trust: Trust | None, warnings: list[str]) -> None:
    path = folder / SKILL_NAME
    try:
        read = read_bytes(path, own=trust is None)
        if read is None or (trust is not None and not trust.admits(path, read.data)):
            return
        name, description = _front_matter(read.data.decode("utf-8-sig", "replace"), folder.name)
    except Broken as e:
        warnings.append(f"{path}:{e.line}: {e.text}; the skill is left out")
        return
    found[name] = Skill(name, description, folder, trust)


def _front_matter(text: str, folder: str) -> tuple[str, str]:
    """Return name and description. Raises Broken."""
    from treadle.config.document import parse  # noqa: PLC0415  takes 30 ms, and few projects have skills

    matter = _FRONT_MATTER.match(text.replace("\r\n", "\n"))
    if matter is None:
        raise Broken(1, "must begin with `---`, a name, a description and `---`")
    try:
        root = parse(matter[1]).root
    except Broken as e:
        raise Broken(e.line + 1, e.text) from e
    fields = root.plain() if root is not None else {}
    fields = fields if isinstance(fields, dict) else {}
    name, description = fields.get("name", folder), fields.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Broken(
            2, f"the name must be up to 64 letters, digits, '-' and '_', not {str(name)[:80]!r}"
        )
    if not isinstance(description, str) or not description.strip():
        raise Broken(2, "needs a description: when to use it, in one sentence")
    return name, description.strip()[:DESCRIPTION_MAX_CHARS]


# ---------------------------------------------------------------- the `read` tool


class SkillReader(Read):
    """The `read` tool, extended to the files of skills."""

    def __init__(self, skills: Skills) -> None:
        super().__init__()
        self._definition = Read().definition
        self._skills = skills

    @override
    async def execute(self, ctx: ToolContext[Any], arguments: ReadArguments) -> ToolOutput:
        if not self._skills or not arguments.path.startswith(PREFIX):
            return await super().execute(ctx, arguments)
        place = self._place(arguments.path)
        return await super().execute(
            msgspec.structs.replace(ctx, places={**ctx.places, arguments.path: os.fspath(place)}),
            arguments,
        )

    def _place(self, path: str) -> Path:
        """Resolve a skill path. Raises ToolFailed."""
        name, _, inside = path.removeprefix(PREFIX).partition("/")
        if (skill := self._skills.get(name)) is None:
            raise ToolFailed(f"There is no skill {name!r}. There are: {', '.join(self._skills)}.")
        folder = Path(os.path.realpath(skill.folder))
        named = skill.folder / (inside or SKILL_NAME)
        place = Path(os.path.realpath(named))
        if not place.is_relative_to(folder):
            raise ToolFailed(
                f"{path!r} is outside the skill {name!r}: only files in its folder can be read "
                "this way."
            )
        if place.is_dir():
            raise ToolFailed(
                f"{path!r} is a directory of the skill {name!r}. In it: "
                f"{', '.join(_listed(place))}."
            )
        if (
            skill.trust is not None
            and (data := _bytes(place)) is not None
            and not skill.trust.admits(named, data)
        ):
            raise ToolFailed(
                f"{path!r} has changed since the user reviewed it, and can no longer be read."
            )
        return place


def _listed(folder: Path) -> Iterator[str]:
    for entry in sorted(folder.iterdir())[:100]:
        yield entry.name + ("/" if entry.is_dir() else "")


def _bytes(place: Path) -> bytes | None:
    """Return the bytes of a file; None if `read` itself will report the problem."""
    try:
        return read_checked(place) if place.is_file() else None
    except OSError:
        return None
