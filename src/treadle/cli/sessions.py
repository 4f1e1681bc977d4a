"""`treadle sessions …`: lists, shows, searches and deletes the conversations in a journal.

Entry points: `sessions`.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import click

from treadle._internal.json_text import parse_json
from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import cut, one_line, plain
from treadle._internal.units import ago, count
from treadle.cli.exits import CommandFailed
from treadle.cli.help import HELP
from treadle.cli.journal_option import OpenedJournal, journal_option, on_journal
from treadle.cli.output_file import write_out
from treadle.cli.session_lookup import find_session, no_sessions
from treadle.cli.session_view import as_row, cells, heading, said, shown_title, style
from treadle.cli.terminal import Ink, confirm, limit_option, put, put_json, table, width
from treadle.journal.sessions import SearchHit, SessionInfo
from treadle.messages.message import (
    encode_message,
)

NUMBERS = frozenset({"age", "messages"})

session_argument = click.argument("session", metavar="ID")
json_option = click.option("--json", "as_json", is_flag=True, help="As JSON.")


@click.group(context_settings=HELP)
def sessions() -> None:
    """List, show, search and manage conversations.

    ID is a session's id, the beginning of one, or `last` for the most recently changed one.
    `treadle run --session ID` continues one.
    """


# ---------------------------------------------------------------- list


@sessions.command("list", context_settings=HELP)
@json_option
@limit_option("Maximum number of results.")
@click.option("--all", "everything", is_flag=True, help="All conversations, without a limit.")
@journal_option
def list_(as_json: bool, limit: int, everything: bool, journal: str | None) -> None:
    """List conversations, most recently changed first."""

    def show(found: list[SessionInfo], secrets: Redactor) -> None:
        if as_json:
            put_json([as_row(info, secrets) for info in found], secrets)
        elif found:
            for line in table(
                ["session", "age", "messages", "title"],
                [cells(info, secrets) for info in found],
                right=NUMBERS,
                ink=Ink(),
                style=style,
            ):
                put(line)
        else:
            put('There are no sessions yet. Start one: treadle run "what to do"')

    async def work(place: OpenedJournal) -> None:
        found = place.journal.sessions.list()
        show(found if everything else found[:limit], place.secrets)

    on_journal(journal, work, absent=lambda secrets: show([], secrets))


# ---------------------------------------------------------------- show


@sessions.command(context_settings=HELP, short_help="Show the messages of a conversation.")
@session_argument
@json_option
@click.option(
    "-v", "verbose", is_flag=True, help="Also the model's reasoning, and results in full."
)
@journal_option
def show(session: str, as_json: bool, verbose: bool, journal: str | None) -> None:
    """Show the part of a conversation that the model of its next run sees.

    `sessions export` prints the rest, and `sessions search` finds it.
    """

    async def work(place: OpenedJournal) -> None:
        info = find_session(place.journal.sessions, session)
        messages = place.journal.sessions.get_messages(info.id)
        shown = {message.id for message in messages}
        left = sum(
            message.id not in shown and not message.is_summary
            for message in place.journal.sessions.everything(info.id)
        )
        if as_json:
            put_json(
                {
                    **as_row(info, place.secrets),
                    "left_view": left,
                    "messages": [
                        parse_json(encode_message(message).decode()) for message in messages
                    ],
                },
                place.secrets,
            )
            return
        ink = Ink()

        def clean(text: str) -> str:
            return plain(place.secrets.text(text))

        for line in heading(
            replace(info, title=place.secrets.shortened(info.title)),
            len(messages),
            left,
            clean,
            ink,
        ):
            put(line)
        for message in messages:
            for line in said(message, clean, ink, verbose=verbose):
                put(line)

    on_journal(journal, work, absent=lambda _: no_sessions(session))


# ---------------------------------------------------------------- change


@sessions.command(context_settings=HELP)
@session_argument
@click.argument("title")
@journal_option
def rename(session: str, title: str, journal: str | None) -> None:
    """Give a conversation another title."""
    if not title.strip():
        raise CommandFailed("the title is empty")

    async def work(place: OpenedJournal) -> None:
        info = find_session(place.journal.sessions, session)
        place.journal.sessions.update_title(info.id, title)
        renamed = place.journal.sessions.get(info.id) or info
        put(f"{one_line(info.id)}: {shown_title(renamed.title, place.secrets)}")

    on_journal(journal, work, absent=lambda _: no_sessions(session))


@sessions.command(context_settings=HELP)
@session_argument
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@journal_option
def delete(session: str, yes: bool, journal: str | None) -> None:
    """Delete a conversation with everything in it, after showing what that is and asking."""

    async def work(place: OpenedJournal) -> None:
        store = place.journal.sessions
        info = find_session(store, session)
        put(
            f"{one_line(info.id)}: {shown_title(info.title, place.secrets)}, "
            f"{count(info.message_count, 'message')}"
        )
        going = await place.journal.runs(session_id=info.id)
        for run in going:
            if run.status != "finished":
                put(f"run {one_line(run.run_id)} ({run.status}) is deleted with it")
        if not yes:
            confirm("Delete it?")
        store.delete(info.id)
        put("Deleted.")
        left = {run.run_id for run in await place.journal.runs()}
        for run in going:
            if run.run_id in left:
                put(f"run {one_line(run.run_id)} stays as long as the runs forked from it")

    on_journal(journal, work, absent=lambda _: no_sessions(session))


# ---------------------------------------------------------------- search and export


@sessions.command(context_settings=HELP, short_help="Find messages that contain all the words.")
@click.argument("words", nargs=-1, required=True)
@json_option
@limit_option("Maximum number of results.")
@journal_option
def search(words: tuple[str, ...], as_json: bool, limit: int, journal: str | None) -> None:
    """Find messages that contain all the WORDS, newest first, including those that the model no
    longer sees.
    """

    def show(found: list[SearchHit], secrets: Redactor) -> None:
        if as_json:
            put_json(
                [
                    {
                        **asdict(hit),
                        "title": secrets.shortened(hit.title),
                        "excerpt": secrets.shortened(hit.excerpt),
                    }
                    for hit in found
                ],
                secrets,
            )
        elif not found:
            put("No messages found.")
        ink = Ink()
        for hit in () if as_json else found:
            title = cut(shown_title(hit.title, secrets), width() - len(hit.session_id) - 2)
            put(f"{ink(one_line(hit.session_id), 'cyan')}  {ink(title, 'bold')}")
            who = f"  {ago(hit.at, datetime.now(UTC)):>6}  {hit.role:<9}  "
            put(
                ink(who, "dim")
                + cut(
                    one_line(secrets.text(secrets.shortened(hit.excerpt)), 400), width() - len(who)
                )
            )

    async def work(place: OpenedJournal) -> None:
        show(place.journal.sessions.search(" ".join(words), limit=limit), place.secrets)

    on_journal(journal, work, absent=lambda secrets: show([], secrets))


@sessions.command(context_settings=HELP, short_help="Print a conversation as JSON lines.")
@session_argument
@click.option(
    "-o",
    "output_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to FILE instead of standard output.",
)
@click.option("--view", is_flag=True, help="Only what the model of its next run sees.")
@journal_option
def export(session: str, output_file: Path | None, view: bool, journal: str | None) -> None:
    """Print a conversation as JSON lines, one per message, as it is stored.

    Includes messages that the model no longer sees. A line whose id begins with `summary_` is a
    summary of the messages before it.
    """

    async def work(place: OpenedJournal) -> bytes:
        info = find_session(place.journal.sessions, session)
        store = place.journal.sessions
        return b"".join(
            encode_message(message) + b"\n"
            for message in (store.get_messages if view else store.everything)(info.id)
        )

    write_out(on_journal(journal, work, absent=lambda _: no_sessions(session)), output_file)
