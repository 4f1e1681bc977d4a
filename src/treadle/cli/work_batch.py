"""Starting or resuming a batch, following it and printing its report.

The options are defined in work.py, the terms in work_terms.py. Entry points: `worked`.
"""

from __future__ import annotations

import hashlib
import shlex
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import anyio
import msgspec

from treadle._internal.json_text import encode_json
from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import plain
from treadle.apps.batch.crew import Crew, begin
from treadle.apps.batch.logbook import Logbook, find_batch
from treadle.apps.batch.markdown import markdown
from treadle.apps.batch.prompts import lines_of, prompts_of
from treadle.apps.batch.report import Report
from treadle.cli.agent_option import module_hooks
from treadle.cli.echo import echo
from treadle.cli.exits import CommandFailed
from treadle.cli.input import STDIN_BYTES_MAX, attachments
from treadle.cli.journal_option import journal_file, journal_url, open_runtime, shown_url
from treadle.cli.next_steps import next_steps
from treadle.cli.run_options import configured
from treadle.cli.terminal import put_bytes
from treadle.cli.work_report import as_text
from treadle.cli.work_table import display
from treadle.cli.work_terms import BatchRequest, allowed_before, changed_terms, new_terms
from treadle.config import Config
from treadle.errors import AgentError
from treadle.runtime.runtime import Runtime


async def worked(wish: BatchRequest, out: IO[bytes] | None) -> Report:
    """Run a batch and return its report. Raises CommandFailed and AgentError for errors before the
    first run.
    """
    options = wish.options
    prompts = [] if options["batch"] is not None else _prompts(options)
    shelf, resumed = _shelf(configured(options, cwd=options["cwd"]), options["journal"]), None
    if options["batch"] is not None:
        resumed = Logbook.open(shelf, find_batch(shelf, options["batch"]))
        options = allowed_before(options, resumed.batch.terms)
    config = configured(options, cwd=options["cwd"] if resumed is None else _there(resumed))
    secrets = Redactor(config.secrets())
    async with (
        open_runtime(
            config,
            journal_url(config, options["journal"]),
            hooks=module_hooks(config),
            unattended=True,
        ) as runtime,
        display(secrets, quiet=options["quiet"], verbose=options["verbose"]) as watcher,
    ):
        for warning in config.warnings:
            watcher.warns(warning)
        if resumed is None:
            terms = new_terms(config, options)
            attached = attachments(terms.attached, config, options["cwd"])
            logbook = await begin(shelf, prompts, terms, secrets=config.secrets(), watcher=watcher)
        else:
            logbook, attached = (
                resumed,
                attachments(resumed.batch.terms.attached, config, _there(resumed)),
            )
            if (
                terms := changed_terms(resumed.batch.terms, config, options, wish)
            ) != resumed.batch.terms:
                await logbook.resume_on(terms)
        async with logbook:
            watcher.begins(logbook.batch, done=list(logbook.rows.values()))
            report = await _followed(
                Crew(logbook, runtime, watcher, attached), logbook, is_new=resumed is None
            )
        _print(report, options["output"], secrets, out)
        if not options["quiet"]:
            await _tell_next_steps(runtime, report, options["journal"])
    return report


async def detached(wish: BatchRequest) -> tuple[str, int]:
    """Start a batch whose runs are queued. Return its id and the number of runs.

    Raises CommandFailed and AgentError.
    """
    options = wish.options
    prompts, config = _prompts(options), configured(options, cwd=options["cwd"])
    shelf, secrets = _shelf(config, options["journal"]), Redactor(config.secrets())
    async with (
        open_runtime(
            config, journal_url(config, options["journal"]), hooks=module_hooks(config)
        ) as runtime,
        display(secrets, quiet=options["quiet"], verbose=False) as watcher,
    ):
        for warning in config.warnings:
            watcher.warns(warning)
        terms = new_terms(config, options)
        logbook = await begin(shelf, prompts, terms, secrets=config.secrets(), watcher=watcher)
        async with logbook:
            watcher.begins(logbook.batch, done=[])
            crew = Crew(
                logbook, runtime, watcher, attachments(terms.attached, config, options["cwd"])
            )
            try:
                await crew.detach()
            except AgentError:
                if not crew.has_runs:
                    logbook.discard()
                raise
    return logbook.batch.id, len(prompts)


def resume_command(batch: str, journal: str | None) -> str:
    return shlex.join(
        ["treadle", "work", "--resume", batch, *(() if journal is None else ("--journal", journal))]
    )


async def _followed(crew: Crew, logbook: Logbook, *, is_new: bool) -> Report:
    wrong: AgentError | None = None
    report: Report | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(_stop_on_signals, crew)
        try:
            report = await crew.work()
        except AgentError as e:
            wrong = e
        group.cancel_scope.cancel()
    if report is not None:
        return report
    assert wrong is not None, "there is a report, or a reason why there is none"
    if is_new and not crew.has_runs:
        logbook.discard()
    raise wrong


async def _stop_on_signals(crew: Crew) -> None:
    """Cancel active runs on the first signal, and end the process immediately on the third."""
    heard = [signal.SIGINT, signal.SIGTERM]
    if (
        signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    ):  # a signal that nohup ignores stays ignored
        heard.append(signal.SIGHUP)
    with anyio.open_signal_receiver(*heard) as signals:
        count = 0
        async for number in signals:
            crew.stop()
            count += 1
            if count == 2:
                signal.signal(number, signal.SIG_DFL)


# ---------------------------------------------------------------- options


def _prompts(options: dict[str, Any]) -> list[str]:
    """Return the prompts of the arguments, then those of `--from`. Raises CommandFailed and
    AgentError(invalid).
    """
    prompts = [prompt for prompt in options["prompts"] if prompt.strip()]
    if len(prompts) < len(options["prompts"]):
        raise CommandFailed("a PROMPT is empty: describe the task")
    source: str | None = options["source"]
    if source == "-":
        data = sys.stdin.buffer.read(STDIN_BYTES_MAX + 1)
        if len(data) > STDIN_BYTES_MAX:
            raise CommandFailed(
                f"standard input is larger than {STDIN_BYTES_MAX // 1024 // 1024} MiB"
            )
        prompts += lines_of(data.decode("utf-8", "replace"))
    elif source is not None:
        prompts += prompts_of(Path(source))
    if not prompts:
        said = f"there is no prompt in {source!r}" if source else "there is no prompt"
        raise CommandFailed(
            f'{said}: treadle work "what to do" "what else", or --from with a file of lines, a '
            "folder of files, or - for standard input"
        )
    return prompts


def _shelf(config: Config, journal: str | None) -> Path:
    """Return the folder that holds the batches: next to a journal file, or on this machine for a
    journal on a server.
    """
    file = journal_file(url := journal_url(config, journal))
    if file is None and config.home is not None and url != "memory:":
        return Path(config.home) / "work" / hashlib.sha256(shown_url(url).encode()).hexdigest()[:16]
    if file is None:
        raise CommandFailed(
            f"--journal {shown_url(url)!r}: a batch must be stored to be resumable; use "
            "sqlite:///FILE or postgresql://…"
        )
    return file.with_name(f"{file.name}-work")


def _there(logbook: Logbook) -> Path:
    """Return the folder in which the batch was started."""
    folder = Path(logbook.batch.terms.cwd)
    if not folder.is_dir():
        raise CommandFailed(
            f"the folder {str(folder)!r} of the batch {logbook.batch.id} no longer exists"
        )
    return folder


# ---------------------------------------------------------------- output


def _print(report: Report, output: str, secrets: Redactor, out: IO[bytes] | None) -> None:
    match output:
        case "json":
            data = msgspec.json.format(encode_json(secrets.inside(report)), indent=2) + b"\n"
        case "markdown":
            data = secrets.exact(markdown(report)).encode("utf-8", "replace")
        case _:
            data = secrets.exact(as_text(report, to_file=out is not None)).encode(
                "utf-8", "replace"
            )
    if out is None:
        put_bytes(data)
    else:
        out.write(data)


async def _tell_next_steps(runtime: Runtime, report: Report, journal: str | None) -> None:
    for row in report.rows:
        if row.run_id is None:
            continue
        with suppress(AgentError):
            state = await runtime.journal.load(row.run_id)
            if state.approvals.asked:
                for line in await next_steps(runtime.journal, state, journal=journal):
                    echo(plain(runtime.redact(line)), err=True)
    if report.pending:
        echo(plain(runtime.redact(f"{resume_command(report.id, journal)} continues it")), err=True)
