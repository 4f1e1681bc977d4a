"""The timeline of a run as terminal lines, drawn from story.py. Entry points: `timeline`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from treadle._internal.json_text import JsonText, encode_json
from treadle._internal.terminal_text import columns, cut, one_line, plain, wrapped
from treadle._internal.units import count, lasting, local, money, tokens
from treadle.cli.response_notes import counted, request_of, response_notes
from treadle.cli.runs.row import status_of, style_of
from treadle.cli.story import Break, Item, Note, Story, StoryCall, Turn
from treadle.cli.terminal import Ink, Style, width
from treadle.journal.entries import ModelRequested, ModelResponded, RunFinished, ToolFinished
from treadle.journal.journal import RunInfo
from treadle.journal.projection import shown_arguments
from treadle.messages.metrics import totalled
from treadle.types import Time, Usage

CLOCK = 9
"""Width of the elapsed time."""
MARGIN = " " * (CLOCK + 2)
PROMPT_LINES = 3
SAID_LINES = 2
"""Maximum lines of the model's text before its tool calls."""
ANSWER_LINES = 8
NOBODY = "nobody"
"""Author of the automatic answer in unattended runs."""
VERBOSE_LINES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Relations:
    """Runs related to the one that is drawn."""

    children: Sequence[RunInfo] = ()
    """Its descendants, oldest first."""
    forks: Sequence[RunInfo] = ()
    before: ModelResponded | None = None
    """Last response of the session's previous run."""


def timeline(
    story: Story,
    info: RunInfo,
    relations: Relations,
    *,
    clean: Callable[[str], str],
    ink: Ink,
    verbose: bool = False,
) -> list[str]:
    """Return lines of at most 100 columns.

    `clean` masks secrets in a text; escape sequences are removed here.
    """
    drawing = _Drawing(story, info, relations, lambda text: plain(clean(text)), ink, verbose)
    return [*drawing.head(), "", *drawing.body(), *drawing.end()]


class _Drawing:
    def __init__(
        self,
        story: Story,
        info: RunInfo,
        relations: Relations,
        clean: Callable[[str], str],
        ink: Ink,
        verbose: bool,
    ) -> None:
        self._story, self._info, self._relations, self._clean, self._ink, self._verbose = (
            story,
            info,
            relations,
            clean,
            ink,
            verbose,
        )
        self._width = width()
        self._began = story.started.at
        self._notes = response_notes(story, relations.before, verbose=verbose)
        self._last = next((item for item in reversed(story.items) if isinstance(item, Turn)), None)

    # ------------------------------------------------------------ head

    def head(self) -> Iterator[str]:
        info, started = self._info, self._story.started
        status = status_of(info)
        yield f"{self._ink(info.run_id, 'bold')}  {self._ink(status, style_of(status))}"
        prompt, most = (
            wrapped(self._clean(started.input.text).strip(), self._width - 4),
            VERBOSE_LINES if self._verbose else PROMPT_LINES,
        )
        for line in prompt[:most]:
            yield f"  {self._ink('│', 'cyan')} {line}"
        if len(prompt) > most:
            more = f"… {count(len(prompt) - most, 'more line')}"
            yield f"  {self._ink('│', 'cyan')} {self._ink(more, 'dim')}"
        finished = self._story.finished
        word = (
            "driven for" if any(isinstance(item, Break) for item in self._story.items) else "took"
        )
        took = f", {word} {lasting(finished.duration_s)}" if finished else ""
        usage = info.usage
        cost = (
            ""
            if info.cost_usd is None
            else f", {money(info.cost_usd, more=any(part.unpriced for part in info.spending))}"
        )
        spent = (
            f"{count(info.turns, 'turn')}, {count(info.tool_calls, 'tool call')}, "
            f"{count(usage.total_tokens, 'token')}"
        )
        rows = {
            "agent": f"{info.agent} on {info.model}, mode {info.mode}",
            "in": info.cwd,
            "session": info.session_id or "none",
            "began": local(self._began) + took,
            "spent": (
                f"{spent} ({tokens(usage.total_input_tokens)} in, {tokens(usage.output_tokens)} "
                f"out){cost}"
            ),
        }
        if info.total.runs > 1:
            rows["total"] = totalled(info.total)
        if info.queue is not None:
            tenant = "" if info.tenant is None else f", for {self._clean(info.tenant)}"
            rows["queue"] = f"{self._clean(info.queue)}{tenant}" + (
                "" if info.parked is None else f", parked: {one_line(self._clean(info.parked))}"
            )
        if info.imported is not None:
            rows["imported"] = (
                f"{local(info.imported)}, from a file, whose calls and answers are not verified"
            )
        if started.fork is not None:
            rows["forked"] = f"from {started.fork.run_id} after turn {started.fork.turn}"
        if info.parent_run_id is not None:
            rows["part of"] = info.parent_run_id
        for name, text in rows.items():
            yield (
                f"  {self._ink(f'{name:<8}', 'dim')} "
                f"{cut(one_line(self._clean(text), 400), self._width - 11)}"
            )

    # ------------------------------------------------------------ body

    def body(self) -> Iterator[str]:
        items = self._story.items
        for n, item in enumerate(items):
            yield from self._item(item)
            until = _begin(items[n + 1]) if n + 1 < len(items) else None
            yield from self._children(None if n == 0 else _begin(item), until)
        if not items:
            yield from self._children(None, None)

    def _item(self, item: Item) -> Iterator[str]:
        match item:
            case Turn():
                yield from self._turn(item)
            case Break():
                yield from self._break(item)
            case Note():
                yield from self._note(item)

    def _turn(self, turn: Turn) -> Iterator[str]:
        name = f"turn {turn.number}" + (", going on" if turn.again else "")
        yield self._line(turn.at, self._ink(name, "bold"), columns(name), *self._asked_for(turn))
        for entry in turn.failed:
            yield from self._failed(entry)
        if turn.response is None:
            if not turn.calls and turn is self._last and self._info.status == "running":
                yield self._under("… waiting for the model", "dim")
            elif not turn.calls and turn is not self._last:
                yield self._under("… no answer", "yellow")
        else:
            yield from self._said(turn, turn.response)
        calls = list(turn.calls.values())
        names = min(max((columns(self._clean(call.name)) for call in calls), default=0), 16)
        for n, call in enumerate(calls):
            yield from self._call(turn, call, names, is_last=n == len(calls) - 1)

    def _asked_for(self, turn: Turn) -> tuple[str, Style]:
        """Return the model's response time and token counts."""
        response = turn.response
        if response is None or turn.requested_at is None:
            return "", ""
        # A retry is journaled before its wait.
        waited_s = turn.failed[-1].wait_s if turn.failed else 0.0
        took = lasting((response.at - turn.requested_at).total_seconds() - waited_s)
        return (
            f"model {took} · {counted(response.usage)}"
            if response.usage != Usage()
            else f"model {took}",
            "dim",
        )

    def _failed(self, entry: ModelRequested) -> Iterator[str]:
        error = entry.failed
        if error is None:
            yield self._under(
                f"! the response was lost with its process: retried, attempt {entry.attempt}",
                "yellow",
            )
            return
        status = f" {error.status}" if error.status else ""
        text = (
            f"! attempt {entry.attempt - 1} failed, tried again after {lasting(entry.wait_s)}: "
            f"{error.kind}{status}{request_of(error)}: {error.message}"
        )
        for n, line in enumerate(
            wrapped(one_line(self._clean(text), 300), self._width - len(MARGIN) - 2)
        ):
            yield self._under(f"  {line}" if n else line, "yellow")

    def _said(self, turn: Turn, response: ModelResponded) -> Iterator[str]:
        message = response.message
        if self._verbose and message.reasoning.strip():
            yield from self._text(message.reasoning, VERBOSE_LINES, "dim")
        most = (
            VERBOSE_LINES if self._verbose else SAID_LINES if message.tool_calls else ANSWER_LINES
        )
        yield from self._text(message.text, most, "")
        for note, style in self._notes.get(message.id, ()):
            yield self._under(self._clean(note), style)
        if response.stop_reason is None:
            yield self._under("✂ cut here", "yellow")
        elif not message.text.strip() and not message.tool_calls and turn is not self._last:
            yield self._under("(an empty answer)", "dim")

    def _text(self, text: str, most: int, style: Style) -> Iterator[str]:
        lines = wrapped(self._clean(text).strip(), self._width - len(MARGIN) - 2)
        bar = f"{MARGIN}{self._ink('│', 'dim')} "
        for line in lines[:most]:
            yield bar + self._ink(line, style)
        if len(lines) > most:
            yield bar + self._ink(f"… {count(len(lines) - most, 'more line')}", "dim")

    def _call(self, turn: Turn, call: StoryCall, names: int, *, is_last: bool) -> Iterator[str]:
        mark, style, right = self._state(turn, call)
        name = cut(one_line(self._clean(call.name), 64), max(names, 1))
        branch = "└" if is_last else "├"
        left = f"{branch} {name}{' ' * (names - columns(name))}"
        arguments = cut(
            self._arguments(call.runs_with),
            self._width - len(MARGIN) - columns(left) - columns(right) - 6,
        )
        shown = f"{self._ink(branch, 'dim')} {left[2:]}  {self._ink(arguments, 'dim')}"
        gap = " " * (
            self._width
            - len(MARGIN)
            - columns(left)
            - 2
            - columns(arguments)
            - columns(f"{mark} {right}")
        )
        yield f"{MARGIN}{shown}{gap}{self._ink(f'{mark} {right}', style)}"
        indent = f"{MARGIN}{self._ink(' ' if is_last else '│', 'dim')}   "
        for text, tone in self._beneath(turn, call):
            for line in wrapped(text, self._width - len(MARGIN) - 4):
                yield indent + self._ink(line, tone)

    def _state(self, turn: Turn, call: StoryCall) -> tuple[str, Style, str]:
        """Return the mark, its style, and the status or duration on the right."""
        finished = call.finished
        if finished is None:
            over = turn is not self._last or self._info.status in ("stopped", "finished")
            if call.started is None:
                held = call.asked is not None and call.answered is None
                return ("?", "yellow", "waits for a person") if held else ("·", "dim", "not begun")
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
                return "✓", "green", took if call.started is not None else "found out"

    def _beneath(self, turn: Turn, call: StoryCall) -> Iterator[tuple[str, Style]]:
        if call.asked is not None:
            yield one_line(self._clean(f"asks a person: {call.asked.reason}"), 300), "yellow"
        answered, finished = call.answered, call.finished
        if (editor := call.edited_by) is not None:
            yield (
                one_line(
                    self._clean(
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
                    self._clean(
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
        text = self._clean(finished.result.text).strip()
        if finished.status == "unknown":
            yield f"IT MAY OR MAY NOT HAVE TAKEN EFFECT. {one_line(text, 400)}", "yellow"
        elif self._verbose:
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
            yield one_line(text, 2 * self._width), "dim"

    def _break(self, item: Break) -> Iterator[str]:
        away = lasting((item.resumed.at - item.stopped_at).total_seconds())
        whom, does = ("worker", "takes it") if item.is_first else ("person", "goes on")
        if item.waited or item.is_first:
            words = f" waited {away} for a {whom} · driver {item.resumed.fence} {does} "
        else:
            words = (
                f" THE PROCESS STOPPED HERE · resumed {away} later by driver {item.resumed.fence} "
            )
        rule = self._ink(
            "╌" * 3 + words + "╌" * (self._width - len(MARGIN) - columns(words) - 3),
            "dim" if item.is_first else "yellow",
        )
        yield f"{self._ink(self._clock(item.stopped_at), 'dim')}  {rule}"
        if item.changes:
            yield self._under(
                one_line(self._clean(f"now with {', '.join(item.changes)}"), 300), "yellow"
            )

    def _note(self, note: Note) -> Iterator[str]:
        mark, style = _NOTES[note.kind]
        lines = wrapped(self._clean(note.text).strip(), self._width - len(MARGIN) - 2)
        most = VERBOSE_LINES if self._verbose or note.kind == "late" else SAID_LINES
        for n, line in enumerate(lines[:most]):
            clock = self._ink(self._clock(note.at), "dim") if n == 0 else " " * CLOCK
            yield f"{clock}  {self._ink(f'{mark} {line}' if n == 0 else f'  {line}', style)}"
        if len(lines) > most:
            yield self._under(f"… {count(len(lines) - most, 'more line')}", "dim")

    # ------------------------------------------------------------ child runs

    def _children(self, since: Time | None, until: Time | None) -> Iterator[str]:
        for child in self._relations.children:
            if (
                child.parent_run_id == self._info.run_id
                and (since is None or child.started_at >= since)
                and (until is None or child.started_at < until)
            ):
                yield from self._child(child, 0)

    def _child(self, child: RunInfo, depth: int) -> Iterator[str]:
        status = status_of(child)
        counts = (
            f"{count(child.turns, 'turn')}, {count(child.tool_calls, 'call')}, "
            f"{tokens(child.usage.total_tokens)} tokens"
        )
        left = f"{'   ' * min(depth, 8)}↳ {one_line(self._clean(child.agent), 24)}  {child.run_id}"
        right = f"{counts}  {status}"
        gap = self._width - len(MARGIN) - columns(left) - columns(right)
        yield (
            f"{self._ink(self._clock(child.started_at), 'dim')}  "
            f"{self._ink(left, 'cyan')}{' ' * max(gap, 2)}{counts}  "
            f"{self._ink(status, style_of(status))}"
        )
        for inner in self._relations.children:
            if inner.parent_run_id == child.run_id:
                yield from self._child(inner, depth + 1)

    # ------------------------------------------------------------ end

    def end(self) -> Iterator[str]:
        if (finished := self._story.finished) is not None:
            yield from self._finished(finished)
        else:
            words = _NOT_OVER.get(self._info.status, "")
            yield self._line(
                self._info.updated_at, self._ink(words, style_of(self._info.status)), columns(words)
            )
        for fork in self._relations.forks:
            yield self._under(f"⑂ forked into {fork.run_id} ({status_of(fork)})", "cyan")
        if unknown := self._story.unknown:
            which = ", ".join(
                f"{result.result.name} ({result.result.call_id})" for result in unknown
            )
            yield ""
            for line in wrapped(
                (
                    f"? {count(len(unknown), 'call')} may or may not have taken effect: "
                    f"{one_line(self._clean(which), 2000)}"
                ),
                self._width,
            ):
                yield self._ink(line, "alarm")

    def _finished(self, finished: RunFinished) -> Iterator[str]:
        outcome = finished.outcome.value
        mark = "✓" if outcome == "completed" else "✗"
        words = f"{mark} {outcome}"
        error = finished.error
        yield self._line(finished.at, self._ink(words, style_of(outcome)), columns(words))
        if error is not None:
            yield from self._text(
                f"{error.kind}: {error.message}{request_of(error)}", ANSWER_LINES, "red"
            )

    # ------------------------------------------------------------ helpers

    def _line(self, at: Time, shown: str, used: int, right: str = "", style: Style = "") -> str:
        """Format a line with the elapsed time. `used` is the width of `shown`, which may hold
        escape sequences.
        """
        gap = " " * (self._width - len(MARGIN) - used - columns(right)) if right else ""
        return f"{self._ink(self._clock(at), 'dim')}  {shown}{gap}{self._ink(right, style)}"

    def _under(self, text: str, style: Style) -> str:
        return f"{MARGIN}{self._ink(cut(text, self._width - len(MARGIN)), style)}"

    def _clock(self, at: Time) -> str:
        seconds = max((at - self._began).total_seconds(), 0)
        return f"{_since(seconds):>{CLOCK}}"

    def _arguments(self, arguments_json: JsonText) -> str:
        arguments = shown_arguments(arguments_json)
        if isinstance(arguments, str):
            return one_line(self._clean(arguments), 400)
        shown = {
            name: value if isinstance(value, str) else encode_json(value).decode()
            for name, value in arguments.items()
        }
        text = " ".join(
            shown.values()
            if len(shown) == 1
            else [f"{name}={value}" for name, value in shown.items()]
        )
        return one_line(self._clean(text), 400)


_NOT_OVER = {
    "running": "… running",
    "waiting": "? waits for a person",
    "stopped": "✂ STOPPED: no process drives it",
    "queued": "· waits for a worker",
}
_NOTES: dict[str, tuple[str, Style]] = {
    "person": (">", "bold"),
    "runtime": ("·", "dim"),
    "late": ("!", "yellow"),
    "cancel": ("✂", "yellow"),
    "view": ("·", "dim"),
    "model": ("·", "yellow"),
}


def _begin(item: Item) -> Time:
    return item.resumed.at if isinstance(item, Break) else item.at


def _since(seconds: float) -> str:
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d {hours:02}:{minutes:02}"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
