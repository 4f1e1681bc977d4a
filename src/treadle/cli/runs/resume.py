"""`treadle runs resume`: goes on with a run whose process died, or that waits for a person. Entry:

`resume`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import click

from treadle.cli.help import HELP
from treadle.cli.run_options import ON_UNKNOWN
from treadle.cli.runs.answers import answers
from treadle.cli.runs.driving import (
    Drive,
    OpenedRun,
    code_of,
    drive_options,
    driven,
    end_of,
    output_options,
)
from treadle.cli.runs.finding import run_argument
from treadle.cli.runs.imported import answers_for
from treadle.loop.recovery import OnUnknown
from treadle.messages.events import RunEnd
from treadle.runtime.children import until_idle
from treadle.types import Limits


@click.command(context_settings=HELP)
@run_argument
@click.option(
    "--approve",
    metavar="CALL",
    multiple=True,
    help="This call may run; repeatable. One that had begun is run again.",
)
@click.option(
    "--deny",
    metavar="CALL[=REASON]",
    multiple=True,
    help="This call may not run, and the model is told so; repeatable.",
)
@click.option(
    "--result",
    metavar="CALL=TEXT",
    multiple=True,
    help="What this call gave, where you found out; it is not run; repeatable.",
)
@click.option("--on-unknown", type=click.Choice(get_args(OnUnknown)), help=ON_UNKNOWN)
@click.option(
    "--wait", is_flag=True, help="Wait while another process drives the run, or its lease lasts."
)
@drive_options
@output_options
def resume(
    approve: tuple[str, ...],
    deny: tuple[str, ...],
    result: tuple[str, ...],
    on_unknown: OnUnknown | None,
    wait: bool,
    **rest: Any,
) -> None:
    """Go on with a run that was stopped, or that waits for a person. Its mode, directory and model
    stay, unless told otherwise.

    A call that has its result is not run again. One that was running is, where that does no harm;
    of any other the model is told that nobody knows whether it took effect, or what --on-unknown
    says. A finished run is left alone, and its result is printed.

    CALL is the id of a call, which the run told when it began to wait; without an answer the run
    waits on, and tells it again.

    Of an imported run each open call is shown with the arguments that would run, and asked about;
    without a terminal it waits on.

    Exits as `treadle run` does: with 4 where the run waits for a person, and says for what.
    """
    drive = Drive(**rest)
    options: dict[str, Any] = drive.options()
    if on_unknown is not None:
        options["on_unknown"] = on_unknown
    if drive.timeout is not None:
        options["limits"] = Limits(seconds=drive.timeout)

    async def work(opened: OpenedRun) -> int:
        if wait and opened.info.status == "running":
            opened.warn(f"waiting until no other process drives run {opened.info.run_id}")
            opened = replace(
                opened, info=await until_idle(opened.runtime.journal, opened.info.run_id)
            )
        if approve or deny or result:
            calls = (await opened.runtime.journal.load(opened.info.run_id)).context.call_ids
            options.update(answers(calls, approve=approve, deny=deny, result=result))
        elif opened.info.imported is not None and opened.info.status not in ("finished", "running"):
            if (said := await _asked(opened)) is None:
                return await _waits(opened)
            options.update(said)
        match opened.info.status:
            case "finished":
                return await _finished(opened)
            case "waiting" if not options:
                return await _waits(opened)
            case _:
                return await opened.followed(
                    opened.runtime.resume_stream(opened.info.run_id, opened.agent(), **options)
                )

    driven(drive, work)


async def _asked(opened: OpenedRun) -> dict[str, Any] | None:
    """Answers to the calls of an imported run; empty if none is open, None if they cannot be asked
    for.
    """
    state = await opened.runtime.journal.load(opened.info.run_id)
    return answers_for(state, opened.runtime.redact) if state.approvals.asked else {}


async def _finished(opened: OpenedRun) -> int:
    run_id = opened.info.run_id
    opened.warn(f"run {run_id} is finished: nothing is done, this is its result")
    events = await opened.runtime.events(run_id)
    opened.print([event for event in events if isinstance(event, RunEnd)])
    return code_of(await opened.runtime.replay(run_id))


async def _waits(opened: OpenedRun) -> int:
    """Nobody said anything new: it goes on waiting, and stays as it is."""
    result = await opened.runtime.replay(opened.info.run_id)
    opened.print([end_of(result)])
    await opened.tell_next_steps(opened.info.run_id)
    return code_of(result)
