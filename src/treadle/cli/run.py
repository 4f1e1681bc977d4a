"""`treadle run`: runs one prompt unattended. Entry points: `run`.

The prompt is read in input.py, the journal selected in journal_option.py, the output rendered in
render.py.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

import anyio
import click

from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import plain
from treadle.cli.agent_option import ChosenAgent, agent_options, chosen_agent, module_hooks
from treadle.cli.echo import echo
from treadle.cli.exits import CommandFailed, exit_code, failing, unwritable
from treadle.cli.help import HELP
from treadle.cli.input import attachments, read_prompt
from treadle.cli.journal_option import journal_url, open_runtime
from treadle.cli.next_steps import next_steps
from treadle.cli.output_file import OutputFile
from treadle.cli.render import renderer
from treadle.cli.run_detached import check_detached, detached
from treadle.cli.run_options import (
    check_directory,
    configured,
    output_file_option,
    output_option,
    run_options,
    settings_of,
)
from treadle.cli.run_request import RunRequest, last_here
from treadle.config import Config
from treadle.errors import AgentError
from treadle.journal.queue import DEFAULT_QUEUE
from treadle.messages.events import Event
from treadle.messages.message import Part
from treadle.messages.result import RunResult
from treadle.runtime.model_choice import from_anywhere
from treadle.runtime.run_stream import RunStream
from treadle.runtime.runtime import Runtime
from treadle.types import Outcome, new_id

MEMORY = "memory:"
EPHEMERAL = ". Or use --ephemeral, which saves nothing"


def _pairs(
    ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]
) -> dict[str, str]:
    """Option callback that splits `K=V`."""
    if wrong := [each for each in given if "=" not in each]:
        raise click.BadParameter(f"{wrong[0]!r} is not K=V")
    return dict(each.split("=", 1) for each in given)


@click.command(context_settings=HELP)
@click.argument("prompt", required=False, default="")
@agent_options
@run_options
@click.option(
    "--continue",
    "goes_on",
    is_flag=True,
    help="Continue the last conversation of this directory.",
)
@click.option(
    "--session", metavar="ID", help="Continue this conversation, or start one with this id."
)
@output_option
@output_file_option
@click.option(
    "--ephemeral", is_flag=True, help="Keep nothing: the run is lost when the process ends."
)
@click.option(
    "--detach",
    is_flag=True,
    help="Put the run into a queue for `treadle worker`, print its id, and exit.",
)
@click.option("--queue", metavar="NAME", help="With --detach: into this queue. Default: `default`.")
@click.option(
    "--priority",
    type=click.IntRange(-1000, 1000),
    metavar="N",
    help="With --detach: higher priorities run first. Default: 0.",
)
@click.option("--user", metavar="ID", help="User on whose behalf it runs: see `runs list --user`.")
@click.option(
    "--tag",
    "tags",
    metavar="TAG",
    multiple=True,
    help="Tag of the run: see `runs list --tag`; repeatable.",
)
@click.option(
    "--metadata",
    metavar="K=V",
    multiple=True,
    callback=_pairs,
    help="A fact stored with the run; repeatable.",
)
@click.option("-q", "quiet", is_flag=True, help="Only the answer, without progress and warnings.")
@click.option(
    "-v", "verbose", is_flag=True, help="Also the model's reasoning and the results of tools."
)
def run(prompt: str, attached: tuple[Path, ...], output_file: Path | None, **options: Any) -> None:
    """Run PROMPT unattended. Piped standard input is added to it.

    Each step is stored in the journal before the next one begins, so `treadle runs resume` can
    continue a killed run.

    The defaults are those of an empty configuration; `treadle config show` prints yours.

    With --detach, a worker drives the run: `treadle worker` on any machine with the same journal.

    Exits with 0 when completed, 1 on an error, 2 on a usage error, 3 at a limit, 4 if an approval
    was needed, 75 if a retry may help, 130 when stopped.
    """
    _check(options | {"output_file": output_file})
    parts = read_prompt(prompt)
    with failing():
        if options["detach"] and options["model"]:
            options["model"] = from_anywhere(options["model"])
        config = configured(options, cwd=options["cwd"])
        wish = _wish(config, [*attachments(attached, config, options["cwd"]), *parts], options)
        chosen = chosen_agent(config, wish.cwd, options)
        if not wish.quiet:
            for warning in (*config.warnings, *chosen.warnings):
                echo(f"! {plain(Redactor(config.secrets()).exact(warning))}", err=True)
        if options["detach"]:
            detached(config, wish, chosen)
            return
        with OutputFile(output_file) if output_file else nullcontext(sys.stdout.buffer) as out:
            result = anyio.run(_run, config, wish, chosen, out)
            if isinstance(out, OutputFile):
                out.finish()
    sys.exit(exit_code(result.outcome, result.error.kind if result.error else None))


def _check(options: dict[str, Any]) -> None:
    """Raise CommandFailed for contradictory options."""
    check_directory(options["cwd"])
    check_detached(options)
    if options["goes_on"] and options["session"] is not None:
        raise CommandFailed(
            "--continue continues the last conversation and --session the one that it names: use "
            "one of them"
        )
    waits = [
        f"{flag} wait"
        for flag, name in (("--on-ask", "on_ask"), ("--on-unknown", "on_unknown"))
        if options[name] == "wait"
    ]
    needs_journal = [
        flag
        for flag, name in (
            ("--session", "session"),
            ("--continue", "goes_on"),
            ("--journal", "journal"),
        )
        if options[name]
    ]
    if options["ephemeral"] and (contrary := [*needs_journal, *waits]):
        raise CommandFailed(
            f"--ephemeral keeps nothing, so it cannot be used with {contrary[0]}: leave one of "
            "them out"
        )


def _wish(config: Config, parts: list[Part], options: dict[str, Any]) -> RunRequest:
    return RunRequest(
        prompt=parts,
        settings=settings_of(options),
        cwd=options["cwd"].resolve(),
        journal=MEMORY if options["ephemeral"] else journal_url(config, options["journal"]),
        journal_option=options["journal"],
        queue=DEFAULT_QUEUE if options["queue"] is None else options["queue"],
        priority=options["priority"] or 0,
        **{
            name: options[name]
            for name in (
                "output",
                "quiet",
                "verbose",
                "session",
                "goes_on",
                "on_ask",
                "on_unknown",
                "user",
                "tags",
                "metadata",
            )
        },
    )


async def _run(
    config: Config, wish: RunRequest, chosen: ChosenAgent, out: IO[bytes]
) -> RunResult[Any]:
    typed, secrets = chosen.agent.answer is not None, Redactor(config.secrets())
    show = renderer(
        wish.output, out, secrets, quiet=wish.quiet, verbose=wish.verbose, typed=typed
    ).show
    async with open_runtime(
        config, wish.journal, otherwise=EPHEMERAL, hooks=module_hooks(config)
    ) as runtime:
        session = (
            await last_here(runtime, wish.cwd)
            if wish.goes_on
            else new_id("session")
            if wish.session is None
            else wish.session
        )
        for other in (chosen.agent, *chosen.others):
            runtime.agents.register(other)
        stream = runtime.stream(
            chosen.agent,
            wish.prompt,
            session=session,
            inputs=chosen.inputs,
            settings=wish.settings,
            limits=chosen.limits,
            mode=config.defaults.mode,
            cwd=wish.cwd,
            on_ask=wish.on_ask,
            on_unknown=wish.on_unknown,
            user_id=wish.user,
            tags=wish.tags,
            metadata=wish.metadata,
        )
        await follow(stream, show)
        result = stream.result
        if result.outcome is not Outcome.COMPLETED and wish.journal != MEMORY:
            await _tell_next_steps(runtime, wish, result.run_id)
    return result


async def _tell_next_steps(runtime: Runtime, wish: RunRequest, run_id: str) -> None:
    try:
        state = await runtime.journal.load(run_id)
    except AgentError:  # the run's outcome already reported it
        return
    if wish.quiet and not state.approvals.asked:
        return
    for line in await next_steps(runtime.journal, state, journal=wish.journal_option):
        echo(plain(runtime.redact(line)), err=True)


async def follow(stream: RunStream[Any], show: Callable[[Event], None]) -> None:
    """Show the events of a run to its end. Ctrl-C, SIGTERM and a closed terminal cancel the run.

    Raises BrokenPipeError if the reader is gone, and CommandFailed if the output cannot be written;
    either cancels the run.
    """
    lost: OSError | None = None
    async with stream, anyio.create_task_group() as group:
        group.start_soon(_cancel_on_signals, stream)
        async for event in stream:
            try:
                show(event)
            except OSError as e:
                lost = e
                break
        group.cancel_scope.cancel()
    if lost is not None:  # raised here, where no task group wraps it
        raise unwritable(lost)


async def _cancel_on_signals(stream: RunStream[Any]) -> None:
    """Cancel the run on the first signal, within half a second. The third signal ends the process
    immediately.
    """
    heard = [signal.SIGINT, signal.SIGTERM]
    hang_up = getattr(signal, "SIGHUP", None)  # not on Windows; what nohup ignores stays ignored
    if hang_up is not None and signal.getsignal(hang_up) is not signal.SIG_IGN:
        heard.append(hang_up)
    with anyio.open_signal_receiver(*heard) as signals:
        count = 0
        async for number in signals:
            stream.cancel()
            count += 1
            if count == 2:
                signal.signal(number, signal.SIG_DFL)
