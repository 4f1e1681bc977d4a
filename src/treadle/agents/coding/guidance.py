"""Guidance for the system prompt: AGENTS.md files and the list of skills.

The user's own files always apply. A project's files apply only if the project is trusted and their
bytes are unchanged (config/trust.py). Entry points: `guidance`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from treadle.agents.coding.skills import Skills, find_skills
from treadle.config import Project, Trust
from treadle.config.file import Broken, read_bytes
from treadle.config.trust import GUIDANCE_NAME, TrustState, brought, command

FILE_MAX_CHARS = 32_768
TOTAL_MAX_CHARS = 65_536
BELOW_MAX = 20
"""Maximum number of files in subfolders that the prompt lists."""

HEAD = """\
# How to work here

Written by the person, or by the project's maintainers. If two of them disagree, the later one below is nearer and wins;
the person's words in the conversation win over all of them."""  # noqa: E501
BELOW = (
    "Subfolders have files like these for their contents. Read the nearest one before you "
    "change something there:"
)
SKILLS = """\
# Skills

Instructions for particular tasks. If one of them fits your task, read it before you begin: call `read` with the path `skill:NAME`."""  # noqa: E501


class Guidance(NamedTuple):
    text: str
    """Text for the system prompt; empty if there is no guidance."""
    skills: Skills
    warnings: tuple[str, ...]
    """Warnings to show once: files that are not sent, with the reason."""


class _File(NamedTuple):
    title: str
    text: str


def guidance(own: Path | None, project: Project, trust: Trust) -> Guidance:
    """Collect the guidance for a project. Blocks while it reads files.

    `own`: Treadle's own folder; None ignores it. The text depends only on the files.
    """
    warnings: list[str] = [trust.warning] if trust.warning else []
    if (
        own is not None
        and trust.standing is TrustState.UNKNOWN
        and (
            ignored := [path.relative_to(project.root).as_posix() for path in brought(project, own)]
        )
    ):
        warnings.append(
            f"not sent to the model, because {project.root} is not trusted: "
            f"{', '.join(ignored[:BELOW_MAX])}. Review it, then run: {command(project.root)}"
        )
    files = [*_own_file(own, warnings), *_files(project, trust, warnings)]
    skills = find_skills(own, project, trust, warnings)
    blocks = [*_told(files, warnings), *_below(project, trust)]
    listed = (
        [
            SKILLS,
            "\n".join(
                f"- {_line(skill.name)}: {_line(skill.description)}" for skill in skills.values()
            ),
        ]
        if skills
        else []
    )
    return Guidance(
        "\n\n".join([*([HEAD] if blocks else []), *blocks, *listed]), skills, tuple(warnings)
    )


def _own_file(own: Path | None, warnings: list[str]) -> Iterator[_File]:
    path = own / GUIDANCE_NAME if own is not None else None
    try:
        if path is not None and (read := read_bytes(path, own=True)):
            yield _File("The person's own", _text(read.data))
    except Broken as e:
        warnings.append(f"{path}: {e.text}; it is not sent to the model")


def _files(project: Project, trust: Trust, warnings: list[str]) -> Iterator[_File]:
    """Yield the project's files, from the root down to the working directory."""
    for folder in project.folders() if trust.standing is TrustState.HOLDS else ():
        path = folder / GUIDANCE_NAME
        try:
            if (read := read_bytes(path)) and trust.admits(path, read.data):
                yield _File(path.relative_to(project.root).as_posix(), _text(read.data))
        except Broken as e:
            warnings.append(f"{path}: {e.text}; it is not sent to the model")


def _text(data: bytes) -> str:
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n").strip()


def _told(files: list[_File], warnings: list[str]) -> list[str]:
    """Return the blocks that fit the size limits. Files farthest from the working directory are
    dropped first.
    """
    left, told = TOTAL_MAX_CHARS, list[str]()
    for title, text in reversed([file for file in files if file.text]):
        most = min(FILE_MAX_CHARS, left)
        if len(text) > most:
            warnings.append(
                f"{title}: {len(text):,} characters of instructions exceed the limit: "
                f"{f'the first {most:,} are sent' if most else 'none are sent'}"
            )
            text = text[:most].rpartition("\n")[0] + "\n[cut here: it is too long]" if most else ""
        left = max(left - len(text), 0)
        if text:
            told.append(f"## {_line(title)}\n\n{text}")
    return told[::-1]


def _below(project: Project, trust: Trust) -> list[str]:
    here = {
        (folder / GUIDANCE_NAME).relative_to(project.root).as_posix()
        for folder in project.folders()
    }
    prefix = (
        ""
        if project.here == project.root
        else f"{project.here.relative_to(project.root).as_posix()}/"
    )
    deeper = [
        name
        for name in sorted(trust.files)
        if name.endswith(f"/{GUIDANCE_NAME}") and name.startswith(prefix) and name not in here
    ]
    return (
        [f"{BELOW} {', '.join(_line(name.removeprefix(prefix)) for name in deeper[:BELOW_MAX])}"]
        if deeper
        else []
    )


def _line(text: str) -> str:
    """Collapse a name or description into one printable line."""
    return " ".join(
        "".join(character if character.isprintable() else " " for character in text).split()
    )
