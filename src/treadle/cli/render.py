"""Output of a run: the answer on stdout, everything else on stderr. Entry points: `renderer`."""

from __future__ import annotations

import os
import sys
from typing import IO, Protocol

from msgspec import UNSET
from typing_extensions import override

from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import LINE_CHARS, cut, json_shown, one_line, plain
from treadle._internal.units import count, money
from treadle.cli.exits import silence
from treadle.messages import events
from treadle.messages.events import Event
from treadle.messages.message import encode_json
from treadle.messages.metrics import totalled
from treadle.messages.todos import TOOL, progress, written
from treadle.tools.builtin.patch_format import PATCH, named_paths
from treadle.types import Outcome

NAME_CHARS = 64
RESULT_LINES = 6


class Renderer(Protocol):
    def show(self, event: Event) -> None: ...


class StreamJson:
    """Renderer that prints every event as a line of JSON. Secrets are masked inside the values, so
    each line stays valid JSON.
    """

    def __init__(self, out: IO[bytes], secrets: Redactor) -> None:
        self._out = out
        self._secrets = secrets

    def show(self, event: Event) -> None:
        line = encode_json(event)
        if self._secrets.exact(text := line.decode()) != text:
            line = encode_json(self._secrets.inside(event))
        if self._out.isatty():
            line = json_shown(line.decode()).encode()
        self._out.write(line + b"\n")
        self._out.flush()


class Json(StreamJson):
    """Renderer that prints only the last event of the requested run: the run of the first event,
    not one of its children.
    """

    def __init__(self, out: IO[bytes], secrets: Redactor) -> None:
        super().__init__(out, secrets)
        self._run = ""

    @override
    def show(self, event: Event) -> None:
        self._run = self._run or event.run_id
        if isinstance(event, events.RunEnd) and event.run_id == self._run:
            super().show(event)


class Text:
    """Renderer that prints the answer on stdout and progress on stderr: a line per call, text
    between calls, and the outcome.

    Text is printed when its message is complete, because a retry discards the text of the failed
    attempt. Lines of a child agent begin with its name.
    """

    def __init__(
        self, out: IO[bytes], secrets: Redactor, *, quiet: bool, verbose: bool, typed: bool
    ) -> None:
        self._out = out
        self._typed = typed
        self._secrets = secrets
        self._quiet = quiet
        self._verbose = verbose
        self._colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        self._asked: set[str] = set()
        """Ids of calls already printed. A resumed run's calls may have been requested in an earlier
        process.
        """
        self._run = ""
        """Id of the requested run: the run of the first event."""
        self._begins: dict[str, str] = {}
        """Prefix of the lines of each child run."""
        self._begin = ""

    def show(self, event: Event) -> None:
        self._run = self._run or event.run_id
        self._begin = self._begins.get(event.run_id, "")
        if isinstance(event, events.ChildStart):
            self._begins[event.child_run_id] = (
                f"  {self._begin.lstrip()}{one_line(event.agent, NAME_CHARS)}: "
            )
        elif isinstance(event, events.RunEnd) and event.run_id == self._run:
            self._end(event)
        elif not self._quiet:
            self._tell(event)

    def _tell(self, event: Event) -> None:
        match event:
            case events.MessageAdded():
                self._words(event)
            case events.ToolCallAsked():
                self._asked.add(event.call_id)
                name = one_line(event.name, NAME_CHARS)
                self._say(f"• {name} {one_line(_arguments(event), LINE_CHARS - len(name) - 3)}")
            case events.ToolCallStart() if event.call_id not in self._asked:
                self._say(
                    f"• {one_line(event.name, NAME_CHARS)} "
                    f"{one_line(event.call_id, NAME_CHARS)}, requested earlier"
                )
            case events.ToolCallEnd(refused=False):
                self._result(event)
            case events.Retry(kind="lost"):
                self._say("! the process stopped during the model's response: retrying", "33")
            case events.Retry(kind="hook"):
                self._say("! a hook changed the model's response:", "33")
            case events.Retry():
                self._say(
                    (
                        f"! {event.kind}: retrying in {event.wait_s:.1f} s (attempt "
                        f"{event.attempt} failed)"
                    ),
                    "33",
                )
            case events.Warned():
                self._say(f"! {one_line(event.text, 400)}", "33")
            case events.InputAdded():
                self._say(f"> {one_line(event.text)}", "2")
            case events.HandedOver():
                names = [one_line(name, NAME_CHARS) for name in (event.before, event.agent)]
                self._say(f"→ {names[0]} handed over to {names[1]}")
            case _:
                return

    def _words(self, event: events.MessageAdded) -> None:
        message = event.message
        if self._verbose and message.reasoning.strip():
            self._say(plain(message.reasoning.strip()), "2;3")
        if message.tool_calls and message.text.strip():
            self._say(plain(message.text.strip()))
        for call in message.hosted_calls:
            self._say(f"• {one_line(call, LINE_CHARS)}")

    def _result(self, event: events.ToolCallEnd) -> None:
        mark = "?" if event.unknown else "✗" if event.failed else "✓"
        exited = f" exit {event.exit_code}" if event.exit_code else ""
        lines = plain(event.result).strip().splitlines()
        is_command = isinstance(event.exit_code, int)  # whose last lines hold the result
        most = lines[-RESULT_LINES:] if is_command else lines[:RESULT_LINES]
        shown = most if self._verbose else lines[:1] if event.is_error else []
        self._say(
            f"  {mark} {one_line(event.name, NAME_CHARS)}{exited} {event.duration_ms / 1000:.1f} s",
            "31" if event.failed else "2",
        )
        more = (
            [f"… {count(len(lines) - RESULT_LINES, 'more line')}"]
            if self._verbose and len(lines) > RESULT_LINES
            else []
        )
        for line in (*more, *shown) if is_command else (*shown, *more):
            is_reason = event.is_error and not is_command and line is lines[0]
            self._say(f"    {cut(line, LINE_CHARS)}", "31" if is_reason else "2")

    def _end(self, event: events.RunEnd) -> None:
        if answer := self._answer(event):
            text = self._secrets.exact(plain(answer) if self._out.isatty() else answer)
            self._out.write(
                text.encode("utf-8", "replace") + (b"" if text.endswith("\n") else b"\n")
            )
            self._out.flush()
        if event.outcome is not Outcome.COMPLETED:
            self._say(f"treadle: {ended(event)}", "31")
        if not self._quiet:
            self._say(summary(event), "2")

    def _answer(self, event: events.RunEnd) -> str:
        """Return the answer: JSON if a schema was requested and the answer fits it, else the text
        unchanged.
        """
        if (self._typed and event.validated) or not isinstance(event.output, str | None):
            return encode_json(self._secrets.inside(event.output)).decode()
        return event.output or event.text

    def _say(self, text: str, style: str = "") -> None:
        text = self._begin + plain(self._secrets.text(text))
        try:
            sys.stderr.write(
                f"\x1b[{style}m{text}\x1b[0m\n" if style and self._colour else f"{text}\n"
            )
            sys.stderr.flush()
        except OSError:  # stderr is gone; the run and its answer still count
            silence(sys.stderr)


def _arguments(event: events.ToolCallAsked) -> str:
    """Return the text after the name of a call, which identifies it."""
    if event.name == TOOL and (todos := written(event.arguments)) is not None:
        return progress(todos)
    if isinstance(event.arguments, str):
        return event.arguments
    if event.name == PATCH:
        return ", ".join(named_paths(event.arguments))
    if event.name in _ABOUT and isinstance(about := event.arguments.get(_ABOUT[event.name]), str):
        return about
    return " ".join(
        value if isinstance(value, str) else encode_json(value).decode()
        for value in event.arguments.values()
    )


_ABOUT = {"write": "path", "edit": "path", "bash": "command"}
"""Argument that identifies a call of a built-in tool; the others are long or secondary."""
_WHY = {
    Outcome.TURN_LIMIT: "stopped at the turn limit: raise it with --max-turns, or continue from here",  # noqa: E501
    Outcome.CALL_LIMIT: "stopped at the tool call limit: raise it with --max-tool-calls",
    Outcome.TOKEN_LIMIT: "stopped at the token limit: raise it with --max-tokens",
    Outcome.COST_LIMIT: "stopped at the cost limit: raise it with --max-cost",
    Outcome.TIMEOUT: "stopped at the time limit: raise it with --timeout",
    Outcome.TRUNCATED: "the answer was truncated at the output token limit: raise it with --max-output-tokens",  # noqa: E501
    Outcome.LOOPING: "stopped: the model repeated the same call with the same result",
    Outcome.INVALID_OUTPUT: (
        "the answer is not a valid output, despite repeated corrections, and is printed unchanged"
    ),
    Outcome.REFUSED: "the model refused to answer",
    Outcome.CONTEXT_OVERFLOW: "the conversation is larger than the model's window",
    Outcome.APPROVAL_NEEDED: (
        "calls were denied because no one could approve them: allow them with --mode "
        "accept-edits or --mode full"
    ),
    Outcome.CANCELLED: "stopped",
}


def ended(event: events.RunEnd) -> str:
    """Return the reason why a run did not complete, and the next step.

    A waiting run has no RunEnd in its journal, so its event has no id.
    """
    if isinstance(event.error, events.ErrorInfo):
        if event.outcome is Outcome.INVALID_OUTPUT:
            return f"{_WHY[event.outcome]}: {plain(event.error.message)}"
        where = f" (request {event.error.request_id})" if event.error.request_id else ""
        return f"{event.error.kind}: {plain(event.error.message)}{where}"
    if event.outcome is Outcome.APPROVAL_NEEDED and event.id is UNSET:
        return "waiting for an answer"
    why, spent = _WHY.get(event.outcome, event.outcome.value), event.total.spent_of(event.outcome)
    return f"{why} (spent: {spent})" if spent else why


def summary(event: events.RunEnd) -> str:
    """Return the figures of a run in one line, with totals if it started other runs."""
    counts = (
        count(event.turns, "turn"),
        count(event.tool_calls, "tool call"),
        count(event.usage.total_tokens, "token"),
    )
    cost = [] if event.cost_usd is UNSET else [money(event.cost_usd)]
    total = [] if event.total.runs == 1 else [f"total of {totalled(event.total)}"]
    return " · ".join([event.outcome.value, *counts, *cost, *total, f"{event.duration_s:.1f} s"])


def renderer(
    output: str, out: IO[bytes], secrets: Redactor, *, quiet: bool, verbose: bool, typed: bool
) -> Renderer:
    """Return the renderer for an output format. `secrets`: texts to mask in everything shown,
    because a model may repeat them.

    `typed`: True if a schema was requested.
    """
    match output:
        case "stream-json":
            return StreamJson(out, secrets)
        case "json":
            return Json(out, secrets)
        case _:
            return Text(out, secrets, quiet=quiet, verbose=verbose, typed=typed)
