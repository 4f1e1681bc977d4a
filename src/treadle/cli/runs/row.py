"""A run as one row: the object of `--json` and texts for tables. Entry points: `row_of`,
`status_of`.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any, Final

import msgspec

from treadle._internal.redaction import Redactor
from treadle.cli.terminal import Style
from treadle.journal.run_info import RunInfo
from treadle.types import Outcome

PREFIX: Final = "run_"
SHORT_CHARS = 12
"""Length of a shortened id, without its prefix. Its leading timestamp is usually unique."""


def row_of(info: RunInfo, secrets: Redactor) -> dict[str, Any]:
    """Return the run as a dictionary. The prompt is shortened, and only it is free of secrets:
    callers must mask the other texts.
    """
    row = msgspec.structs.asdict(info)
    del row["entries"], row["spending"]
    return {**row, "prompt": secrets.shortened(info.prompt)}


def status_of(info: RunInfo) -> str:
    """Return the outcome of a finished run, else its status."""
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
    """Return the name of the model without its provider, or the name of its file without the
    directory.
    """
    kind, colon, name = model.partition(":")
    if not colon:
        return model
    return (
        f"{kind}:{PurePath(name.partition('=')[0]).name}"
        if kind in ("script", "tape", "record")
        else name
    )
