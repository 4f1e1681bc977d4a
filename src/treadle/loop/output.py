"""Output of a run: validation of the model's answer, its corrections, and outputs of tools.

outcome.py decides when a run ends with it. Entry point: `RunOutput`.
"""

from __future__ import annotations

from treadle._internal.json_text import decode_json, members
from treadle.errors import AgentError
from treadle.events.hooks import RunBlocked
from treadle.journal.entries import ToolFinished
from treadle.loop.guarding import Check
from treadle.loop.plan import Plan
from treadle.messages.message import ToolCall
from treadle.tools.structured_output.contract import Unfit
from treadle.tools.tool import ToolFailed
from treadle.types import Outcome

NOT_COMPLETE = (
    "You are done only when you call the tool `complete` with your output. Call it now, or go on."
)

REJECTED = "Your answer is rejected: {reason}\nCorrect it, and answer again in the same form."


class RunOutput:
    """Output of one run, if it is known."""

    __slots__ = ("_plan", "_state", "mend", "problems", "raw", "value")

    def __init__(self, plan: Plan) -> None:
        self._plan, self._state = plan, plan.state
        self.value: object = None
        self.raw = ""
        """The output as the model wrote it."""
        self.problems = ""
        """Reasons why the output is invalid, for the user."""
        self.mend = ""
        """Errors of the output, as a message to the model that is not sent yet."""

    @property
    def needs_words(self) -> bool:
        """True if the runtime may have a message for the model before the next request."""
        current, models = self._state.current, self._state.models
        return bool(self.mend or current.repeated or current.cut_short or models.empty_responses)

    def answered(self, text: str, *, said: bool, may_mend: bool) -> Outcome | None:
        """Validate the output. If it is invalid, the run continues with its errors as a message to
        the model if `may_mend`. `said`: the output is text, not a call.
        """
        plan = self._plan
        self.raw = text
        try:
            if said and plan.completion:
                raise Unfit(NOT_COMPLETE)
            self.value = text if plan.answer is None else plan.answer.read(text)
        except Unfit as e:
            self.value, self.mend, self.problems = text, e.message if may_mend else "", _problems(e)
            return None if may_mend else Outcome.INVALID_OUTPUT
        return Outcome.COMPLETED

    async def checked(self, check: Check, *, may_mend: bool, ended: bool) -> Outcome | None:
        """Return the outcome of a completed run after the check of its output; None if the model
        has to correct the output. `ended`: a tool ended the run with it, so it cannot be corrected.

        Raises AgentError(agent) if the check fails, and RunBlocked.
        """
        try:
            await check(self.value, ended)
        except ToolFailed as e:
            again = may_mend and not e.ends_run and not ended
            self.mend = REJECTED.format(reason=e.message) if again else ""
            self.value, self.problems = self.raw, f"a check rejected it: {e.message}"
            return None if again else Outcome.INVALID_OUTPUT
        except RunBlocked as e:
            response = self._state.current.response
            assert response is not None, "an output is a response's"
            e.since = response.message.id
            raise
        return Outcome.COMPLETED

    def ended(self, last: ToolFinished) -> Outcome:
        """Complete the run with the value of a tool. Raises AgentError(tool) if the tool failed, or
        its value does not fit the output.
        """
        result, answer = last.result, self._plan.answer
        if last.done is None:
            raise AgentError("tool", f"{result.name} ended the run: {result.text}")
        try:
            if answer is not None:
                self.value = answer.read(last.done)
            else:
                value: object = decode_json(last.done.encode(), object)
                self.value = value if isinstance(value, str) else last.done
        except Unfit as e:
            raise AgentError(
                "tool",
                f"{result.name} ended the run with a value that is not a valid output of the "
                f"agent: {_problems(e)}",
            ) from e
        return Outcome.COMPLETED

    def completed_with(self, call: ToolCall) -> str:
        """Return the `output` argument of `complete`: JSON if the output is typed, else text."""
        output = members(self._state.current.starts[call.id].arguments_json)["output"]
        return (
            output
            if self._plan.answer is not None
            else decode_json(output.encode(errors="replace"), str)
        )


def _problems(unfit: Unfit) -> str:
    """Return the problems for the user, without the instructions to the model."""
    if unfit.message == NOT_COMPLETE:
        return "the model did not call the tool `complete`"
    lines = unfit.message.splitlines()
    found = "; ".join(line.removeprefix("- ") for line in lines[1:-1]) or lines[0]
    return found.removeprefix("Your answer is ")
