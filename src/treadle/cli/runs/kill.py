"""`treadle runs kill`: ends a run, whichever process drives it. Entry points: `kill`."""

from __future__ import annotations

import anyio
import click

from treadle._internal.redaction import Redactor
from treadle.cli.exits import failing
from treadle.cli.help import HELP
from treadle.cli.journal_option import journal_file, journal_option, journal_url, open_runtime
from treadle.cli.runs.finding import find_run, no_runs, run_argument
from treadle.cli.runs.row import row_of, status_of
from treadle.cli.terminal import put, put_json
from treadle.config import Config, load
from treadle.journal.run_info import RunInfo


@click.command(context_settings=HELP)
@run_argument
@click.option(
    "--force", is_flag=True, help="Take over the run from a process that does not respond."
)
@click.option("--json", "as_json", is_flag=True, help="As JSON: the run as `runs list` has it.")
@journal_option
def kill(run: str, force: bool, as_json: bool, journal: str | None) -> None:
    """End a run as `cancelled`, whichever process drives it; its open calls get a result.

    A finished run does not change.
    """
    with failing():
        config = load()
        url = journal_url(config, journal)
        if (file := journal_file(url)) is not None and not file.exists():
            no_runs(run)
        before, after = anyio.run(_kill, config, url, run, force)
    if as_json:
        secrets = Redactor(config.secrets())
        put_json(row_of(after, secrets), secrets)
    else:
        put(
            f"{after.run_id}: "
            f"{'already finished:  ' if before.status == 'finished' else ''}{status_of(after)}"
        )


async def _kill(config: Config, url: str, run: str, force: bool) -> tuple[RunInfo, RunInfo]:
    async with open_runtime(config, url) as runtime:
        found = await find_run(runtime.journal, run)
        return found, await runtime.kill(found.run_id, force=force)
