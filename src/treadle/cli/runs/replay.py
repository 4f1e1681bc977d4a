"""`treadle runs replay`: prints a run from its journal. Entry points: `replay`."""

from __future__ import annotations

from typing import Any

import click

from treadle.cli.help import HELP
from treadle.cli.runs.driving import Drive, OpenedRun, driven, end_of, output_options
from treadle.cli.runs.finding import run_argument


@click.command(context_settings=HELP)
@run_argument
@output_options
def replay(**rest: Any) -> None:
    """Print a run again: the same events, except for streamed fragments of text. Calls no model
    and runs no tool.

    Exits with 0, however the run ended.
    """

    async def work(opened: OpenedRun) -> int:
        run_id = opened.info.run_id
        opened.print(await opened.runtime.events(run_id))
        if opened.info.status != "finished":
            opened.print([end_of(await opened.runtime.replay(run_id))])
            await opened.tell_next_steps(run_id)
        return 0

    driven(Drive(**rest), work)
