"""The live region around the input: the current answer, activities, to-do line and queue above it,
completions and status below. Entry points: `Region`.

It is always at least two rows lower than the terminal; the least important parts are dropped first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Final

from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import StyleAndTextTuples

from treadle._internal.terminal_text import columns, cut, one_line
from treadle._internal.units import lasting
from treadle.tui.live import ACTIVITIES_MAX, Activity, Live
from treadle.tui.status import Status
from treadle.tui.theme import Theme

if TYPE_CHECKING:
    from treadle.tui.drawing import Drawing

Line = StyleAndTextTuples

SPARE_ROWS: Final = 2
QUEUED_MAX: Final = 3
ROOMY_ROWS: Final = 12
"""Height of a terminal with room for a rule above the input."""
SPINS_PER_S: Final = 10


class Region:
    """Region that is composed before each frame and drawn line by line."""

    def __init__(
        self,
        theme: Theme,
        live: Callable[[], Live],
        status: Status,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._theme, self._live, self._status, self._clock = theme, live, status, clock
        self.size: Callable[[], Size] = lambda: Size(rows=24, columns=80)
        self.suggestions: Callable[[int], list[Line]] = lambda rows: []
        """Function that returns at most the given number of completion rows."""
        self.above: list[Line] = []
        self.below: list[Line] = []
        """Lines around the input, set by `compose`."""
        self._drawn: tuple[str, int, list[Line]] = ("", 0, [])
        """Last drawn answer: source, width and lines."""

    def compose(self, asked_rows: int) -> None:
        """Compose the region for the next frame. `asked_rows`: height that the input needs."""
        size = self.size()
        room = max(size.rows - SPARE_ROWS, 2) - asked_rows
        rule: list[Line] = (
            [[(self._style("rule"), self._theme.glyphs.rule * max(size.columns - 1, 1))]]
            if size.rows >= ROOMY_ROWS
            else []
        )
        room -= len(rule)
        self.below = [self._status.line(size.columns)][: max(room, 0)]
        room -= len(self.below)
        suggestions = self.suggestions(max(room, 0))
        self.below = [*suggestions, *self.below]
        room -= len(suggestions)
        live = self._live()
        parts = [
            self._activities(live, size.columns),
            self._todo(live, size.columns),
            self._queued(live, size.columns),
        ]
        kept: list[list[Line]] = []
        for part in parts:
            kept.append(part[: max(room, 0)])
            room -= len(kept[-1])
        tail = self._answer(live, size.columns)
        tail = tail[-room:] if room > 0 else []
        has_gap = bool(tail) and not tail[0]
        gap: list[Line] = [[]] if room > len(tail) and not has_gap else []
        parted: list[Line] = [[]] if room > len(tail) + 1 and tail and any(kept) else []
        self.above = [*gap, *tail, *parted, *chain.from_iterable(kept), *rule]

    # ------------------------------------------------------------ above the input

    def _answer(self, live: Live, width: int) -> list[Line]:
        """Return the lines of the unfinished answer, rendered again only after a change."""
        if not live.tail.strip():
            return []
        if (live.tail, width) != self._drawn[:2]:
            from treadle.tui import markdown  # noqa: PLC0415  brings Rich, which the first paint does not need

            drawing = self._drawing(width)
            self._drawn = (
                live.tail,
                width,
                [[*line] for line in drawing.lines(markdown.drawn(live.tail, drawing))],
            )
        return self._drawn[2]

    def _drawing(self, width: int) -> Drawing:
        from treadle.tui.drawing import Drawing  # noqa: PLC0415  as above

        return Drawing(width, self._theme)

    def _activities(self, live: Live, width: int) -> list[Line]:
        lines: list[Line] = []
        if live.thinking_since is not None:
            lines.append(
                self._busy("Thinking", live.thought, live.thinking_since, width, "reasoning")
            )
        elif live.asking_since is not None and not live.activities and not live.tail:
            lines.append(
                self._busy("Waiting for the model", live.retry, live.asking_since, width, "dim")
            )
        running = list(live.activities.values())
        most = ACTIVITIES_MAX - len(lines)
        shown = running if len(running) <= most else running[: most - 1]
        lines += [self._activity(activity, width) for activity in shown]
        if len(running) > len(shown):
            lines.append(
                [(self._style("dim"), cut(f"  … and {len(running) - len(shown)} more", width))]
            )
        return lines

    def _activity(self, activity: Activity, width: int) -> Line:
        what = f"{activity.agent}: {activity.call.doing}" if activity.agent else activity.call.doing
        if activity.waits:
            mark = f"{self._theme.glyphs.question} "
            about = activity.call.target or activity.call.doing
            rest = cut(
                f"{activity.agent}: {about}" if activity.agent else about,
                max(width - columns(mark) - 29, 8),
            )
            return [(self._style("warning"), f"{mark}{rest} — waiting for your approval")]
        said = f" {self._theme.glyphs.dot} {activity.progress}" if activity.progress else ""
        return self._busy(what, activity.call.target + said, activity.since, width, "tool.name")

    def _busy(self, what: str, about: str, since: float, width: int, style: str) -> Line:
        """Return a line with a spinner, a verb, its target and the elapsed time."""
        spinner, now = self._theme.glyphs.spinner, self._clock()
        lasted = now - since
        mark = f"{spinner[int(now * SPINS_PER_S) % len(spinner)]} "
        took = f"  {f'{lasted:.0f} s' if lasted < 59.5 else lasting(lasted)}" if lasted >= 1 else ""
        what = cut(one_line(what), max(width - columns(mark) - columns(took) - 1, 4))
        room = width - columns(mark) - columns(what) - columns(took) - 2
        about = cut(one_line(about, 400), room) if room > 3 and about else ""
        return [
            (self._style("tool.mark"), mark),
            (self._style(style), what),
            (self._style("tool.target"), f" {about}" if about else ""),
            (self._style("dim"), took),
        ]

    def _todo(self, live: Live, width: int) -> list[Line]:
        """Return the current to-do item and the progress."""
        todos = live.todos
        done = sum(todo.status == "completed" for todo in todos)
        if not todos or done == len(todos):
            return []
        now = next((todo.now for todo in todos if todo.status == "in_progress"), "") or next(
            todo.content for todo in todos if todo.status != "completed"
        )
        count = f"{self._theme.glyphs.todo} {done + 1} of {len(todos)}  "
        return [
            [
                (self._style("todo"), count),
                ("", cut(one_line(now, 400), max(width - columns(count) - 1, 4))),
            ]
        ]

    def _queued(self, live: Live, width: int) -> list[Line]:
        texts = live.queued
        shown = texts if len(texts) <= QUEUED_MAX else texts[: QUEUED_MAX - 1]
        mark = f"{self._theme.glyphs.queued} "
        lines: list[Line] = [
            [
                (
                    self._style("queued"),
                    mark + cut(one_line(text, 400), max(width - columns(mark) - 1, 4)),
                )
            ]
            for text in shown
        ]
        if len(texts) > len(shown):
            lines.append(
                [(self._style("dim"), f"  … and {len(texts) - len(shown)} more for later")]
            )
        return lines

    def _style(self, name: str) -> str:
        return self._theme.toolkit(name)
