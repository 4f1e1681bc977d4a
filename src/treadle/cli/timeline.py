"""The timeline of a run as terminal lines, drawn from story.py. Entry points: `timeline`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from treadle._internal.terminal_text import columns, cut, one_line, plain, wrapped
from treadle._internal.units import count, lasting, local, money, tokens
from treadle.cli.response_notes import counted, request_of, response_notes
from treadle.cli.runs.row import status_of, style_of
from treadle.cli.story import Break, Item, Note, Story, Turn
from treadle.cli.terminal import Ink, Style
from treadle.cli.timeline_calls import TimelineCalls
from treadle.cli.timeline_layout import CLOCK, MARGIN, VERBOSE_LINES, TimelineLayout
from treadle.journal.entries import ModelRequested, ModelResponded, RunFinished
from treadle.journal.run_info import RunInfo
from treadle.messages.metrics import totalled
from treadle.types import Time, Usage

PROMPT_LINES = 3
SAID_LINES = 2
"""Maximum number of lines of the model's text that are shown before its tool calls."""
ANSWER_LINES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Relations:
    """Runs related to the one that is drawn."""

    children: Sequence[RunInfo] = ()
    """Descendants of the run, oldest first."""
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
    """Return the timeline in lines of at most 100 columns.

    `clean`: function that masks secrets in a text. Escape sequences are removed here.
    """
    layout = TimelineLayout(
        began=story.started.at, clean=lambda text: plain(clean(text)), ink=ink, verbose=verbose
    )
    drawing = _Drawing(layout, story, info, relations)
    return [*drawing.head(), "", *drawing.body(), *drawing.end()]


class _Drawing:
    def __init__(
        self, layout: TimelineLayout, story: Story, info: RunInfo, relations: Relations
    ) -> None:
        self._layout, self._story, self._info, self._relations = layout, story, info, relations
        self._calls = TimelineCalls(layout, story, info)
        self._notes = response_notes(story, relations.before, verbose=layout.verbose)
        self._last = story.last_turn

    # ------------------------------------------------------------ head

    def head(self) -> Iterator[str]:
        layout, status = self._layout, status_of(self._info)
        yield f"{layout.ink(self._info.run_id, 'bold')}  {layout.ink(status, style_of(status))}"
        prompt, most = (
            wrapped(layout.clean(self._story.started.input.text).strip(), layout.width - 4),
            VERBOSE_LINES if layout.verbose else PROMPT_LINES,
        )
        for line in prompt[:most]:
            yield f"  {layout.ink('│', 'cyan')} {line}"
        if len(prompt) > most:
            more = f"… {count(len(prompt) - most, 'more line')}"
            yield f"  {layout.ink('│', 'cyan')} {layout.ink(more, 'dim')}"
        for name, text in self._facts().items():
            yield (
                f"  {layout.ink(f'{name:<8}', 'dim')} "
                f"{cut(one_line(layout.clean(text), 400), layout.width - 11)}"
            )

    def _facts(self) -> dict[str, str]:
        info, started, clean = self._info, self._story.started, self._layout.clean
        rows = {
            "agent": f"{info.agent} on {info.model}, mode {info.mode}",
            "in": info.cwd,
            "session": info.session_id or "none",
            "began": local(started.at) + self._took(),
            "spent": self._spent(),
        }
        if info.total.runs > 1:
            rows["total"] = totalled(info.total)
        if info.queue is not None:
            tenant = "" if info.tenant is None else f", for {clean(info.tenant)}"
            rows["queue"] = f"{clean(info.queue)}{tenant}" + (
                "" if info.parked is None else f", parked: {one_line(clean(info.parked))}"
            )
        if info.imported is not None:
            rows["imported"] = (
                f"{local(info.imported)}, from a file, whose calls and answers are not verified"
            )
        if started.fork is not None:
            rows["forked"] = f"from {started.fork.run_id} after turn {started.fork.turn}"
        if info.parent_run_id is not None:
            rows["part of"] = info.parent_run_id
        return rows

    def _took(self) -> str:
        if (finished := self._story.finished) is None:
            return ""
        resumed = any(isinstance(item, Break) for item in self._story.items)
        return f", {'driven for' if resumed else 'took'} {lasting(finished.duration_s)}"

    def _spent(self) -> str:
        info, usage = self._info, self._info.usage
        unpriced = any(part.unpriced for part in info.spending)
        cost = "" if info.cost_usd is None else f", {money(info.cost_usd, more=unpriced)}"
        return (
            f"{count(info.turns, 'turn')}, {count(info.tool_calls, 'tool call')}, "
            f"{count(usage.total_tokens, 'token')} ({tokens(usage.total_input_tokens)} in, "
            f"{tokens(usage.output_tokens)} out){cost}"
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
        name = f"turn {turn.number}" + (", continued" if turn.again else "")
        yield self._layout.line(
            turn.at, self._layout.ink(name, "bold"), columns(name), *self._asked_for(turn)
        )
        for entry in turn.failed:
            yield from self._failed(entry)
        if turn.response is None:
            if not turn.calls and turn is self._last and self._info.status == "running":
                yield self._layout.under("… waiting for the model", "dim")
            elif not turn.calls and turn is not self._last:
                yield self._layout.under("… no answer", "yellow")
        else:
            yield from self._said(turn, turn.response)
        yield from self._calls.of(turn)

    def _asked_for(self, turn: Turn) -> tuple[str, Style]:
        """Return the response time and the token counts of a turn, with their style."""
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
            yield self._layout.under(
                f"! the response was lost when its process died: retried, attempt {entry.attempt}",
                "yellow",
            )
            return
        status = f" {error.status}" if error.status else ""
        text = (
            f"! attempt {entry.attempt - 1} failed, retried after {lasting(entry.wait_s)}: "
            f"{error.kind}{status}{request_of(error)}: {error.message}"
        )
        for n, line in enumerate(
            wrapped(one_line(self._layout.clean(text), 300), self._layout.width - len(MARGIN) - 2)
        ):
            yield self._layout.under(f"  {line}" if n else line, "yellow")

    def _said(self, turn: Turn, response: ModelResponded) -> Iterator[str]:
        message = response.message
        if self._layout.verbose and message.reasoning.strip():
            yield from self._layout.text(message.reasoning, VERBOSE_LINES, "dim")
        most = (
            VERBOSE_LINES
            if self._layout.verbose
            else SAID_LINES
            if message.tool_calls
            else ANSWER_LINES
        )
        yield from self._layout.text(message.text, most, "")
        for note, style in self._notes.get(message.id, ()):
            yield self._layout.under(self._layout.clean(note), style)
        if response.stop_reason is None:
            yield self._layout.under("✂ cut here", "yellow")
        elif not message.text.strip() and not message.tool_calls and turn is not self._last:
            yield self._layout.under("(an empty answer)", "dim")

    def _break(self, item: Break) -> Iterator[str]:
        away = lasting((item.resumed.at - item.stopped_at).total_seconds())
        whom, does = ("worker", "takes it") if item.is_first else ("person", "continues")
        if item.waited or item.is_first:
            words = f" waited {away} for a {whom} · driver {item.resumed.fence} {does} "
        else:
            words = (
                f" THE PROCESS STOPPED HERE · resumed {away} later by driver {item.resumed.fence} "
            )
        rule = self._layout.ink(
            "╌" * 3 + words + "╌" * (self._layout.width - len(MARGIN) - columns(words) - 3),
            "dim" if item.is_first else "yellow",
        )
        yield f"{self._layout.ink(self._layout.clock(item.stopped_at), 'dim')}  {rule}"
        if item.changes:
            yield self._layout.under(
                one_line(self._layout.clean(f"now with {', '.join(item.changes)}"), 300), "yellow"
            )

    def _note(self, note: Note) -> Iterator[str]:
        mark, style = _NOTES[note.kind]
        lines = wrapped(self._layout.clean(note.text).strip(), self._layout.width - len(MARGIN) - 2)
        most = VERBOSE_LINES if self._layout.verbose or note.kind == "late" else SAID_LINES
        for n, line in enumerate(lines[:most]):
            clock = self._layout.ink(self._layout.clock(note.at), "dim") if n == 0 else " " * CLOCK
            yield f"{clock}  {self._layout.ink(f'{mark} {line}' if n == 0 else f'  {line}', style)}"
        if len(lines) > most:
            yield self._layout.under(f"… {count(len(lines) - most, 'more line')}", "dim")

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
        agent = one_line(self._layout.clean(child.agent), 24)
        left = f"{'   ' * min(depth, 8)}↳ {agent}  {child.run_id}"
        right = f"{counts}  {status}"
        gap = self._layout.width - len(MARGIN) - columns(left) - columns(right)
        yield (
            f"{self._layout.ink(self._layout.clock(child.started_at), 'dim')}  "
            f"{self._layout.ink(left, 'cyan')}{' ' * max(gap, 2)}{counts}  "
            f"{self._layout.ink(status, style_of(status))}"
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
            yield self._layout.line(
                self._info.updated_at,
                self._layout.ink(words, style_of(self._info.status)),
                columns(words),
            )
        for fork in self._relations.forks:
            yield self._layout.under(f"⑂ forked into {fork.run_id} ({status_of(fork)})", "cyan")
        if unknown := self._story.unknown:
            which = ", ".join(
                f"{result.result.name} ({result.result.call_id})" for result in unknown
            )
            yield ""
            for line in wrapped(
                (
                    f"? {count(len(unknown), 'call')} may or may not have taken effect: "
                    f"{one_line(self._layout.clean(which), 2000)}"
                ),
                self._layout.width,
            ):
                yield self._layout.ink(line, "alarm")

    def _finished(self, finished: RunFinished) -> Iterator[str]:
        outcome = finished.outcome.value
        mark = "✓" if outcome == "completed" else "✗"
        words = f"{mark} {outcome}"
        error = finished.error
        yield self._layout.line(
            finished.at, self._layout.ink(words, style_of(outcome)), columns(words)
        )
        if error is not None:
            yield from self._layout.text(
                f"{error.kind}: {error.message}{request_of(error)}", ANSWER_LINES, "red"
            )


_NOT_OVER = {
    "running": "… running",
    "waiting": "? waiting for an answer",
    "stopped": "✂ STOPPED: no process drives it",
    "queued": "· waiting for a worker",
}
_NOTES: dict[str, tuple[str, Style]] = {
    "person": (">", "bold"),
    "runtime": ("·", "dim"),
    "late": ("!", "yellow"),
    "cancel": ("✂", "yellow"),
    "view": ("·", "dim"),
    "agent": ("→", "bold"),
    "model": ("·", "yellow"),
    "batch": ("·", "dim"),
}


def _begin(item: Item) -> Time:
    return item.resumed.at if isinstance(item, Break) else item.at
