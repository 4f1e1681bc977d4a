"""A case of an evaluation, and the check of its result. Entry points: `Case`, `Evaluator`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from treadle.messages.result import RunResult
from treadle.runtime.runtime import Runtime


class Evaluator(ABC):
    """A check of the result of one case."""

    @property
    def name(self) -> str:
        """Name in reports."""
        return type(self).__name__

    @abstractmethod
    async def score(self, case: Case, result: RunResult[Any], runtime: Runtime) -> tuple[bool, str]:
        """Return whether the result passes, and the reason if it does not.

        An exception counts as a failed check, with its message as the reason.
        """


@dataclass(frozen=True)
class Case:
    """One input, and what is expected of its result.

    Attributes:
        inputs: The prompt: a text, or data that is sent as JSON.
        expected_output: Output that evaluators compare with, as plain data, or None.
        name: Name in reports; by default the number of the case.
        evaluators: Evaluators of this case, in addition to those of the dataset.
        metadata: Anything else, for reports and evaluators.
        run_id: Finished run that the case comes from. It is evaluated by a fork, which begins with
            the same conversation.
    """

    inputs: Any
    expected_output: Any = None
    name: str = ""
    evaluators: Sequence[Evaluator] = ()
    metadata: Any = None
    run_id: str | None = None
