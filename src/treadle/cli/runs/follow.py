"""`treadle runs follow`: follows a run that another process drives to its end. Entry points:
`follow`.
"""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, nullcontext, suppress
from pathlib import Path
from typing import IO, Final

import anyio
import click
from msgspec import UNSET, structs

from treadle._internal.terminal_text import one_line, plain
from treadle.cli.agent_of_run import schema_of
from treadle.cli.echo import echo
from treadle.cli.exits import exit_code, unwritable
from treadle.cli.help import HELP
from treadle.cli.journal_option import OpenedJournal, journal_option, on_journal
from treadle.cli.next_steps import next_steps
from treadle.cli.output_file import OutputFile
from treadle.cli.render import renderer
from treadle.cli.run_options import output_file_option, output_option
from treadle.cli.runs.finding import find_run, no_runs, run_argument
from treadle.errors import AgentError, ErrorKind
from treadle.events.follow import Follow
from treadle.journal.run_info import RunInfo, RunStatus
from treadle.messages.events import Event, RunEnd

LOOK_S: Final = 2.0
"""Interval of the checks that some process will continue the run, and that a failed journal has
recovered, in seconds.
"""
LOST_MOST_S: Final = 300.0
"""Maximum time for which a failing journal is retried, in seconds."""


@click.command(context_settings=HELP)
@run_argument
@output_option
@output_file_option
@click.option(
    "--after",
    metavar="ID",
    help="Only events after this one, named by its `id` as in --output stream-json.",
)
@click.option("-q", "quiet", is_flag=True, help="Only the answer, without progress and warnings.")
@click.option(
    "-v", "verbose", is_flag=True, help="Also the model's reasoning and the results of tools."
)
@journal_option
def follow(
    run: str,
    output: str,
    output_file: Path | None,
    after: str | None,
    journal: str | None,
    **shown: bool,
) -> None:
    """Follow a run that a worker or another process drives: its events so far, then each step as it
    happens, to its end.

    Waits for a queued run, and keeps following while the run waits or moves to another worker.
    Ctrl-C stops following and leaves the run alone.

    Exits as `treadle run` does, by the outcome of the run; with 1 if no process will continue it,
    and prints what to do.
    """
    with OutputFile(output_file) if output_file else nullcontext(sys.stdout.buffer) as out:

        async def work(place: OpenedJournal) -> int:
            info = await find_run(place.journal, run)
            return await _Following(place, info, journal, quiet=shown["quiet"]).to_its_end(
                out, output, after=after, verbose=shown["verbose"]
            )

        code = on_journal(journal, work, absent=lambda _: no_runs(run))
        if isinstance(out, OutputFile):
            out.finish()
    sys.exit(code)


class _Following:
    def __init__(
        self, place: OpenedJournal, info: RunInfo, journal: str | None, *, quiet: bool
    ) -> None:
        self._place, self._info, self._quiet, self._journal = place, info, quiet, journal
        self._there = () if journal is None else ("--journal", journal)
        self._code = 1

    async def to_its_end(
        self, out: IO[bytes], output: str, *, after: str | None, verbose: bool
    ) -> int:
        """Follow the run and return the exit code.

        Raises BrokenPipeError or CommandFailed if the output cannot be written, AgentError if there
        is nothing to follow.
        """
        typed = await schema_of(self._place.journal, self._info.run_id) is not None
        show = renderer(
            output, out, self._place.secrets, quiet=self._quiet, verbose=verbose, typed=typed
        ).show
        wrong: OSError | AgentError | None = None
        async with (
            aclosing(self._events(after, deltas=output == "stream-json")) as events,
            anyio.create_task_group() as group,
        ):
            group.start_soon(self._until_signal, group.cancel_scope)
            group.start_soon(self._while_somebody_will, group.cancel_scope)
            try:
                async for event in events:
                    show(event)
                    if isinstance(event, RunEnd) and event.run_id == self._info.run_id:
                        self._code = exit_code(
                            event.outcome, None if event.error is UNSET else event.error.kind
                        )
            except (OSError, AgentError) as e:  # raised outside, where no task group wraps it
                wrong = e
            group.cancel_scope.cancel()
        if isinstance(wrong, OSError):
            raise unwritable(wrong)
        if wrong is not None:
            raise wrong
        return self._code

    async def _events(self, after: str | None, *, deltas: bool) -> AsyncGenerator[Event]:
        """Yield each event once, to the end of the run, across failures of the journal.

        Raises AgentError if a failure lasts, and for an invalid `after`.
        """
        seq = before = 0
        failing_since: float | None = None
        while True:
            try:
                async with Follow(
                    self._place.journal,
                    self._info.run_id,
                    lambda: self._place.secrets,
                    after=after,
                    deltas=deltas,
                ) as events:
                    async for event in events:
                        failing_since = None
                        after = after if event.id is UNSET else event.id
                        seq = before + event.seq
                        yield structs.replace(event, seq=seq) if before else event
                    return
            except AgentError as e:
                if e.kind is not ErrorKind.AGENT or (
                    failing_since is not None and anyio.current_time() - failing_since > LOST_MOST_S
                ):
                    raise
                if failing_since is None:
                    failing_since = anyio.current_time()
                    echo(
                        (f"! {one_line(self._place.secrets.text(e.message), 400)}. Retrying"),
                        err=True,
                    )
            before = seq
            await anyio.sleep(LOOK_S)

    async def _until_signal(self, scope: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                break
        self._code = 130
        self._place.journal.hurry()
        self._say(
            f"the run continues: {self._command('runs', 'follow', self._info.run_id)} follows it "
            "again"
        )
        scope.cancel()

    async def _while_somebody_will(self, scope: anyio.CancelScope) -> None:
        """Print each status in which the run waits, and stop following if no process will drive
        it.
        """
        told: RunStatus | None = None
        while True:
            with suppress(AgentError):  # `_events` reports it and retries
                info = await self._place.journal.info(self._info.run_id)
                if info.status != told:
                    await self._tell(info)
                    told = info.status
                if info.status == "stopped":
                    scope.cancel()
                    return
            await anyio.sleep(LOOK_S)

    async def _tell(self, info: RunInfo) -> None:
        run_id = info.run_id
        match info.status:
            case "queued" if not self._quiet:
                self._say(
                    f"queued{'' if info.queue is None else f' in {info.queue}'}: waits for a worker"
                )
            case "waiting":
                state = await self._place.journal.load(run_id)
                for line in await next_steps(self._place.journal, state, journal=self._journal):
                    self._say(line)
            case "stopped":
                why = (
                    "no process drives it"
                    if info.parked is None
                    else f"it is parked: {info.parked}"
                )
                answer = ("runs", "resume") if info.queue is None else ("runs", "wake")
                self._say(f"treadle: {why}. {self._command(*answer, run_id)} continues it")
            case _:
                return

    def _command(self, *words: str) -> str:
        return shlex.join(["treadle", *words, *self._there])

    def _say(self, text: str) -> None:
        echo(plain(self._place.secrets.text(text)), err=True)
