"""Trust in projects: the user's decision that a project's own files may be used, bound to the
content of each file.

Any changed, missing or new file voids it, so that no unreviewed file is used. The modules that read
project files enforce it: keys.py for settings, agents/coding/ for AGENTS.md and skills,
agents/definitions/ for agents, tui/commands/own.py for commands. Nothing here prompts. Entry
points: `trust_of`, `trust`, `revoke`, `trusted`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from pathlib import Path, PurePosixPath

from treadle._internal.safe_open import head_of
from treadle.config.file import Broken
from treadle.config.places import CONFIG_NAME, FOLDER, Project
from treadle.config.trust_store import STORE_NAME, content_hash, trusted
from treadle.errors import AgentError

GUIDANCE_NAME = "AGENTS.md"
SKILLS_NAME = "skills"
SKILL_NAME = "SKILL.md"
COMMANDS_NAME = "commands"
AGENTS_NAME = "agents"
DEFINITION_ENDINGS = (".md", ".yaml", ".yml")

FILES_MAX = 2_000
TOTAL_MAX_BYTES = 32 << 20
FOLDERS_MAX = 20_000
"""Maximum number of folders searched for nested files when a project is trusted."""
TOLD_MAX = 5

FILLED_BY_TOOLS = frozenset(
    {"node_modules", "site-packages", "vendor", "venv", "target", "build", "dist"}
)
"""Folders that are not searched, in addition to hidden ones. Package managers write files there,
which would void the trust at each update.
"""


class TrustState(StrEnum):
    UNKNOWN = "unknown"
    """The user has not decided."""
    HOLDS = "holds"
    VOID = "void"
    """The files have changed since they were trusted."""


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Trust in a project, evaluated against its files at the time of the query."""

    root: Path
    standing: TrustState = TrustState.UNKNOWN
    changes: tuple[str, ...] = ()
    """Changes that void the trust, as phrases."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """SHA-256 by path below the root, as trusted; empty unless the trust holds."""

    def admits(self, path: Path, data: bytes) -> bool:
        """Return True if `data`, read from `path`, is what was trusted."""
        return (
            self.standing is TrustState.HOLDS
            and path.is_relative_to(self.root)
            and self.files.get(_below(path, self.root)) == content_hash(data)
        )

    def at(self, root: Path) -> Trust:
        """Return the same trust for a copy of the project that Treadle made, such as a worktree. A
        file of the copy applies if its content is identical to the trusted one.
        """
        return replace(self, root=root)

    @property
    def warning(self) -> str | None:
        """Warning for the user if trusted files are no longer used."""
        if self.standing is not TrustState.VOID:
            return None
        more = len(self.changes) - TOLD_MAX
        what = ", ".join((*self.changes[:TOLD_MAX], *([f"and {more} more"] if more > 0 else [])))
        return (
            f"{self.root} is no longer trusted: {what}. None of its configuration is "
            f"used; review it, then run: {command(self.root)}"
        )


def command(root: Path) -> str:
    """Return the command that trusts a project."""
    import shlex  # noqa: PLC0415  only for a message

    return f"treadle trust {shlex.quote(str(root))}"


def trust_of(own: Path, project: Project | None) -> Trust:
    """Evaluate the stored trust in a project against its files. If the store cannot be read,
    nothing is trusted.

    `own`: Treadle's own folder. Blocks while it reads the files, at most 32 MiB.
    """
    if project is None:
        return Trust(root=Path("/"))
    try:
        record = trusted(own).get(str(project.root))
    except Broken as e:
        return Trust(
            root=project.root, standing=TrustState.VOID, changes=(f"{own / STORE_NAME} {e.text}",)
        )
    if record is None:
        return Trust(root=project.root)
    changes = tuple(_changes(record, project, own))
    return (
        Trust(root=project.root, standing=TrustState.VOID, changes=changes)
        if changes
        else Trust(root=project.root, standing=TrustState.HOLDS, files=record)
    )


def _changes(record: Mapping[str, str], project: Project, own: Path) -> Iterator[str]:
    for name, digest in sorted(record.items()):
        data = _content(project.root / name, project.root)
        if data is None:
            yield f"{name!r} is gone"
        elif content_hash(data) != digest:
            yield f"{name!r} has changed"
    for folder in project.folders():
        for path in _control_files(folder, own):
            if (name := _below(path, project.root)) not in record and _content(
                path, project.root
            ) is not None:
                yield f"{name!r} is new"


def survey(project: Project, own: Path) -> dict[str, bytes]:
    """Return every file that trust in the project would cover, by its path below the root: files
    that apply to a run in `here`, and those of nested folders.

    Raises AgentError(invalid) if there are too many files to review.
    """
    folders = dict.fromkeys(
        [
            *project.folders(),
            *(_nested(project.root) if os.path.lexists(project.root / ".git") else ()),
        ]
    )
    found: dict[str, bytes] = {}
    size = 0
    for folder in folders:
        for path in _control_files(folder, own):
            if (data := _content(path, project.root)) is not None:
                found[_below(path, project.root)] = data
                size += len(data)
            if len(found) > FILES_MAX or size > TOTAL_MAX_BYTES:
                raise AgentError(
                    "invalid",
                    (
                        f"{project.root} has more than {FILES_MAX:,} files or "
                        f"{TOTAL_MAX_BYTES >> 20} MiB of configuration: too much to trust"
                    ),
                )
    return dict(sorted(found.items()))


def brought(project: Project, own: Path) -> list[Path]:
    """Return the project's files, trusted or not, that would instruct the model in a run in `here`,
    except chat commands.
    """
    files = (path for folder in project.folders() for path in _control_files(folder, own))
    return [
        path
        for path in files
        if _instructs(path) and os.path.isfile(path) and path.resolve().is_relative_to(project.root)
    ]


def _instructs(path: Path) -> bool:
    return path.name in (GUIDANCE_NAME, SKILL_NAME) or defines_agent(path)


class TrustedKind(Enum):
    """Purpose of a project file."""

    GUIDANCE = "guidance"
    CONFIG = "config"
    SKILL = "skill"
    """SKILL.md, or another file of its folder."""
    COMMAND = "command"
    AGENT = "agent"
    UNUSED = "unused"


def kind_of(path: PurePosixPath) -> TrustedKind:
    """Classify a file by its path below the root, from the last `.treadle` on.

    A `.treadle` folder inside a skill applies to runs in that folder.
    """
    if path.name == GUIDANCE_NAME:
        return TrustedKind.GUIDANCE
    folders = path.parts
    if FOLDER not in folders[:-1]:
        return TrustedKind.UNUSED
    below = folders[len(folders) - folders[::-1].index(FOLDER) :]
    if below == (CONFIG_NAME,):
        return TrustedKind.CONFIG
    if defines_agent(path):
        return TrustedKind.AGENT
    if below[0] == COMMANDS_NAME and path.suffix == ".md":
        return TrustedKind.COMMAND
    return TrustedKind.SKILL if below[0] == SKILLS_NAME else TrustedKind.UNUSED


def defines_agent(path: Path | PurePosixPath) -> bool:
    """Return True for a definition file directly in `.treadle/agents`, whatever its content.
    Subfolders are ignored.
    """
    return (
        path.suffix in DEFINITION_ENDINGS
        and path.parts[-3:-1] == (FOLDER, AGENTS_NAME)
        and path.name[0] not in "._"
    )


def _control_files(folder: Path, own: Path) -> Iterator[Path]:
    """Yield the paths that trust covers, existing or not; of skills, commands and agents, existing
    files only.
    """
    yield folder / GUIDANCE_NAME
    settings = folder / FOLDER
    if os.path.realpath(settings) != os.path.realpath(own):
        yield settings / CONFIG_NAME
        yield from _all_below(settings / SKILLS_NAME)
        yield from (path for path in _all_below(settings / COMMANDS_NAME) if path.suffix == ".md")
        yield from (
            path for path in _all_below(settings / AGENTS_NAME) if path.suffix in DEFINITION_ENDINGS
        )


def _all_below(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (Path(here, name) for name in sorted(names))


def _nested(root: Path) -> Iterator[Path]:
    """Yield nested directories, except those of other projects, of git, and of package managers."""
    folders, left = [root], FOLDERS_MAX
    while folders and left:
        left -= 1
        folder = folders.pop()
        yield folder
        try:
            with os.scandir(folder) as entries:
                inside = [
                    entry.path
                    for entry in entries
                    if entry.is_dir(follow_symlinks=False) and _may_hold_files(entry)
                ]
        except OSError:
            continue
        folders += map(Path, sorted(inside, reverse=True))


def _may_hold_files(entry: os.DirEntry[str]) -> bool:
    return (
        not entry.name.startswith(".")
        and entry.name not in FILLED_BY_TOOLS
        and not os.path.lexists(os.path.join(entry.path, ".git"))
    )


def _content(path: Path, root: Path) -> bytes | None:
    """Return the content of a regular file of the project, or None if it is missing or a link leads
    out of the project.

    Content beyond the size limit is cut, and so never matches.
    """
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(root):
        return None
    return head_of(real, TOTAL_MAX_BYTES + 1)


def _below(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()
