"""`treadle runs show`: prints the timeline of a run, drawn by timeline.py. Entry points: `show`."""

from __future__ import annotations

from typing import Any

import click

from treadle._internal.json_text import decode_json, encode_json
from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import plain, wrapped
from treadle.cli.help import HELP
from treadle.cli.journal_option import OpenedJournal, journal_option, on_journal
from treadle.cli.next_steps import next_steps
from treadle.cli.runs.finding import find_run, no_runs, run_argument
from treadle.cli.runs.lines import export_lines
from treadle.cli.runs.row import row_of
from treadle.cli.story import Story
from treadle.cli.terminal import Ink, put, put_bytes, width
from treadle.cli.timeline import Relations, timeline
from treadle.errors import AgentError
from treadle.journal.entries import ModelResponded
from treadle.journal.journal import Journal
from treadle.journal.run_info import RunInfo


@click.command(context_settings=HELP)
@run_argument
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="As JSON: the run as `runs list` has it, and its entries as `runs export` has them.",
)
@click.option(
    "-v", "verbose", is_flag=True, help="Also the model's reasoning and the results of tools."
)
@journal_option
def show(run: str, as_json: bool, verbose: bool, journal: str | None) -> None:
    """Draw what happened in a run: its turns and calls with their times, retries and approvals,
    crashes, resumes and unknown results.
    """

    async def work(place: OpenedJournal) -> None:
        info = await find_run(place.journal, run)
        if as_json:
            put_bytes(await _object(place, info))
        else:
            await _draw(place, info, verbose=verbose, journal=journal)

    on_journal(journal, work, absent=lambda _: no_runs(run))


async def _object(place: OpenedJournal, info: RunInfo) -> bytes:
    row = place.secrets.inside(
        decode_json(encode_json(row_of(info, place.secrets)), dict[str, object])
    )
    lines = [
        _masked(line, place.secrets)
        for line in export_lines(await place.journal.read_bytes(info.run_id))
    ]
    below = await _tree(place, info.run_id)
    children = b',"children":' + encode_json(below) if below else b""
    return encode_json(row)[:-1] + children + b',"entries":[\n' + b",\n".join(lines) + b"\n]}\n"


async def _tree(place: OpenedJournal, run_id: str) -> list[dict[str, Any]]:
    """Return the child runs as `runs list` shows them, each with its own children."""
    found: list[dict[str, Any]] = []
    for info in await place.journal.children(run_id):
        row = place.secrets.inside(
            decode_json(encode_json(row_of(info, place.secrets)), dict[str, Any])
        )
        below = await _tree(place, info.run_id)
        found.append({**row, "children": below} if below else row)
    return found


def _masked(line: bytes, secrets: Redactor) -> bytes:
    """Mask secrets in a line; a line without any stays byte for byte the same."""
    if secrets.exact(text := line.decode()) == text:
        return line
    return encode_json(secrets.inside(decode_json(line, dict[str, object])))


async def _draw(place: OpenedJournal, info: RunInfo, *, verbose: bool, journal: str | None) -> None:
    records = await place.journal.read(info.run_id)
    relations = await _relations(place.journal, info)
    ink, clean = Ink(), place.secrets.text
    for line in timeline(Story.of(records), info, relations, clean=clean, ink=ink, verbose=verbose):
        put(line)
    if info.status == "queued":
        put("")
        put(
            ink(
                (
                    "It waits for a worker: `treadle runs top` shows them, `treadle worker` starts "
                    "one."
                ),
                "bold",
            )
        )
    if info.status in ("stopped", "waiting"):
        put("")
        for line in await next_steps(
            place.journal, await place.journal.load(info.run_id), journal=journal
        ):
            text = plain(clean(line))
            # Commands must not be wrapped.
            for piece in wrapped(text, width()) if line.startswith("?") else [text]:
                put(ink(piece, "bold"))


async def _relations(journal: Journal, run: RunInfo) -> Relations:
    """Return the related runs; none if one of them cannot be read."""
    try:
        children = await journal.children(run.run_id)
        for info in children:  # the list grows during the iteration
            children += await journal.children(info.run_id)
        forks = [*reversed(await journal.runs(forked_from=run.run_id))]
        before = await _response_before(journal, run)
    except AgentError:
        return Relations()
    return Relations(
        children=sorted(children, key=lambda info: info.started_at), forks=forks, before=before
    )


async def _response_before(journal: Journal, run: RunInfo) -> ModelResponded | None:
    """Return the last response of the session's previous run."""
    session = [] if run.session_id is None else await journal.runs(session_id=run.session_id)
    before = next(
        (
            info
            for info in session
            if info.started_at < run.started_at and info.parent_run_id is None
        ),
        None,
    )
    records = [] if before is None else await journal.read(before.run_id)
    responses = (
        record.entry for record in reversed(records) if isinstance(record.entry, ModelResponded)
    )
    return next((response for response in responses if response.stop_reason is not None), None)
