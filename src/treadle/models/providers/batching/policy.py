"""Times of a batch. Entry point: `BatchPolicy`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from treadle.errors import AgentError


@dataclass(frozen=True, slots=True)
class BatchPolicy:
    """How long the requests of a batch gather, and how often the provider is asked for results.

    Attributes:
        gather_s: Maximum seconds that a request waits for those of runs that are still busy, for
            example with a tool.
        poll_s: Seconds before the first question. Each further wait is half as long again.
        most_poll_s: Maximum seconds between two questions.
    """

    gather_s: float = 60.0
    poll_s: float = 15.0
    most_poll_s: float = 300.0

    def __post_init__(self) -> None:
        """Raise AgentError(invalid) for a value that is not a number of seconds."""
        for name, least in (("gather_s", 0.0), ("poll_s", 0.1), ("most_poll_s", 0.1)):
            given: object = getattr(self, name)
            if not isinstance(given, int | float) or not least <= given < math.inf:
                raise AgentError(
                    "invalid", f"BatchPolicy({name}={given!r}): pass seconds, at least {least:g}"
                )
