"""Decision after each turn whether a run ends, waits or continues, from the run's state alone.

Cancellation, timeouts and errors are decided by the loop, limits by the ledger. Entry point:
`Verdict`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from treadle._internal.json_text import JsonText, decode_json, encode_json, members
from treadle.errors import AgentError, ErrorKind
from treadle.journal.entries import ToolFinished
from treadle.loop.plan import Plan
from treadle.messages.message import ToolCall
from treadle.tools.structured_output.contract import Unfit
from treadle.tools.tool import ToolFailed
from treadle.types import Outcome, StopReason

NOT_COMPLETE = (
    "You are done only when you call the tool `complete` with your output. Call it now, or go on."
)

REJECTED = "Your answer is rejected: {reason}\nCorrect it, and answer again in the same form."


class Verdict:
    """Outcome decision of one run."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._state = plan, plan.state
        self._mend = ""
        self._output: object = None
        self._raw = ""
        """The output as the model wrote it."""
        self._unfit = ""

    def error(self, outcome: Outcome) -> AgentError | None:
        """Return the reason why the output is invalid; None for any other outcome."""
        if outcome is not Outcome.INVALID_OUTPUT:
            return None
        return AgentError(ErrorKind.AGENT, f"the output is invalid: {self._unfit}")

    def take_mend(self) -> str:
        """Take the errors of an invalid output, as a message to the model. Empty while only results
        may follow.
        """
        if self._state.current.results_only:
            return ""
        mend, self._mend = self._mend, ""
        return mend

    def output_of(self, outcome: Outcome) -> tuple[object, JsonText]:
        """Return the output as a value and as JSON: of a completed run, or the raw text if it is
        invalid; else None.
        """
        if outcome is Outcome.COMPLETED and self._plan.answer is not None:
            return self._output, self._plan.answer.encoded(self._output)
        output = self._output if outcome in (Outcome.COMPLETED, Outcome.INVALID_OUTPUT) else None
        return output, encode_json(output).decode()

    def after(self, words: object) -> Outcome | None:
        """Return the outcome; None if the run continues. `words`: true if there are messages that
        the model has not read.

        Raises AgentError(tool) if a call ends the run.
        """
        state, response = self._state, self._state.current.response
        assert response is not None, "a turn is a response"
        if state.current.open_calls:
            return Outcome.APPROVAL_NEEDED
        spent = self._spent
        if response.stop_reason is StopReason.REFUSAL:
            return Outcome.REFUSED
        if response.stop_reason is StopReason.CONTEXT_OVERFLOW:
            return Outcome.CONTEXT_OVERFLOW
        if state.current.calls:
            return self._after_calls(spent)
        if state.current.cut_short and state.models.cuts == 1 and self._plan.may_raise:
            return spent
        if response.stop_reason is StopReason.MAX_TOKENS:
            return state.current.clamped or Outcome.TRUNCATED
        if response.stop_reason is StopReason.PAUSE or state.models.empty_responses == 1:
            return spent  # continue after a pause, and once after an empty response
        if (words or state.current.unread) and spent is None:
            return None  # so that the model reads the messages
        return state.cut_by or (
            Outcome.APPROVAL_NEEDED
            if state.approvals.unapproved
            else self._answered(response.message.text, said=True)
        )

    async def checked(
        self, check: Callable[[Any], Awaitable[None]], words: object
    ) -> Outcome | None:
        """Return the outcome of a completed run after the agent's check of its output; None if the
        model has to correct the output, or to read `words` that came meanwhile.

        The value of a tool that ended the run is not checked: its call cannot be corrected. Raises
        AgentError(agent) if the check fails.
        """
        state = self._state
        if state.current.ended_by is not None:
            return Outcome.COMPLETED
        try:
            await check(self._output)
        except ToolFailed as e:
            again = self._may_mend and not e.ends_run
            self._mend = REJECTED.format(reason=e.message) if again else ""
            self._output, self._unfit = self._raw, f"output_check= rejected it: {e.message}"
            return None if again else Outcome.INVALID_OUTPUT
        unread = words and self._spent is None and not state.current.calls
        return None if unread else Outcome.COMPLETED

    @property
    def _spent(self) -> Outcome | None:
        state = self._state
        return state.current.last or (Outcome.TURN_LIMIT if state.ledger.turns_spent else None)

    @property
    def _may_mend(self) -> bool:
        """True if the model may correct its output once more."""
        return self._spent is None and self._state.models.mended < self._plan.mends

    def _after_calls(self, spent: Outcome | None) -> Outcome | None:
        state = self._state
        if self._plan.on_unknown == "fail" and (unknown := state.current.unknown) is not None:
            raise AgentError(
                "tool",
                (
                    f"it is unknown whether {unknown.name} (call {unknown.call_id}) took effect: "
                    f"{unknown.text}"
                ),
            )
        if (last := state.current.ended_by) is not None:
            return self._ended(last)
        if (done := state.current.completion) is not None:
            return self._answered(self._completed_with(done))
        # a repeated call that was refused for lack of an approver needs approval
        if state.current.repeated is not None and state.current.repeated.ends:
            return spent or (
                Outcome.APPROVAL_NEEDED if state.approvals.unapproved else Outcome.LOOPING
            )
        return spent

    def _ended(self, last: ToolFinished) -> Outcome:
        """Complete the run with the value of a tool. Raises AgentError(tool) if the tool failed, or
        its value does not fit the output.
        """
        result, answer = last.result, self._plan.answer
        if last.done is None:
            raise AgentError("tool", f"{result.name} ended the run: {result.text}")
        try:
            if answer is not None:
                self._output = answer.read(last.done)
            else:
                value: object = decode_json(last.done.encode(), object)
                self._output = value if isinstance(value, str) else last.done
        except Unfit as e:
            raise AgentError(
                "tool",
                f"{result.name} ended the run with a value that is no output of the agent: "
                f"{_problems(e)}",
            ) from e
        return Outcome.COMPLETED

    def _completed_with(self, call: ToolCall) -> str:
        """Return the `output` argument of `complete`: JSON if the output is typed, else text."""
        output = members(self._state.current.starts[call.id].arguments_json)["output"]
        return (
            output
            if self._plan.answer is not None
            else decode_json(output.encode(errors="replace"), str)
        )

    def _answered(self, text: str, *, said: bool = False) -> Outcome | None:
        """Validate the output. If it is invalid, the run continues with its errors as a message to
        the model, at most `Plan.mends` times. `said`: the output is text, not a call.
        """
        plan, again = self._plan, self._may_mend
        self._raw = text
        try:
            if said and plan.completion:
                raise Unfit(NOT_COMPLETE)
            self._output = text if plan.answer is None else plan.answer.read(text)
        except Unfit as e:
            self._output, self._mend, self._unfit = text, e.message if again else "", _problems(e)
            return None if again else Outcome.INVALID_OUTPUT
        return Outcome.COMPLETED


def _problems(unfit: Unfit) -> str:
    """Return the problems for the user, without the instructions to the model."""
    if unfit.message == NOT_COMPLETE:
        return "the model did not call the tool `complete`"
    lines = unfit.message.splitlines()
    found = "; ".join(line.removeprefix("- ") for line in lines[1:-1]) or lines[0]
    return found.removeprefix("Your answer is ")
