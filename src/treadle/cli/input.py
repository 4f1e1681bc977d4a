"""The prompt of a run: words, standard input, and files that were named. Entry: `read_prompt`."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from treadle.cli.exits import CommandFailed, failing
from treadle.messages.attachments import attachment as attached_file
from treadle.messages.message import Part, TextPart

STDIN_BYTES_MAX = 10 * 1024 * 1024


def read_prompt(words: str, attached: tuple[Path, ...]) -> list[Part]:
    """What a person typed, what was piped in, and the files that they named.

    Raises Failed where there is nothing to ask, or a file is none.
    """
    texts = [text for text in (words, _piped()) if text.strip()]
    parts: list[Part] = [TextPart(text="\n\n".join(texts))] if texts else []
    if not parts:
        raise CommandFailed('the prompt is empty: treadle run "what to do", or pipe it in')
    return [*(attachment(path) for path in attached), *parts]


def _piped() -> str:
    """Standard input where it is a pipe or a file; a terminal and a closed one are not read."""
    try:
        kind = os.fstat(0).st_mode
    except OSError:
        return ""
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind) or stat.S_ISSOCK(kind)):
        return ""
    try:
        data = sys.stdin.buffer.read(STDIN_BYTES_MAX + 1)
    except OSError as e:
        raise CommandFailed(f"standard input cannot be read: {e.strerror or e}") from e
    if len(data) > STDIN_BYTES_MAX:
        raise CommandFailed(
            f"standard input is larger than {STDIN_BYTES_MAX // 1024 // 1024} MiB: save it to a "
            "file and name the file in the prompt"
        )
    return data.decode("utf-8", "replace").rstrip("\n")


def attachment(path: Path) -> Part:
    """Of `--file`. Raises Failed."""
    with failing():
        return attached_file(path, named=f"--file {str(path)!r}")
