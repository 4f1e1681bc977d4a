"""Descriptions of a project's agents, skills, commands and configuration files for `treadle trust`.
Entry points: `described`.

The files are untrusted: unusual characters are escaped, and an invalid definition is shown as far
as it can be read.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from treadle._internal.terminal_text import revealed
from treadle.config.file import Broken
from treadle.config.trust import SKILL_NAME, TrustedKind, kind_of

if TYPE_CHECKING:
    from treadle.config.document import Plain

TEXT_CHARS = 300
"""Maximum characters shown of a value that is not executed."""
_WITH_KEYS = frozenset(
    (TrustedKind.CONFIG, TrustedKind.SKILL, TrustedKind.COMMAND, TrustedKind.AGENT)
)
SHOWN_KEYS = ("name", "description", "model", "tools")


def described(name: str, data: bytes) -> Iterator[str]:
    """Yield lines that describe a file by its keys. `name`: path below the project's root.

    Does not raise for an invalid file.
    """
    kind = kind_of(PurePosixPath(name))
    if kind not in _WITH_KEYS or (
        kind is TrustedKind.SKILL and not name.endswith(f"/{SKILL_NAME}")
    ):
        return
    from treadle.agents.definitions.text import document_of  # noqa: PLC0415  it brings the library for YAML

    try:
        text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
        root = document_of(text, markdown=name.endswith(".md")).document.root
    except Broken as e:
        yield f"(its keys cannot be read: line {e.line}: {_shown(e.text)})"
        return
    said = root.plain() if root is not None else None
    if isinstance(said, dict):
        yield from _of_config(said) if kind is TrustedKind.CONFIG else _of_definition(said)


def _of_definition(said: Mapping[str, Plain]) -> Iterator[str]:
    for key in SHOWN_KEYS:
        if said.get(key) is not None:
            yield f"{key}: {_shown(said[key])}"


def _of_config(said: Mapping[str, Plain]) -> Iterator[str]:
    """Yield lines for everything in a configuration that is executed, without truncation."""
    for key in ("agents", "mcp_servers"):
        yield from _leaves(key, said.get(key))


def _leaves(path: str, value: Plain) -> Iterator[str]:
    """Yield each value in nested data, with its path.

    Commands are shell-quoted, so that one argument cannot look like two.
    """
    if isinstance(value, dict):
        for key, inside in value.items():
            yield from _leaves(f"{path}.{_whole(key)}", inside)
    elif isinstance(value, list) and path.endswith((".command", ".args")):
        yield f"{path}: {_whole(shlex.join(map(str, value)))}"
    elif isinstance(value, list):
        for inside in value:
            yield from _leaves(path, inside)
    elif value is not None:
        yield f"{path}: {_whole(value)}"


def _whole(value: Plain) -> str:
    return revealed(str(value)).replace("\n", "\\n").replace("\t", "\\t")


def _shown(value: Plain) -> str:
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    text = revealed(" ".join(text.split()))
    return text if len(text) <= TEXT_CHARS else f"{text[: TEXT_CHARS - 1]}…"
