"""User-defined commands: prompts with placeholders in `.treadle/commands/NAME.md`, in the project
and in Treadle's own folder. Entry points: `own_commands`.

A project's commands need the user's trust, byte for byte (config/trust.py), as do its AGENTS.md and
skills. They grant nothing: the prompt is sent as if the user had typed it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from treadle._internal.terminal_text import one_line
from treadle.config import Config, Project, Trust, project_of, trust_of
from treadle.config.file import Broken, decoded, read_bytes
from treadle.config.places import FOLDER
from treadle.config.trust import COMMANDS_NAME, TrustState, command
from treadle.tui.commands.command import SlashCommand
from treadle.tui.commands.registry import OUR_NAMES

if TYPE_CHECKING:
    from treadle.tui.desk import Desk

SIZE_MAX_BYTES: Final = 100_000
"""Maximum size of a command file."""
COMMANDS_MAX: Final = 200
NAMED_MAX: Final = 20
"""Maximum number of files named in a warning."""
KEYS: Final = ("description", "argument-hint")
"""Optional keys of the front matter."""
SUMMARY_CHARS: Final = 100

_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,63}")
_FENCE: Final = re.compile(r"---[ \t]*\r?(?:\n|\Z)")
_HOLE: Final = re.compile(r"\$(?:ARGUMENTS\b|([1-9])(?!\d))")


class Own(NamedTuple):
    commands: tuple[SlashCommand, ...]
    """Commands of the user, sorted by name."""
    warnings: tuple[str, ...]
    """Reasons why commands are not offered, to show once."""


class _Text(NamedTuple):
    description: str
    hint: str
    body: str
    remarks: tuple[str, ...]
    """Ignored parts of the file, with their line numbers."""


def own_commands(config: Config, cwd: Path) -> Own:
    """Return the user-defined commands; of two with one name, the nearer one wins.

    Blocks while it reads files. Broken files become warnings.
    """
    home, project = None if config.home is None else Path(config.home), project_of(cwd)
    if home is None:
        return Own((), ())
    trust = trust_of(home, project)
    warnings, found = list[str](), dict[str, SlashCommand]()
    for folder, trusted in _folders(home, project, trust, warnings):
        for path, name in _files(folder, warnings):
            if name in OUR_NAMES:
                warnings.append(
                    f"{path}:1: /{name} is a command of Treadle's own: give the file another "
                    "name; it is left out"
                )
            elif len(found) >= COMMANDS_MAX and name not in found:
                warnings.append(
                    f"{path}:1: more than {COMMANDS_MAX} commands are too many; it is left out"
                )
            elif (made := _command(path, name, folder, trusted, warnings)) is not None:
                found[name] = made
    return Own(tuple(found[name] for name in sorted(found)), tuple(warnings))


# ---------------------------------------------------------------- finding them


def _folders(
    home: Path, project: Project | None, trust: Trust, warnings: list[str]
) -> Iterator[tuple[Path, Trust | None]]:
    """Yield the folders, farthest first, each with the trust that it needs; None for the user's
    own.
    """
    yield home / COMMANDS_NAME, None
    folders = (
        [] if project is None else [each / FOLDER / COMMANDS_NAME for each in project.folders()]
    )
    folders = [
        folder for folder in folders if os.path.realpath(folder.parent) != os.path.realpath(home)
    ]
    if trust.standing is TrustState.HOLDS:
        yield from ((folder, trust) for folder in folders)
    elif (
        trust.standing is TrustState.UNKNOWN and project is not None
    ):  # the configuration reports trust that is void
        names = [
            path.relative_to(project.root).as_posix()
            for folder in folders
            for path, _ in _files(folder, [])
        ]
        if names:
            more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
            shown = ", ".join(one_line(name) for name in names[:NAMED_MAX]) + more
            warnings.append(
                f"not offered as commands, because {project.root} is not trusted: {shown}. "
                f"Review it, then run: {command(project.root)}"
            )


def _files(folder: Path, warnings: list[str]) -> Iterator[tuple[Path, str]]:
    """Yield each file with its command name, sorted by path.

    Names that begin with a dot or an underscore are skipped.
    """
    for here, folders, names in os.walk(folder):
        for linked in [name for name in folders if os.path.islink(os.path.join(here, name))]:
            warnings.append(
                f"{os.path.join(here, linked)}:1: is a link to a folder, which is not followed: "
                "put the commands there"
            )
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        for name in sorted(name for name in names if name.endswith(".md") and name[0] not in "._"):
            path = Path(here, name)
            parts = path.relative_to(folder).with_suffix("").parts
            if all(_NAME.fullmatch(part) for part in parts):
                yield path, ":".join(parts)
            else:
                warnings.append(
                    f"{path}:1: {one_line('/'.join(parts), 80)!r} is not a valid command name: use "
                    "letters, digits, '_', '-' and '.'; it is left out"
                )


def _command(
    path: Path, name: str, folder: Path, trust: Trust | None, warnings: list[str]
) -> SlashCommand | None:
    try:
        data = _data(path, folder, own=trust is None)
        if data is None or (trust is not None and not trust.admits(path, data)):
            return None
        text = _read(data)
    except Broken as e:
        warnings.append(f"{path}:{e.line}: {e.text}; the command is left out")
        return None
    warnings += (f"{path}:{remark}" for remark in text.remarks)
    return SlashCommand(
        name=name,
        summary=text.description,
        usage=text.hint,
        run=partial(_send, name, text.body),
        own=True,
    )


def _data(path: Path, folder: Path, *, own: bool) -> bytes | None:
    """Return the content of a command file. Raises Broken."""
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(folder)):
        raise Broken(1, f"the link leaves {folder}")
    content = read_bytes(real, own=own)
    if content is not None and len(content.data) > SIZE_MAX_BYTES:
        raise Broken(1, f"is larger than {SIZE_MAX_BYTES:,} bytes: too large for a prompt")
    return None if content is None else content.data


# ---------------------------------------------------------------- parsing


def _read(data: bytes) -> _Text:
    """Parse a command file. Raises Broken."""
    text = decoded(data, "contains the invisible character {!r}").replace("\r\n", "\n")
    read = _with_front_matter(text) if _FENCE.match(text) else _Text("", "", text.strip(), ())
    if not read.body:
        raise Broken(text.count("\n") + 1, "contains no prompt: write one")
    first = next(line for line in read.body.splitlines() if line.strip())
    return read._replace(
        description=one_line(read.description or first.lstrip("# "), SUMMARY_CHARS),
        hint=one_line(read.hint, 40),
    )


def _with_front_matter(text: str) -> _Text:
    """Parse a command file with front matter. Raises Broken."""
    from treadle.agents.definitions.text import document_of  # noqa: PLC0415  brings the library for YAML, which most commands do not need

    document, body, _ = document_of(text, markdown=True)
    for duplicate in document.duplicates:
        raise Broken(
            duplicate.line,
            f"the key {duplicate.key!r} is given twice (first in line {duplicate.first})",
        )
    entries = {} if document.root is None or document.root.value is None else document.root.value
    if not isinstance(entries, dict):
        raise Broken(2, "the text between the lines `---` must be keys, like `description: …`")
    said, remarks = dict[str, str](), list[str]()
    for key, entry in entries.items():
        value = entry.node.value
        if key not in KEYS:
            remarks.append(
                f"{entry.key.line}: the key {one_line(key, 40)!r} is ignored: a command "
                f"has {' and '.join(KEYS)}, and grants nothing"
            )
        elif isinstance(value, dict) or (isinstance(value, tuple) and key == KEYS[0]):
            raise Broken(entry.key.line, f"{key} must be a text")
        elif isinstance(
            value, tuple
        ):  # `argument-hint: [FILE]` is a list in YAML, but meant as text
            said[key] = f"[{', '.join(str(item.value) for item in value)}]"
        else:
            said[key] = "" if value is None else str(value)
    return _Text(said.get(KEYS[0], ""), said.get(KEYS[1], ""), body or "", tuple(remarks))


# ---------------------------------------------------------------- sending


async def _send(name: str, body: str, desk: Desk, rest: str) -> None:
    desk.send(filled(body, rest), shown=f"/{name} {rest}".strip())


def filled(body: str, arguments: str) -> str:
    """Fill the placeholders of a prompt: `$ARGUMENTS` with everything typed after the name, `$1` to
    `$9` with its words, where quotes group words. Inserted text is not expanded again.

    Without placeholders, the arguments are appended.
    """
    words = _words(arguments)
    text, places = _HOLE.subn(
        lambda hole: arguments if hole[1] is None else next(iter(words[int(hole[1]) - 1 :]), ""),
        body,
    )
    return text if places or not arguments else f"{text}\n\n{arguments}"


def _words(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:  # an unclosed quote
        return arguments.split()
