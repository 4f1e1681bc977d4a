"""`treadle runs top`: live view of queues, workers and stuck runs.

The data comes from top_frame.py and is drawn by top_view.py. Entry points: `top`.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress

import anyio
import click

from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import cut, one_line
from treadle.cli.help import HELP
from treadle.cli.journal_option import OpenedJournal, journal_option, on_journal, shown_url
from treadle.cli.run_options import finite
from treadle.cli.runs.top_frame import FrameSource, TopFrame
from treadle.cli.runs.top_view import lines_of
from treadle.cli.terminal import Ink, put, put_json
from treadle.errors import AgentError
from treadle.types import now

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


@click.command(context_settings=HELP)
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    callback=finite,
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Refresh interval.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="One frame, as JSON: at, queues, workers, stuck, rates, under_way.",
)
@journal_option
def top(interval: float, as_json: bool, journal: str | None) -> None:
    """Watch queues, workers, active runs and stuck runs, with advice for the stuck ones.

    On a terminal the view refreshes until you press q or Ctrl-C; elsewhere one frame is printed.
    Rates are computed from the changes between frames.
    """
    there = () if journal is None else ("--journal", journal)

    async def work(place: OpenedJournal) -> None:
        watch = FrameSource(place.journal, known=place.config.queue_names, there=there)
        if as_json:
            put_json((await watch.frame()).as_json(place.secrets), place.secrets)
        elif sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            await _live(watch, place, interval, shown_url(place.url))
        else:
            for line in lines_of(
                await watch.frame(), place.secrets, Ink(), title=f"treadle · {shown_url(place.url)}"
            ):
                put(line)

    def absent(secrets: Redactor) -> None:
        if as_json:
            put_json(
                TopFrame(
                    at=now(), queues=(), workers=(), under_way=(), stuck=(), rates=None
                ).as_json(secrets),
                secrets,
            )
        else:
            put("There are no runs yet: treadle run --detach puts one into a queue.")

    on_journal(journal, work, absent=absent)


async def _live(watch: FrameSource, place: OpenedJournal, interval: float, title: str) -> None:
    screen = _Screen(place, f"treadle · {title} · q quits")
    with _on_screen():
        async with anyio.create_task_group() as group:
            group.start_soon(_until_q, place, group.cancel_scope)
            while True:
                try:
                    screen.show(await watch.frame())
                except AgentError as e:
                    screen.tell(place.secrets.text(e.message))
                await anyio.sleep(interval)


class _Screen:
    def __init__(self, place: OpenedJournal, title: str) -> None:
        self._place, self._title = place, title

    def show(self, frame: TopFrame) -> None:
        self._draw(
            lines_of(
                frame,
                self._place.secrets,
                Ink(),
                title=self._title,
                room=shutil.get_terminal_size().lines - 1,
            )
        )

    def tell(self, text: str) -> None:
        """Show an error instead of a frame."""
        self._draw(
            [
                cut(line, shutil.get_terminal_size().columns)
                for line in (self._title, f"! {one_line(text, 400)}", "  Retrying.")
            ]
        )

    @staticmethod
    def _draw(lines: list[str]) -> None:
        sys.stdout.buffer.write(
            (
                "\x1b[?2026h\x1b[H"
                + "".join(f"{line}\x1b[K\r\n" for line in lines)
                + "\x1b[J\x1b[?2026l"
            ).encode("utf-8", "replace")
        )
        sys.stdout.buffer.flush()


@contextmanager
def _on_screen() -> Generator[None]:
    """Switch to the alternate screen and unbuffered keys; restore both on exit."""
    import termios  # noqa: PLC0415  not on Windows
    import tty  # noqa: PLC0415  not on Windows

    typed = sys.stdin.isatty()
    before = termios.tcgetattr(0) if typed else None
    try:
        if typed:
            tty.setcbreak(0)
        sys.stdout.write(ENTER)
        sys.stdout.flush()  # frames are written as bytes, because a locale may not encode them
        yield
    finally:
        with suppress(OSError):
            sys.stdout.write(LEAVE)
            sys.stdout.flush()
        if before is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, before)


async def _until_q(place: OpenedJournal, scope: anyio.CancelScope) -> None:
    if not sys.stdin.isatty():
        return
    while True:
        await anyio.wait_readable(0)
        if os.read(0, 64).lower() in (b"q", b"\x1b", b""):
            place.journal.hurry()
            scope.cancel()
            return
