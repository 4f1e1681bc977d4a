"""Text of a frame of `treadle runs top`, also for narrow terminals. Entry points: `lines_of`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence

from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import columns, cut, one_line, wrapped
from treadle._internal.units import ago, count, local
from treadle.cli.runs.row import PREFIX, SHORT_CHARS
from treadle.cli.runs.top_frame import Stuck, TopFrame
from treadle.cli.terminal import WIDTH_MIN, Ink, Style, table
from treadle.journal.queue import Backlog, WorkerInfo
from treadle.journal.run_info import RunInfo

NAME_COLUMNS = 20
STUCK_SHOWN = 8
DEAD_SHOWN = 3
"""Maximum number of dead workers shown. A restart loop can leave many within a day."""
NUMBERS = frozenset(
    {
        "ready",
        "later",
        "sent",
        "running",
        "waiting",
        "parked",
        "oldest",
        "pid",
        "runs",
        "seen",
        "age",
        "last",
        "turns",
    }
)
STATES = ("ready", "later", "sent", "running", "waiting", "parked")


def lines_of(
    frame: TopFrame, secrets: Redactor, ink: Ink, *, title: str, room: int | None = None
) -> list[str]:
    """Return the lines of a frame. `room`: maximum number of lines; active runs are cut first,
    stuck runs last.
    """
    view = _View(frame, secrets, ink)
    head = [*view.title(title), *view.queues(), *view.workers()]
    stuck = list(view.stuck())
    left = None if room is None else room - len(head) - len(stuck)
    return [*head, *stuck, *view.under_way(left)][:room]


class _View:
    def __init__(self, frame: TopFrame, secrets: Redactor, ink: Ink) -> None:
        self._frame, self._secrets, self._ink = frame, secrets, ink

    def title(self, text: str) -> Iterator[str]:
        rates = self._frame.rates
        told = [local(self._frame.at)]
        if rates is not None:
            told += [
                f"{rates.runs_ended:g} runs ended per minute",
                f"{rates.entries:g} entries per minute",
            ]
        yield self._ink(cut(text, _width()), "bold")
        yield from (self._ink(line, "dim") for line in _joined(told))

    def queues(self) -> Iterator[str]:
        yield ""
        if not self._frame.queues:
            yield "No runs are queued: treadle run --detach adds one."
            return
        states = [
            state
            for state in STATES
            if state in ("ready", "running")
            or any(getattr(queue, state) for queue in self._frame.queues)
        ]
        rows = [
            [self._shown(q.queue), *(str(getattr(q, state)) for state in states), self._oldest(q)]
            for q in self._frame.queues
        ]
        style: Callable[[str, str], Style] = lambda name, text: (  # noqa: E731
            "yellow" if name == "parked" and text != "0" else "dim" if text == "0" else ""
        )
        yield from self._table(["queue", *states, "oldest"], rows, style)

    def _oldest(self, backlog: Backlog) -> str:
        return (
            "" if backlog.oldest_ready_at is None else ago(backlog.oldest_ready_at, self._frame.at)
        )

    def workers(self) -> Iterator[str]:
        yield ""
        if not self._frame.workers:
            yield "No worker is running: treadle worker starts one."
            return
        living, dead = (
            [w for w in self._frame.workers if w.alive],
            [w for w in self._frame.workers if not w.alive],
        )
        rows = [self._worker(info) for info in (*living, *dead[:DEAD_SHOWN])]
        style: Callable[[str, str], Style] = lambda name, text: (  # noqa: E731
            _STATE_STYLES.get(text, "") if name == "state" else ""
        )
        yield from self._table(
            ["worker", "state", "runs", "seen", "queues", "engine", "version", "pid", "host"],
            rows,
            style,
        )
        if (more := len(dead) - DEAD_SHOWN) > 0:
            yield self._ink(
                cut(f"and {count(more, 'more dead worker')}: --json has them all", _width()), "dim"
            )

    def _worker(self, info: WorkerInfo) -> list[str]:
        card = info.card
        state = (
            "dead"
            if not info.alive
            else "draining"
            if info.draining
            else "working"
            if info.running
            else "idle"
        )
        used = f"{info.running}/{card.slots}"
        seen = ago(info.seen_at, self._frame.at)
        return [
            self._shown(card.name),
            state,
            used,
            seen,
            self._shown(",".join(card.queues)),
            card.engine,
            card.version,
            str(card.pid),
            self._shown(card.host),
        ]

    def stuck(self) -> Iterator[str]:
        if not self._frame.stuck:
            return
        yield ""
        for each in self._frame.stuck[:STUCK_SHOWN]:
            yield from self._stuck(each)
        if (more := len(self._frame.stuck) - STUCK_SHOWN) > 0:
            yield self._ink(f"! and {more} more: --json has them all", "yellow")

    def _stuck(self, each: Stuck) -> Iterator[str]:
        what = f"queue {each.queue}" if each.run_id is None else each.run_id
        for line in wrapped(one_line(self._secrets.text(f"! {what}: {each.why}"), 400), _width()):
            yield self._ink(line, "yellow")
        yield from (
            f"  {line}"
            for line in wrapped(one_line(self._secrets.text(each.advice), 600), _width() - 2)
        )

    def under_way(self, room: int | None) -> Iterator[str]:
        runs = self._frame.under_way
        if not runs:
            return
        yield ""
        most = len(runs) if room is None else max(room - 3, 1)
        style: Callable[[str, str], Style] = lambda name, text: (  # noqa: E731
            "cyan" if name == "run" else "dim" if name in ("agent", "age") else ""
        )
        yield from self._table(
            ["run", "last", "age", "turns", "agent", "prompt"],
            [self._run(info) for info in runs[:most]],
            style,
        )
        if len(runs) > most:
            yield self._ink(f"and {count(len(runs) - most, 'more run')} in progress", "dim")

    def _run(self, info: RunInfo) -> list[str]:
        at = self._frame.at
        prompt = self._shown(self._secrets.shortened(info.prompt), 200)
        return [
            _short(info.run_id),
            ago(info.updated_at, at),
            ago(info.started_at, at),
            str(info.turns),
            self._shown(info.agent),
            prompt,
        ]

    def _shown(self, text: str, most: int = NAME_COLUMNS) -> str:
        return cut(one_line(self._secrets.text(text)), most)

    def _table(
        self, head: Sequence[str], rows: Sequence[Sequence[str]], style: Callable[[str, str], Style]
    ) -> list[str]:
        """Format a table that fits the terminal. Drops columns from the right, except a prompt,
        which gets the remaining width.
        """
        kept = list(head)
        while len(kept) > 2 and _needed(kept, head, rows) > _width():
            kept.pop(-2 if kept[-1] == "prompt" else -1)
        at = [head.index(name) for name in kept]
        return table(
            kept,
            [[row[n] for n in at] for row in rows],
            right=NUMBERS,
            ink=self._ink,
            style=lambda n, text: style(kept[n], text),
            most=_width(),
        )


_STATE_STYLES: dict[str, Style] = {
    "dead": "red",
    "draining": "yellow",
    "working": "green",
    "idle": "dim",
}
_PROMPT_LEAST = 16


def _short(run_id: str) -> str:
    """Shorten a random id to its start. Ids of schedules stay whole, because they differ at their
    ends.
    """
    return (
        run_id.removeprefix(PREFIX)[:SHORT_CHARS] if run_id.startswith(PREFIX) else one_line(run_id)
    )


def _needed(kept: Sequence[str], head: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    at = [(name, head.index(name)) for name in kept]
    return sum(
        _PROMPT_LEAST
        if name == "prompt"
        else max(columns(text) for text in (name, *(row[n] for row in rows)))
        for name, n in at
    ) + 2 * (len(kept) - 1)


def _width() -> int:
    return max(min(shutil.get_terminal_size((100, 24)).columns, 140), WIDTH_MIN)


def _joined(parts: Sequence[str]) -> list[str]:
    """Join the parts into as few lines as fit."""
    lines = [""]
    for part in parts:
        longer = f"{lines[-1]} · {part}" if lines[-1] else part
        if columns(longer) > _width() and lines[-1]:
            lines.append(part)
        else:
            lines[-1] = longer
    return lines
