"""`treadle work`: runs a batch of prompts unattended and prints a report. Entry points: `work`.

The batch is started in work_batch.py.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import click
from click.core import ParameterSource

from treadle._internal.units import count
from treadle.apps.batch.batch import GATE_TIMEOUT_S
from treadle.cli.agent_option import agent_options
from treadle.cli.echo import echo
from treadle.cli.exits import CommandFailed, failing
from treadle.cli.help import HELP
from treadle.cli.output_file import OutputFile
from treadle.cli.run_options import check_directory, finite, run_options
from treadle.cli.terminal import put

if TYPE_CHECKING:
    from treadle.cli.work_terms import BatchRequest

OF_A_BATCH = {
    "prompts": "PROMPT",
    "source": "--from",
    "worktree": "--worktree",
    "cwd": "--cwd",
    "attached": "--file",
    "agent": "--agent",
    "inputs": "--input",
    "output_schema": "--output-schema",
}
"""Options that are fixed when a batch starts."""


def _check_workers(options: dict[str, Any]) -> None:
    """Raise CommandFailed for options that apply only where runs are driven, and for options that
    need workers.
    """
    by_workers = options["workers"] or options["detach"]
    if options["queue"] is not None and not by_workers:
        raise CommandFailed("--queue is for runs that workers drive: add --workers")
    for name, flag in (
        ("allow", "--allow"),
        ("network", "--network"),
        ("no_sandbox", "--no-sandbox"),
    ):
        if options[name] and by_workers:
            raise CommandFailed(
                f"{flag} applies where the runs are driven: pass it to `treadle worker`"
            )
    if options["detach"]:
        for name, flag in (("batch", "--resume"), ("output_file", "-o")):
            if options[name]:
                raise CommandFailed(
                    f"--detach only queues a new batch, so it cannot be used with {flag}: leave "
                    "one of them out"
                )
        if options["output"] != "text":
            raise CommandFailed(
                "--detach ends before there is a report: leave out --output, and give it to "
                "--resume ID"
            )


@click.command(context_settings=HELP)
@click.argument("prompts", metavar="[PROMPT]...", nargs=-1)
@click.option(
    "--from",
    "source",
    metavar="FILE|DIR|-",
    help=(
        "Read prompts: each line of a file or of standard input (-) is one, or each file of a "
        "folder."
    ),
)
@click.option(
    "--worktree",
    is_flag=True,
    help="Run each prompt in its own git worktree, on a branch treadle/ID from HEAD.",
)
@click.option(
    "--gate",
    "gates",
    metavar="COMMAND",
    multiple=True,
    help=(
        'A command that must exit with 0 after a prompt completed, like "make test"; '
        "repeatable, in order."
    ),
)
@click.option(
    "--gate-timeout",
    type=click.FloatRange(0, min_open=True),
    callback=finite,
    default=GATE_TIMEOUT_S,
    metavar="SECONDS",
    help="Maximum duration of each gate. Default: 1800.",
)
@click.option(
    "--retries",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="Number of further attempts if a run or a gate fails.",
)
@click.option(
    "--parallel",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of prompts run at the same time.",
)
@click.option(
    "--workers",
    is_flag=True,
    help=(
        "Put the runs into a queue for `treadle worker`; this process waits, runs the gates and "
        "reports."
    ),
)
@click.option(
    "--queue",
    metavar="NAME",
    help="With --workers or --detach: into this queue. Default: `default`.",
)
@click.option(
    "--detach",
    is_flag=True,
    help=(
        "Queue the runs, print the id of the batch, and exit: --resume ID waits, runs the gates "
        "and reports."
    ),
)
@click.option(
    "--resume",
    "batch",
    metavar="ID",
    help="Continue a batch that was stopped: its id, the beginning of it, or `last`.",
)
@agent_options
@run_options
@click.option(
    "--output",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="How the report is printed.",
)
@click.option(
    "-o",
    "output_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the report to FILE instead of standard output.",
)
@click.option("-q", "quiet", is_flag=True, help="Only the report, without progress and warnings.")
@click.option("-v", "verbose", is_flag=True, help="Also a line for each tool call.")
@click.pass_context
def work(ctx: click.Context, **options: Any) -> None:
    """Run a batch of prompts and report the result of each.

    Each prompt is a separate conversation. After its run has completed, gates check the result:
    commands that run in the same folder. If one fails and --retries allows it, the model gets its
    output and tries again. Limits apply to one prompt with all its attempts; the batch has none.

    The defaults are those of an empty configuration; `treadle config show` prints yours.

    With --workers, each worker needs access to the same folders, so the same machine or file
    system, and its own rules and keys.

    A batch that was stopped or killed continues with --resume: finished prompts stay finished,
    interrupted runs continue.

    Exits with 0 when all prompts completed and passed their gates, 1 when one did not, 2 on a usage
    error, 130 when stopped.
    """
    from treadle.cli.work_batch import worked  # noqa: PLC0415  brings the runtime, which --help does not need
    from treadle.cli.work_terms import BatchRequest  # noqa: PLC0415  as above

    wish = BatchRequest(
        options=options,
        given=frozenset(
            name
            for name in options
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        ),
    )
    check_directory(options["cwd"])
    if options["batch"] is not None and (
        settled := [OF_A_BATCH[name] for name in OF_A_BATCH if wish.said(name)]
    ):
        raise CommandFailed(
            "--resume continues a batch with its original options, so it cannot be used with "
            f"{settled[0]}: leave one of them out"
        )
    _check_workers(options)
    if options["detach"]:
        _detach(wish)
        return
    with (
        failing(),
        OutputFile(options["output_file"]) if options["output_file"] else nullcontext() as out,
    ):
        report = anyio.run(worked, wish, out)
        if out is not None:
            out.finish()
    sys.exit(130 if report.stopped else 0 if report.passed else 1)


def _detach(wish: BatchRequest) -> None:
    from treadle.cli.work_batch import detached, resume_command  # noqa: PLC0415  as in work

    with failing():
        batch, runs = anyio.run(detached, wish)
    put(batch)
    if not wish.options["quiet"]:
        echo(
            (
                f"{count(runs, 'run')} queued; {resume_command(batch, wish.options['journal'])} "
                "waits for them, runs the gates and reports"
            ),
            err=True,
        )
