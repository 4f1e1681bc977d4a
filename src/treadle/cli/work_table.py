"""Progress of a batch on stderr. Entry point: `display`.

On a terminal, active prompts are redrawn in a region below a line per finished prompt; elsewhere
each change is a line.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import anyio
from typing_extensions import override

from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import cut, one_line
from treadle._internal.units import count, lasting, tokens
from treadle.apps.batch.batch import Batch
from treadle.apps.batch.report import ReportRow
from treadle.cli.exits import silence
from treadle.cli.terminal import Ink, width
from treadle.cli.work_report import PROMPT_CHARS, style_of, summary
from treadle.messages import events
from treadle.messages.events import Event

FRAME_S = 0.1
LINES_MOST = 12
"""Maximum lines of active prompts."""


class Display(Protocol):
    """`Watcher` that prints for people."""

    def begins(self, batch: Batch, done: Sequence[ReportRow]) -> None: ...

    def says(self, number: int, what: str) -> None: ...

    def heard(self, number: int, event: Event) -> None: ...

    def ended(self, row: ReportRow) -> None: ...

    def warns(self, text: str) -> None: ...


@asynccontextmanager
async def display(secrets: Redactor, *, quiet: bool, verbose: bool) -> AsyncGenerator[Display]:
    if quiet:
        yield NoOutput()
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        live = LiveTable(secrets, verbose=verbose)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(live.draw_on)
                try:
                    yield live
                finally:
                    group.cancel_scope.cancel()
        finally:
            live.clear()  # after the last frame, which may be drawn in spite of the cancellation
    else:
        yield LineOutput(secrets, verbose=verbose)


class NoOutput:
    def begins(self, batch: Batch, done: Sequence[ReportRow]) -> None:
        pass

    def says(self, number: int, what: str) -> None:
        pass

    def heard(self, number: int, event: Event) -> None:
        pass

    def ended(self, row: ReportRow) -> None:
        pass

    def warns(self, text: str) -> None:
        pass


class LineOutput:
    """Display that prints a line per change."""

    def __init__(self, secrets: Redactor, *, verbose: bool) -> None:
        self._secrets, self._verbose = secrets, verbose
        self._ink = Ink(colour=sys.stderr.isatty() and not os.environ.get("NO_COLOR"))
        self._batch: Batch | None = None

    def begins(self, batch: Batch, done: Sequence[ReportRow]) -> None:
        self._batch = batch
        rest = f", {len(done)} of them done" if done else ""
        self._print(f"{batch.id}: {count(len(batch.prompts), 'prompt')}{rest}")

    def says(self, number: int, what: str) -> None:
        self._print(f"{self._place(number)} {self._shown(what)}: {self._prompt(number)}")

    def heard(self, number: int, event: Event) -> None:
        match event:
            case events.Retry(kind=kind, wait_s=wait_s) if kind != "lost":
                self._print(f"{self._place(number)} ! {kind}: retrying in {wait_s:.1f} s")
            case events.Warned(text=text):
                self._print(f"{self._place(number)} ! {self._shown(text)}")
            case events.ToolCallAsked() if self._verbose:
                arguments = (
                    event.arguments
                    if isinstance(event.arguments, str)
                    else " ".join(str(value) for value in event.arguments.values())
                )
                self._print(
                    cut(
                        (
                            f"{self._place(number)} • {self._shown(event.name)} "
                            f"{self._shown(arguments)}"
                        ),
                        width(),
                    )
                )
            case _:
                return

    def ended(self, row: ReportRow) -> None:
        self._print(
            self._ink(
                (
                    f"{self._place(row.number)} {self._shown(summary(row))}: "
                    f"{self._prompt(row.number)}"
                ),
                style_of(row),
            )
        )

    def warns(self, text: str) -> None:
        self._print(f"! {self._shown(text)}")

    def _place(self, number: int) -> str:
        return f"[{number}/{len(self._batch.prompts) if self._batch else '?'}]"

    def _prompt(self, number: int) -> str:
        return cut(self._shown(self._batch.prompt(number) if self._batch else ""), 60)

    def _shown(self, text: str) -> str:
        return one_line(self._secrets.text(text), PROMPT_CHARS)

    def _print(self, text: str) -> None:
        write(f"{text}\n")


class LiveTable(LineOutput):
    """Display that adds a live region of active prompts below the lines."""

    def __init__(self, secrets: Redactor, *, verbose: bool) -> None:
        super().__init__(secrets, verbose=verbose)
        self._under_way: dict[int, _Progress] = {}
        self._ended: dict[int, ReportRow] = {}
        self._drawn = 0
        """Height of the region on the screen."""

    @override
    def begins(self, batch: Batch, done: Sequence[ReportRow]) -> None:
        super().begins(batch, done)
        self._ended = {row.number: row for row in done}

    @override
    def says(self, number: int, what: str) -> None:
        self._progress(number).doing = self._shown(what)

    @override
    def heard(self, number: int, event: Event) -> None:
        progress = self._progress(number)
        match event:
            case events.TurnStart():
                progress.turns += 1
            case events.UsageReported():
                progress.tokens += (
                    event.input_tokens
                    + event.output_tokens
                    + event.cache_read_tokens
                    + event.cache_write_tokens
                )
            case events.ToolCallStart(name=name):
                progress.doing = self._shown(name)
            case events.RunStart() | events.ToolCallEnd():
                progress.doing = "thinking"
            case _:
                super().heard(number, event)

    @override
    def ended(self, row: ReportRow) -> None:
        self._under_way.pop(row.number, None)
        self._ended[row.number] = row
        super().ended(row)

    async def draw_on(self) -> None:
        while True:
            self._draw()
            await anyio.sleep(FRAME_S)

    def clear(self) -> None:
        write(self._up())
        self._drawn = 0

    @override
    def _print(self, text: str) -> None:
        """Print a line above the region, which the next frame redraws."""
        write(f"{self._up()}{text}\n")
        self._drawn = 0

    def _draw(self) -> None:
        lines = [
            cut(line, shutil.get_terminal_size((80, 24)).columns - 1) for line in self._lines()
        ]
        if lines or self._drawn:
            region = "".join(f"{line}\n" for line in lines)
            write(f"\x1b[?2026h{self._up()}{region}\x1b[?2026l")
            self._drawn = len(lines)

    def _up(self) -> str:
        return f"\x1b[{self._drawn}F\x1b[J" if self._drawn else ""

    def _lines(self) -> Iterator[str]:
        if self._batch is None:
            return
        most = max(min(LINES_MOST, shutil.get_terminal_size((80, 24)).lines - 4), 1)
        for number in list(self._under_way)[:most]:
            progress = self._under_way[number]
            took = lasting(anyio.current_time() - progress.since)
            spent = f"{progress.turns} turns · {tokens(progress.tokens)}" if progress.turns else ""
            yield (
                f"  {number:>3}  {took:>9}  {spent:<18}  {cut(progress.doing, 24):<24}  "
                f"{self._prompt(number)}"
            )
        passed = sum(row.passed for row in self._ended.values())
        failed = len(self._ended) - passed
        left = len(self._batch.prompts) - len(self._ended) - len(self._under_way)
        yield (
            f"  {passed} passed · {failed} failed · {len(self._under_way)} in progress · {left} "
            "left"
        )

    def _progress(self, number: int) -> _Progress:
        if number not in self._under_way:
            self._under_way[number] = _Progress(anyio.current_time())
        return self._under_way[number]


class _Progress:
    def __init__(self, since: float) -> None:
        self.since = since
        self.turns = self.tokens = 0
        self.doing = ""


def write(text: str) -> None:
    """Write a text to stderr. If that fails, the batch continues without output."""
    if not text:
        return
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        silence(sys.stderr)


# ---------------------------------------------------------------- the report
