"""The prompt of a run: words, standard input and attached files. Entry points: `read_prompt`."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

from treadle.cli.exits import CommandFailed, failing
from treadle.config import Config
from treadle.messages.attachments import attachment as attached_file
from treadle.messages.message import Part, TextPart
from treadle.policy.decision import FindingKind
from treadle.policy.paths import Reach
from treadle.policy.permissions import permissions_of
from treadle.policy.policy import reach_of

STDIN_BYTES_MAX = 10 * 1024 * 1024


def read_prompt(words: str) -> list[Part]:
    """Return the typed words and the piped input as one prompt. Raises CommandFailed if both are
    empty.
    """
    texts = [text for text in (words, _piped()) if text.strip()]
    parts: list[Part] = [TextPart(text="\n\n".join(texts))] if texts else []
    if not parts:
        raise CommandFailed(
            "the prompt is empty: write it after `treadle run`, in quotes, or pipe it in"
        )
    return parts


def _piped() -> str:
    """Return the content of standard input if it is a pipe, a socket or a file; an empty string for
    a terminal, which is not read.
    """
    try:
        kind = os.fstat(0).st_mode
    except OSError:
        return ""
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind) or stat.S_ISSOCK(kind)):
        return ""
    try:
        data = sys.stdin.buffer.read(STDIN_BYTES_MAX + 1)
    except OSError as e:
        raise CommandFailed(f"cannot read standard input: {e.strerror or e}") from e
    if len(data) > STDIN_BYTES_MAX:
        raise CommandFailed(
            f"standard input is larger than {STDIN_BYTES_MAX // 1024 // 1024} MiB: save it to a "
            "file and name the file in the prompt"
        )
    return data.decode("utf-8", "replace").rstrip("\n")


def attachments(paths: Iterable[str | Path], config: Config, workspace: Path) -> list[Part]:
    """Return the files of `--file` as parts. Naming a file approves reading it, but deny rules
    still apply.

    Raises CommandFailed.
    """
    said = config.permissions
    permissions = permissions_of(allow=said.allow, ask=said.ask, deny=said.deny, own=config.home)
    reach = reach_of(workspace.absolute(), permissions)
    return [_attachment(Path(path), reach) for path in paths]


def _attachment(path: Path, reach: Reach) -> Part:
    with failing():
        finding = reach.read(os.path.abspath(path))
        if finding.kind is FindingKind.FORBIDDEN:
            raise CommandFailed(f"--file {str(path)!r} is not read: {finding.why}")
        return attached_file(path, named=f"--file {str(path)!r}")
