"""Shared code of the commands that drive an existing run: options, loading, following and output.
Entry points: `Drive`.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar, get_args

import anyio
import click
from msgspec import UNSET

from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import plain
from treadle.agents.agent import Agent
from treadle.cli.agent_of_run import agent_of_run, schema_of
from treadle.cli.agent_option import ASSISTANT, module_hooks
from treadle.cli.echo import echo
from treadle.cli.exits import CommandFailed, exit_code, failing, unwritable
from treadle.cli.journal_option import journal_file, journal_option, journal_url, opened_journal
from treadle.cli.next_steps import next_steps
from treadle.cli.output_file import OutputFile
from treadle.cli.render import renderer
from treadle.cli.run import follow
from treadle.cli.run_options import ON_ASK, output_file_option, output_option, permission_options
from treadle.cli.runs.finding import find_run, no_runs
from treadle.config import Config, load
from treadle.errors import AgentError
from treadle.journal.run_info import RunInfo
from treadle.loop.ending import error_info
from treadle.messages.events import Event, RunEnd
from treadle.messages.result import RunResult
from treadle.runtime.run_stream import RunStream
from treadle.runtime.runtime import Runtime
from treadle.types import Mode, Outcome, now

F = TypeVar("F", bound=Callable[..., Any])


def output_options(command: F) -> F:
    for option in (
        click.option(
            "-v",
            "verbose",
            is_flag=True,
            help="Also the model's reasoning and the results of tools.",
        ),
        click.option(
            "-q", "quiet", is_flag=True, help="Only the answer, without progress and warnings."
        ),
        journal_option,
        output_file_option,
        output_option,
    ):
        command = option(command)
    return command


def drive_options(command: F) -> F:
    """Add the options that override the run's original ones."""
    for option in (
        *reversed(permission_options),
        click.option("--on-ask", type=click.Choice(["deny", "wait"]), help=ON_ASK),
        click.option(
            "--timeout",
            type=click.FloatRange(0, min_open=True),
            metavar="SECONDS",
            help="Maximum duration of the whole run.",
        ),
        click.option(
            "--cwd", type=click.Path(path_type=Path), metavar="DIR", help="Use another directory."
        ),
        click.option(
            "--mode",
            type=click.Choice(get_args(Mode)),
            help="Use another mode, as for `treadle run`.",
        ),
        click.option("--model", metavar="MODEL", help="Use another model, as for `treadle run`."),
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class Drive:
    """Validated options of a command that drives a run."""

    run: str
    """Id of the run, as typed."""
    journal: str | None
    output: str
    output_file: Path | None
    quiet: bool
    verbose: bool
    model: str | None = None
    mode: Mode | None = None
    cwd: Path | None = None
    timeout: float | None = None
    on_ask: str | None = None
    allow: tuple[str, ...] = ()
    network: str | None = None
    no_sandbox: str | None = None

    def options(self) -> dict[str, Any]:
        """Options of `Runtime.resume` and `Runtime.fork`, except the time limit."""
        given = {
            "model": self.model,
            "mode": self.mode,
            "cwd": self.cwd and self.cwd.resolve(),
            "on_ask": self.on_ask,
        }
        return {name: value for name, value in given.items() if value is not None}

    def flags(self) -> dict[str, Any]:
        """Options that override the configuration."""
        said = {
            "--model": self.model,
            "--mode": self.mode,
            "--timeout": self.timeout,
            "--network": self.network,
            "--no-sandbox": self.no_sandbox,
        }
        return said | ({"--allow": self.allow} if self.allow else {})


@dataclass(frozen=True, slots=True)
class OpenedRun:
    """Run with everything needed to resume it."""

    info: RunInfo
    runtime: Runtime
    config: Config
    show: Callable[[Event], None]
    drive: Drive
    schema: dict[str, object] | None
    """Output schema with which the run began."""

    def agent(self) -> Agent[Any, Any]:
        """Agent of the run, looked up by name.

        Raises CommandFailed if it is no longer defined, and AgentError(invalid) if its definition
        is invalid.
        """
        if self.drive.cwd is None and not Path(self.info.cwd).is_dir():
            raise CommandFailed(
                f"the directory {self.info.cwd!r} of run {self.info.run_id} no longer "
                "exists: name another one with --cwd"
            )
        found = agent_of_run(
            self.info, self.config, self.drive.cwd or Path(self.info.cwd), schema=self.schema
        )
        for other in (found.agent, *found.others) if self.info.agent != ASSISTANT else ():
            self.runtime.agents.register(other)
        for warning in found.warnings:
            self.warn(warning)
        return found.agent

    def warn(self, text: str) -> None:
        if not self.drive.quiet:
            echo(f"! {plain(self.runtime.redact(text))}", err=True)

    def print(self, events: Iterable[Event]) -> None:
        """Print events. Raises BrokenPipeError or CommandFailed if stdout cannot be written."""
        try:
            for event in events:
                self.show(event)
        except OSError as e:
            raise unwritable(e) from e

    async def followed(self, stream: RunStream[str]) -> int:
        """Drive the run to its end, print the next steps, and return the exit code."""
        await follow(stream, self.show)
        result = stream.result
        if result.outcome is not Outcome.COMPLETED:
            await self.tell_next_steps(result.run_id)
        return code_of(result)

    async def tell_next_steps(self, run_id: str) -> None:
        try:
            state = await self.runtime.journal.load(run_id)
        except AgentError:  # the run's outcome already reported it
            return
        if not self.drive.quiet or state.approvals.asked:
            for line in await next_steps(self.runtime.journal, state, journal=self.drive.journal):
                echo(plain(self.runtime.redact(line)), err=True)


def end_of(result: RunResult[Any]) -> RunEnd:
    """Build the last event of a run from its result."""
    error = result.error
    return RunEnd(
        run_id=result.run_id,
        session_id=result.session_id,
        seq=1,
        at=now(),
        outcome=result.outcome,
        text=result.text,
        output=result.output,
        validated=result.validated,
        usage=result.metrics.usage,
        turns=result.metrics.turns,
        tool_calls=result.metrics.tool_calls,
        duration_s=result.metrics.duration_s,
        cost_usd=UNSET if result.metrics.cost_usd is None else result.metrics.cost_usd,
        total=result.metrics.total,
        error=UNSET if error is None else error_info(error),
    )


def code_of(result: RunResult[Any]) -> int:
    return exit_code(result.outcome, result.error.kind if result.error else None)


def driven(drive: Drive, work: Callable[[OpenedRun], Awaitable[int]]) -> None:
    """Find the run, call `work` with it, and exit with the code that `work` returns.

    Raises CommandFailed.
    """
    if drive.cwd is not None and not drive.cwd.is_dir():
        raise CommandFailed(f"--cwd {str(drive.cwd)!r} is not a directory")
    with failing():
        url = journal_url(load(), drive.journal)
        if (file := journal_file(url)) is not None and not file.exists():
            no_runs(drive.run)
        with (
            OutputFile(drive.output_file)
            if drive.output_file
            else nullcontext(sys.stdout.buffer) as out
        ):
            code = anyio.run(_main, drive, url, out, work)
            if isinstance(out, OutputFile):
                out.finish()
    sys.exit(code)


async def _main(
    drive: Drive, url: str, out: IO[bytes], work: Callable[[OpenedRun], Awaitable[int]]
) -> int:
    journal = opened_journal(load(), url)
    try:
        info = await find_run(journal, drive.run)
        config = load(cwd=drive.cwd or info.cwd, flags=drive.flags())
        schema = await schema_of(journal, info.run_id)
        show = renderer(
            drive.output,
            out,
            Redactor(config.secrets()),
            quiet=drive.quiet,
            verbose=drive.verbose,
            typed=schema is not None,
        ).show
        async with Runtime(config=config, journal=journal, hooks=module_hooks(config)) as runtime:
            opened = OpenedRun(info, runtime, config, show, drive, schema)
            for warning in config.warnings:
                opened.warn(warning)
            return await work(opened)
    finally:
        await journal.aclose()
