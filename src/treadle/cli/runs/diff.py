"""`treadle runs diff`: compares two runs side by side. Entry points: `diff`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import NamedTuple

import click
import msgspec

from treadle._internal.terminal_text import columns, cut, one_line, plain, wrapped
from treadle._internal.units import count, lasting, money, tokens
from treadle.cli.help import HELP
from treadle.cli.journal_option import OpenedJournal, journal_option, on_journal
from treadle.cli.runs.finding import find_run, no_runs
from treadle.cli.runs.row import style_of
from treadle.cli.terminal import Ink, Style, put, put_json, width
from treadle.journal.diff import RunDiff, Side, compare
from treadle.messages.message import Message
from treadle.messages.metrics import totalled

LINES = 12
"""Maximum lines shown per message without `--verbose`."""


class DiffLine(NamedTuple):
    text: str
    style: Style = ""


NOTHING = DiffLine("")


@click.command(context_settings=HELP)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--json", "as_json", is_flag=True, help="As JSON: same_messages, is_same, a, b.")
@click.option("-v", "verbose", is_flag=True, help="Messages in full, not only their beginnings.")
@journal_option
def diff(a: str, b: str, as_json: bool, verbose: bool, journal: str | None) -> None:
    """Show where two runs diverge, and how they ended.

    Compares texts, calls and results; ids and times may differ.
    """

    async def work(place: OpenedJournal) -> None:
        runs = [(await find_run(place.journal, run)).run_id for run in (a, b)]
        found = compare(*[await place.journal.load(run_id) for run_id in runs])
        if as_json:
            put_json({"is_same": found.is_same, **msgspec.structs.asdict(found)}, place.secrets)
            return
        for line in _drawn(
            found,
            lambda text: plain(place.secrets.text(text)),
            Ink(),
            sys.maxsize if verbose else LINES,
        ):
            put(line)

    on_journal(journal, work, absent=lambda _: no_runs(a))


def _drawn(found: RunDiff, clean: Callable[[str], str], ink: Ink, most: int) -> Iterator[str]:
    pairs = _Pairs(ink, (width() - 3) // 2)
    for name, ours, theirs in _facts(found.a, found.b):
        left, right = [
            DiffLine(
                f"{name:<8} {one_line(clean(text))}", _style(name, text, differs=ours != theirs)
            )
            for text in (ours, theirs)
        ]
        yield pairs.line(left, right)
    yield ""
    if found.is_same:
        yield ink("The runs are the same to their end.", "green")
        return
    same = (
        f"{count(found.same_messages, 'message')} at the beginning "
        f"{'is' if found.same_messages == 1 else 'are'} the same"
    )
    yield ink(
        f"╌╌╌ {same if found.same_messages else 'they differ from the start'} ".ljust(width(), "╌"),
        "dim",
    )
    for ours, theirs in zip_longest(found.a.messages, found.b.messages):
        said = [
            [] if message is None else _said(message, clean, pairs.width, most)
            for message in (ours, theirs)
        ]
        for left, right in zip_longest(*said, fillvalue=NOTHING):
            yield pairs.line(left, right)
        yield pairs.line(NOTHING, NOTHING)


def _style(name: str, text: str, *, differs: bool) -> Style:
    return style_of(text) if name == "outcome" else "yellow" if differs else "dim"


def _facts(a: Side, b: Side) -> Iterator[tuple[str, str, str]]:
    yield "run", a.run_id, b.run_id
    yield "agent", a.agent, b.agent
    yield "model", a.model, b.model
    yield (
        "outcome",
        a.outcome.value if a.outcome else "not finished",
        b.outcome.value if b.outcome else "not finished",
    )
    yield "turns", str(a.turns), str(b.turns)
    yield "calls", str(a.tool_calls), str(b.tool_calls)
    yield "tokens", tokens(a.usage.total_tokens), tokens(b.usage.total_tokens)
    if a.cost_usd is not None or b.cost_usd is not None:
        yield "cost", money(a.cost_usd), money(b.cost_usd)
    if a.total.runs > 1 or b.total.runs > 1:
        yield "total", totalled(a.total), totalled(b.total)
    yield "took", lasting(a.duration_s), lasting(b.duration_s)


def _said(message: Message, clean: Callable[[str], str], room: int, most: int) -> list[DiffLine]:
    body = [DiffLine(line) for line in wrapped(clean(message.text).strip(), room)]
    for call in message.tool_calls:
        body += [
            DiffLine(line, "cyan")
            for line in wrapped(one_line(clean(f"• {call.name} {call.arguments_json}"), 400), room)
        ]
    for result in message.tool_results:
        mark = "?" if result.unknown else "✗" if result.failed else "✓"
        body += [
            DiffLine(line)
            for line in wrapped(clean(f"{mark} {result.name}: {result.text}").strip(), room)
        ]
    left_out = (
        [DiffLine(f"… {count(len(body) - most, 'more line')}", "dim")] if len(body) > most else []
    )
    return [DiffLine(message.role, "bold"), *body[:most], *left_out]


class _Pairs:
    """Formatter for two columns."""

    def __init__(self, ink: Ink, room: int) -> None:
        self.width = room
        self._ink = ink

    def line(self, ours: DiffLine, theirs: DiffLine) -> str:
        left, right = cut(ours.text, self.width), cut(theirs.text, self.width)
        return (
            f"{self._ink(left, ours.style)}{' ' * (self.width - columns(left))} "
            f"{self._ink('│', 'dim')} {self._ink(right, theirs.style)}"
        ).rstrip()
