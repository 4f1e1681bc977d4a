"""`treadle runs resume`: continues a run whose process died or that waits for a person. Entry
points: `resume`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import click

from treadle.cli.help import HELP
from treadle.cli.run_options import ON_UNKNOWN
from treadle.cli.runs.answers import answer_options, answers
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
from treadle.runtime.closing_runs import until_idle, waiting_for
from treadle.types import Limits


@click.command(context_settings=HELP)
@run_argument
@answer_options
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
    """Continue a run that was stopped or that waits for a person. Its mode, directory and model
    stay the same unless options change them.

    A call that has a result is not run again. An interrupted call is run again if that is safe; for
    any other, the model gets the result `unknown`, or --on-unknown applies. A finished run is left
    alone, and its result is printed.

    CALL is the id of a call, which the run printed when it began to wait; without an answer the run
    keeps waiting and prints it again.

    For an imported run, each open call is shown with its arguments and needs your answer; without a
    terminal the run keeps waiting.

    Exits as `treadle run` does: with 4 if the run waits for a person, and prints what it waits for.
    """
    drive = Drive(**rest)
    options = _options(drive, on_unknown)

    async def work(opened: OpenedRun) -> int:
        if wait and opened.info.status == "running":
            opened.warn(waiting_for(opened.info))
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


def _options(drive: Drive, on_unknown: OnUnknown | None) -> dict[str, Any]:
    options: dict[str, Any] = drive.options()
    if on_unknown is not None:
        options["on_unknown"] = on_unknown
    if drive.timeout is not None:
        options["limits"] = Limits(seconds=drive.timeout)
    return options


async def _asked(opened: OpenedRun) -> dict[str, Any] | None:
    """Return answers to the calls of an imported run: empty if none is open, None if there is no
    terminal to ask on.
    """
    state = await opened.runtime.journal.load(opened.info.run_id)
    return answers_for(state, opened.runtime.redact) if state.approvals.asked else {}


async def _finished(opened: OpenedRun) -> int:
    run_id = opened.info.run_id
    opened.warn(f"run {run_id} has already finished; this is its result")
    events = await opened.runtime.events(run_id)
    opened.print([event for event in events if isinstance(event, RunEnd)])
    return code_of(await opened.runtime.replay(run_id))


async def _waits(opened: OpenedRun) -> int:
    """Report a run that still waits. Changes nothing."""
    result = await opened.runtime.replay(opened.info.run_id)
    opened.print([end_of(result)])
    await opened.tell_next_steps(opened.info.run_id)
    return code_of(result)
