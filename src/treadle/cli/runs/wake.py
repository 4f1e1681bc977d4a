"""`treadle runs wake`: puts a run back into a queue, with answers to its calls, for a worker to
continue. Entry points: `wake`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import click

from treadle._internal.redaction import Redactor
from treadle.cli.echo import echo
from treadle.cli.exits import CommandFailed, failing
from treadle.cli.help import HELP
from treadle.cli.journal_option import journal_file, journal_option, journal_url, open_runtime
from treadle.cli.next_steps import follow_command
from treadle.cli.runs.answers import answer_options, answers
from treadle.cli.runs.finding import find_run, no_runs, run_argument
from treadle.cli.runs.imported import answers_for
from treadle.cli.runs.row import row_of, status_of
from treadle.cli.terminal import put, put_json
from treadle.config import Config, load
from treadle.journal.queue import QueuePlace
from treadle.journal.run_info import RunInfo

if TYPE_CHECKING:
    from treadle.runtime.runtime import Runtime


@click.command(context_settings=HELP)
@run_argument
@answer_options
@click.option(
    "--queue",
    metavar="NAME",
    help="The queue. Default: the run's last queue, or `default`.",
)
@click.option(
    "--priority", type=click.IntRange(-1000, 1000), metavar="N", help="Higher priorities run first."
)
@click.option("--json", "as_json", is_flag=True, help="As JSON: the run as `runs list` has it.")
@journal_option
def wake(
    run: str,
    queue: str | None,
    priority: int | None,
    as_json: bool,
    journal: str | None,
    **said: tuple[str, ...],
) -> None:
    """Put a run into a queue for a worker to continue: one that waits for a person, with the
    answers; one that is parked; or one that was stopped.

    `treadle runs resume` continues a run in its own process instead.
    """
    with failing():
        config = load()
        url = journal_url(config, journal)
        if (file := journal_file(url)) is not None and not file.exists():
            no_runs(run)
        info = anyio.run(_woken, config, url, run, said, (queue, priority))
    if as_json:
        secrets = Redactor(config.secrets())
        put_json(row_of(info, secrets), secrets)
    else:
        put(f"{info.run_id}: {status_of(info)}")
        echo(f"{follow_command(info.run_id, journal)} follows it", err=True)


async def _asked(runtime: Runtime, info: RunInfo) -> dict[str, Any]:
    """Return answers to the calls of an imported run.

    Raises CommandFailed if there is no terminal to ask on: a worker would run them unseen.
    """
    if (
        info.imported is None
        or info.status == "finished"
        or not (state := await runtime.journal.load(info.run_id)).approvals.asked
    ):
        return {}
    if (said := answers_for(state, runtime.redact)) is None:
        call = next(iter(state.approvals.asked))
        raise CommandFailed(
            (
                f"run {info.run_id} was imported, and there is no terminal to ask about its calls: "
                f"answer each, as with --approve {call} or --deny {call}"
            ),
            4,
        )
    return {"approve": said["approve"], "deny": said["deny"]}


async def _woken(
    config: Config,
    url: str,
    run: str,
    said: dict[str, tuple[str, ...]],
    where: tuple[str | None, int | None],
) -> RunInfo:
    async with open_runtime(config, url) as runtime:
        info = await find_run(runtime.journal, run)
        options = (
            answers((await runtime.journal.load(info.run_id)).context.call_ids, **said)
            if any(said.values())
            else await _asked(runtime, info)
        )
        queue, priority = where
        place = None
        if queue is not None or priority is not None or info.queue is None:
            place = QueuePlace(
                queue=(info.queue or "default") if queue is None else queue,
                priority=priority or 0,
                tenant=info.tenant,
            )
        return await runtime.wake(info.run_id, place=place, **options)
