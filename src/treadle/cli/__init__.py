"""The command line: `treadle`.

Commands live in modules of their own and are loaded when they are called. Entry: `main`.

    agent_of_run.py     which agent goes on with a run
    agent_option.py     which agent a command runs
    agents.py           `treadle agents`
    app.py              the tree of commands, and how errors reach a person
    asked_call.py       A call that waits for an answer, whole
    chat.py             `treadle chat`
    commands.py         A group of commands that imports each of them only when it is called
    completion.py       `treadle completion`
    config.py           `treadle config show | path | check | set`
    database_option.py  which database of users' rows a command works
    demo.py             `treadle demo`
    demo_crash.py       the demo's second half
    demo_view.py        how the demo shows a run, while it runs
    doctor.py           `treadle doctor`
    doctor_journal.py   whether the journal can be had, and what it needs
    doctor_sandbox.py   what `treadle doctor` says of the sandbox
    doctor_servers.py   whether the configured MCP servers can be had
    echo.py             the one way in which a command writes lines for a person
    exits.py            exit codes, and the one way in which a command fails
    help.py             how every command shows its help, whether it is called through `treadle`
    init.py             `treadle init`
    input.py            the prompt of a run
    journal_option.py   which journal a command works
    logs.py             what goes wrong in a process that runs for long, on standard error
    mcp.py              `treadle mcp`
    models.py           `treadle models`
    next_steps.py       what a person can type after a run that did not complete
    output_file.py      FILE of `-o`
    policy.py           `treadle policy check`
    render.py           how a run looks on the command line
    response_notes.py   what stands under a response in `runs show`
    run.py              `treadle run`
    run_detached.py     `treadle run --detach`
    run_options.py      what can be said of a run on the command line
    serve.py            `treadle serve`
    sessions.py         `treadle sessions …`
    story.py            what happened in a run, in the order in which a person reads
    task_model.py       which model the task assistant asks
    tasks.py            `treadle tasks`
    tasks_chat.py       what `treadle tasks` does with messages
    tasks_mcp.py        `treadle tasks mcp`
    terminal.py         text on stdout that is no answer of a model
    timeline.py         the timeline of a run
    tools.py            `treadle tools`
    tools_accept.py     `treadle tools accept`
    trust.py            `treadle trust`
    trust_contents.py   the lines with which `treadle trust` describes an agent, a skill, a command
    work.py             `treadle work`
    work_batch.py       begins a batch or goes on with one, follows it, and tells what came
    work_table.py       how a batch looks
    worker.py           `treadle worker`
    worker_agents.py    which agent of which files drives a run that a worker was given
    worker_lines.py     what `treadle worker` says on standard error, and what it counts of its runs
    runs/               `treadle runs …`
    stream_schema/      the JSON Schemas that ship beside this file

    run_request.py  the values of one `treadle run`, and the conversation that it continues
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Runs one command and exits with the codes of the manual: 0 done, 1 error, 2 usage, 3 limit, 4
    approval, 75 later, 130 stopped.
    """
    # before anything is imported: it is asked by scripts, often
    if sys.argv[1:] in (["--version"], ["-V"]):
        from treadle import __version__  # noqa: PLC0415  the cheapest import there is

        print(f"treadle {__version__}")
        return
    _open_closed_streams()
    try:
        from treadle.cli.app import app  # noqa: PLC0415  click costs 35 ms

        sys.exit(app(prog_name="treadle", standalone_mode=False))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # whoever read our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as e:  # noqa: BLE001  the edge of the program: a person is told in a sentence, a developer asks for more
        sys.exit(_told(e))


def _open_closed_streams() -> None:
    """A closed stream is as good as an empty one, and no other file takes its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  as long as the process


def _told(error: Exception) -> int:
    """Says what went wrong, without anything secret; gives the exit code."""
    import io  # noqa: PLC0415  here and below: only where something went wrong

    import click  # noqa: PLC0415

    from treadle.cli.exits import CommandFailed, clean  # noqa: PLC0415

    code, text = 1, io.StringIO()
    if isinstance(error, click.Abort):
        text.write("Aborted!\n")
    elif isinstance(error, click.ClickException):
        code = error.code if isinstance(error, CommandFailed) else error.exit_code
        error.show(text)
    elif os.environ.get("TREADLE_TRACEBACK"):
        import traceback  # noqa: PLC0415

        traceback.print_exception(error, file=text)
    else:
        text.write(
            f"treadle: this is a bug in Treadle: {type(error).__name__}: {error}\n  Set "
            "TREADLE_TRACEBACK=1 to see where, and please report it.\n"
        )
    click.echo(clean(text.getvalue()), err=True, nl=False)
    return code
