"""Tool calls in a run's timeline: arguments, state, approvals and results. Entry points:
`TimelineCalls`.
"""

from __future__ import annotations

from collections.abc import Iterator

from treadle._internal.json_text import JsonText, encode_json
from treadle._internal.terminal_text import columns, cut, one_line, wrapped
from treadle._internal.units import count, lasting
from treadle.cli.story import Story, StoryCall, Turn
from treadle.cli.terminal import Style
from treadle.cli.timeline_layout import MARGIN, VERBOSE_LINES, TimelineLayout
from treadle.journal.entries import ToolFinished
from treadle.journal.projection import shown_arguments
from treadle.journal.run_info import RunInfo

NOBODY = "nobody"
"""Author of the automatic answer in unattended runs."""


class TimelineCalls:
    """Renderer of a turn's calls."""

    def __init__(self, layout: TimelineLayout, story: Story, info: RunInfo) -> None:
        self._layout, self._story, self._info = layout, story, info
        self._last = story.last_turn

    def of(self, turn: Turn) -> Iterator[str]:
        calls = list(turn.calls.values())
        names = min(max((columns(self._layout.clean(call.name)) for call in calls), default=0), 16)
        for n, call in enumerate(calls):
            yield from self._call(turn, call, names, is_last=n == len(calls) - 1)

    def _call(self, turn: Turn, call: StoryCall, names: int, *, is_last: bool) -> Iterator[str]:
        mark, style, right = self._state(turn, call)
        name = cut(one_line(self._layout.clean(call.name), 64), max(names, 1))
        branch = "└" if is_last else "├"
        left = f"{branch} {name}{' ' * (names - columns(name))}"
        arguments = cut(
            self._arguments(call.runs_with),
            self._layout.width - len(MARGIN) - columns(left) - columns(right) - 6,
        )
        shown = (
            f"{self._layout.ink(branch, 'dim')} {left[2:]}  {self._layout.ink(arguments, 'dim')}"
        )
        gap = " " * (
            self._layout.width
            - len(MARGIN)
            - columns(left)
            - 2
            - columns(arguments)
            - columns(f"{mark} {right}")
        )
        yield f"{MARGIN}{shown}{gap}{self._layout.ink(f'{mark} {right}', style)}"
        indent = f"{MARGIN}{self._layout.ink(' ' if is_last else '│', 'dim')}   "
        for text, tone in self._beneath(turn, call):
            for line in wrapped(text, self._layout.width - len(MARGIN) - 4):
                yield indent + self._layout.ink(line, tone)

    def _state(self, turn: Turn, call: StoryCall) -> tuple[str, Style, str]:
        """Return the mark of a call, its style, and the status or duration for the right edge."""
        finished = call.finished
        if finished is None:
            over = turn is not self._last or self._info.status in ("stopped", "finished")
            if call.started is None:
                held = call.asked is not None and call.answered is None
                return (
                    ("?", "yellow", "waiting for an answer")
                    if held
                    else ("·", "dim", "not started")
                )
            return (
                ("✂", "yellow", "no result")
                if over or self._info.status == "waiting"
                else ("…", "cyan", "running")
            )
        took = lasting(finished.duration_ms / 1000)
        if code := finished.result.exit_code:
            return "✗", "red", f"exit {code} · {took}"
        match finished.status:
            case "unknown":
                return "?", "alarm", "UNKNOWN"
            case "denied":
                return "✗", "yellow", "denied" if not finished.started else took
            case "cancelled":
                return "✂", "yellow", "cancelled"
            case "error" if not finished.started:
                return "✗", "red", "not run"
            case "error":
                return "✗", "red", took
            case "ok":
                return "✓", "green", took if call.started is not None else "supplied"

    def _beneath(self, turn: Turn, call: StoryCall) -> Iterator[tuple[str, Style]]:
        if call.asked is not None:
            yield (
                one_line(self._layout.clean(f"needs approval: {call.asked.reason}"), 300),
                "yellow",
            )
        answered, finished = call.answered, call.finished
        if (editor := call.edited_by) is not None:
            yield (
                one_line(
                    self._layout.clean(
                        f"edited by {editor}; the model asked for: "
                        f"{self._arguments(call.arguments_json)}"
                    ),
                    300,
                ),
                "yellow",
            )
        if answered is not None and answered.by != NOBODY:
            after = (
                f" after {lasting((answered.at - call.asked.at).total_seconds())}"
                if call.asked is not None
                else ""
            )
            word = "allowed" if answered.decision == "allow" else "denied"
            yield (
                one_line(
                    self._layout.clean(
                        f"{word} by {answered.by}{after}"
                        + (f": {answered.reason}" if answered.reason else "")
                    ),
                    300,
                ),
                "yellow",
            )
        if call.started is not None and call.started.attempt > 1:
            yield f"run again, attempt {call.started.attempt}", "yellow"
        if finished is None:
            lost = call.call_id not in self._story.results and (
                turn is not self._last or self._info.status != "running"
            )
            if lost and call.started is not None and call.started.effect == "once":
                yield "it had started, and it is unknown whether it took effect", "yellow"
        elif (
            finished.status != "denied" or answered is None or answered.by == NOBODY
        ):  # else it is shown above
            yield from self._result(finished)

    def _result(self, finished: ToolFinished) -> Iterator[tuple[str, Style]]:
        text = self._layout.clean(finished.result.text).strip()
        if finished.status == "unknown":
            yield one_line(text, 400), "yellow"
        elif self._layout.verbose:
            lines = text.splitlines()
            is_command, more = (
                finished.result.exit_code is not None,
                [f"… {count(len(lines) - VERBOSE_LINES, 'more line')}"],
            )
            # The last lines of a command's output hold its result.
            shown = "\n".join(lines[-VERBOSE_LINES:] if is_command else lines[:VERBOSE_LINES])
            for part in (
                [shown]
                if len(lines) <= VERBOSE_LINES
                else [*more, shown]
                if is_command
                else [shown, *more]
            ):
                yield part, "dim"
        elif finished.status != "ok":
            yield one_line(text, 2 * self._layout.width), "dim"

    def _arguments(self, arguments_json: JsonText) -> str:
        arguments = shown_arguments(arguments_json)
        if isinstance(arguments, str):
            return one_line(self._layout.clean(arguments), 400)
        shown = {
            name: value if isinstance(value, str) else encode_json(value).decode()
            for name, value in arguments.items()
        }
        text = " ".join(
            shown.values()
            if len(shown) == 1
            else [f"{name}={value}" for name, value in shown.items()]
        )
        return one_line(self._layout.clean(text), 400)
