"""`treadle runs fork`: starts a new run from a turn of another one. Entry points: `fork`."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from treadle.cli.help import HELP
from treadle.cli.runs.answers import texts
from treadle.cli.runs.driving import Drive, OpenedRun, drive_options, driven, output_options
from treadle.cli.runs.finding import run_argument
from treadle.types import Limits


@click.command(context_settings=HELP)
@run_argument
@click.option(
    "--turn",
    type=click.IntRange(0),
    metavar="N",
    required=True,
    help="Number of turns to keep, as `runs show` counts them; 0 is before the first.",
)
@click.option(
    "--text", metavar="TEXT", help="The next message; with --turn 0, instead of the prompt."
)
@click.option(
    "--result",
    metavar="CALL=TEXT",
    multiple=True,
    help="Another result for a call of the last turn that is kept, by its id; repeatable.",
)
@drive_options
@output_options
def fork(turn: int, text: str | None, result: tuple[str, ...], **rest: Any) -> None:
    """Start a new run that continues after N turns of another one, with another text, model or
    result. The other run stays unchanged. Its turns are not repeated, and their changes to files
    are not undone.

    Exits as `treadle run` does.
    """
    drive = Drive(**rest)

    async def work(opened: OpenedRun) -> int:
        options = drive.options()
        if result:
            options["results"] = texts(
                result, (await opened.runtime.journal.load(opened.info.run_id)).context.call_ids
            )
        if drive.timeout is not None:
            started = (await opened.runtime.journal.load(opened.info.run_id)).started
            options["limits"] = msgspec.structs.replace(
                started.limits if started else Limits(), seconds=drive.timeout
            )
        return await opened.followed(
            opened.runtime.fork_stream(
                opened.info.run_id, turn=turn, text=text, agent=opened.agent(), **options
            )
        )

    driven(drive, work)
