"""Message to the model when its arguments are rejected: nothing was run, why, and to call again.

tools/schemas/problems.py describes the problems themselves. Entry points: `misfit`, `unparsable`.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.tools.schemas.problems import SchemaProblem, told, why_unparsable
from treadle.tools.tool import InvalidArguments


def misfit(tool: str, problems: Sequence[SchemaProblem]) -> InvalidArguments:
    """At most ten problems are told, each in a bounded line."""
    lines = [
        f"The arguments do not fit the tool {tool!r}, and nothing was run:",
        *told(problems, "the arguments"),
        "Mend them and call it again.",
    ]
    return InvalidArguments("\n".join(lines))


def unparsable(tool: str, text: str, reason: str) -> InvalidArguments:
    """Return the error for text that is not JSON."""
    why = why_unparsable(text, reason)
    return InvalidArguments(
        f"The arguments for the tool {tool!r} are not valid JSON, and nothing was run: {why}. "
        "Call it again with one JSON object."
    )
