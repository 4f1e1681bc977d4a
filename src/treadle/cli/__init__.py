"""The `treadle` command line.

Each command lives in its own module, which is imported when the command is called. Entry points:
`main`.

    agent_of_run.py     selects the agent that resumes a run
    agent_option.py     `--agent`, `--input` and `--output-schema`
    agents.py           `treadle agents`
    app.py              the root command and its subcommands
    asked_call.py       complete text of a call that needs approval
    chat.py             `treadle chat`
    command_group.py    command group that imports its commands lazily
    completion.py       `treadle completion`
    config.py           `treadle config show | path | check | set`
    database_option.py  `--database`
    demo.py             `treadle demo`
    demo_crash.py       second half of the demo: kill -9 and resume
    demo_view.py        live view of a run in the demo
    doctor.py           `treadle doctor`
    doctor_journal.py   journal checks of `treadle doctor`
    doctor_plugins.py   plug-in checks of `treadle doctor`
    doctor_sandbox.py   sandbox checks of `treadle doctor`
    doctor_servers.py   MCP server checks of `treadle doctor`
    echo.py             sanitised output for people
    exits.py            exit codes and command failures
    help.py             help settings shared by all commands
    init.py             `treadle init`
    input.py            the prompt of a run and its attachments
    journal_option.py   `--journal`
    logs.py             logging of long-running processes to standard error
    mcp.py              `treadle mcp`
    models.py           `treadle models`
    next_steps.py       commands suggested after a run that did not complete
    output_file.py      the file that `-o` names
    policy.py           `treadle policy check`
    render.py           text output of a run
    response_notes.py   notes below a response in `runs show`
    run.py              `treadle run`
    run_detached.py     `treadle run --detach`
    run_options.py      options of every command that runs an agent
    run_request.py      values of one `treadle run` and the session that it continues
    serve.py            `treadle serve`
    sessions.py         `treadle sessions …`
    session_view.py     a conversation as text
    session_lookup.py   selects a session by id, prefix or `last`
    story.py            a run's entries in reading order
    task_model.py       model of the task assistant
    tasks.py            `treadle tasks`
    tasks_chat.py       chat of `treadle tasks`
    tasks_mcp.py        `treadle tasks mcp`
    terminal.py         tables, colours and JSON on standard output
    timeline.py         the timeline of a run
    timeline_calls.py   tool calls in the timeline
    timeline_layout.py  layout of the timeline
    tools.py            `treadle tools`
    tools_accept.py     `treadle tools accept`
    trust.py            `treadle trust`
    trust_contents.py   descriptions of agents, skills and commands in `treadle trust`
    work.py             `treadle work`
    work_batch.py       starts or continues a batch, follows it and reports
    work_report.py      report of a batch as text
    work_table.py       live table of a batch
    work_terms.py       terms of a batch, from the options
    worker.py           `treadle worker`
    worker_agents.py    agents and directories that a worker may drive runs in
    worker_lines.py     log lines and counters of `treadle worker`
    runs/               `treadle runs …`
    stream_schema/      JSON Schemas of the stream output
"""

from __future__ import annotations

import gc
import os
import sys

_YOUNG_OBJECTS = 20_000
"""Number of new objects that triggers a garbage collection. Imports create many objects and no
garbage: with Python's 700, a tenth of the start is spent on collections.
"""
_EXTRA = frozenset(
    {"click", "markdown_it", "pathspec", "prompt_toolkit", "pygments", "rich", "tree_sitter"}
)
"""Packages of the extra `cli` that commands import."""


def main() -> None:
    """Run one command and exit with its code: 0 done, 1 error, 2 usage, 3 limit, 4 approval needed,
    75 retry later, 130 cancelled.
    """
    # Before any import: scripts ask for the version often.
    if sys.argv[1:] in (["--version"], ["-V"]):
        from treadle import __version__  # noqa: PLC0415  the cheapest import there is

        print(f"treadle {__version__}")
        return
    gc.set_threshold(_YOUNG_OBJECTS)
    _open_closed_streams()
    try:
        from treadle.cli.app import app  # noqa: PLC0415  click costs 35 ms

        sys.exit(app(prog_name="treadle", standalone_mode=False))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except ModuleNotFoundError as e:
        if (e.name or "").partition(".")[0] not in _EXTRA:
            raise
        sys.stderr.write(
            f"treadle: the command line needs {e.name}, which is not installed: pip install "
            "'treadle[cli]'\n"
        )
        sys.exit(1)
    except Exception as e:  # noqa: BLE001  the edge of the program: one sentence for users, a traceback on request
        sys.exit(_told(e))
    finally:
        # After a KeyboardInterrupt in code compiled from a string, as a dataclass's is, Python ends
        # by SIGINT whatever the exit code, unless such code runs once more.
        exec("")


def _open_closed_streams() -> None:
    """Replace closed standard streams with the null device, so that no other file gets their
    descriptors.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  as long as the process


def _told(error: Exception) -> int:
    """Report the error without secrets and return the exit code."""
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
