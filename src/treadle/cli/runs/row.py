"""A run in one line: as the object that `--json` gives, and in words for people. Entry:

`row_of`, `status_of`.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any, Final

import msgspec

from treadle._internal.redaction import Redactor
from treadle.cli.terminal import Style
from treadle.journal.journal import RunInfo
from treadle.types import Outcome

PREFIX: Final = "run_"
SHORT_CHARS = 12
"""Of an id without its prefix: the time in milliseconds, which is mostly enough for a command."""


def row_of(info: RunInfo, secrets: Redactor) -> dict[str, Any]:
    """Its prompt without secrets; the other texts are whole, and whoever prints them can still take
    them out.
    """
    row = msgspec.structs.asdict(info)
    del row["entries"], row["spending"]
    return {**row, "prompt": secrets.shortened(info.prompt)}


def status_of(info: RunInfo) -> str:
    """How it ended; where it has not, who is asked next."""
    if info.outcome is not None:
        return info.outcome.value
    return "parked" if info.parked is not None else info.status


def style_of(status: str) -> Style:
    match status:
        case Outcome.COMPLETED:
            return "green"
        case "running":
            return "cyan"
        case "queued":
            return ""
        case "waiting" | "stopped" | "parked" | Outcome.APPROVAL_NEEDED | Outcome.CANCELLED:
            return "yellow"
        case _:
            return "red"


def model_name(model: str) -> str:
    """Without the provider, and without the directory of a file."""
    kind, colon, name = model.partition(":")
    if not colon:
        return model
    return (
        f"{kind}:{PurePath(name.partition('=')[0]).name}"
        if kind in ("script", "tape", "record")
        else name
    )
