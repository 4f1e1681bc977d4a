"""`treadle runs import`: imports an exported run as data. The format is defined in lines.py. Entry
points: `import_`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import click

from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import plain
from treadle._internal.units import count
from treadle.cli.echo import echo
from treadle.cli.exits import CommandFailed, failing
from treadle.cli.help import HELP
from treadle.cli.journal_option import journal_option, journal_url
from treadle.cli.runs.lines import read_lines
from treadle.cli.runs.row import row_of, status_of
from treadle.cli.runs.signing import is_ours, unsigned
from treadle.cli.terminal import put, put_json
from treadle.config import Config, home, load
from treadle.config.keys import STAND_INS
from treadle.errors import AgentError
from treadle.journal import open_journal
from treadle.journal.entries import RunStarted
from treadle.journal.importing import Importer, as_data
from treadle.journal.journal import Journal, RunInfo, read_run
from treadle.types import new_id


@click.command("import", context_settings=HELP)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="As JSON: the run as `runs list` has it.")
@journal_option
def import_(file: Path, as_json: bool, journal: str | None) -> None:
    """Import a run that `runs export` wrote, here or elsewhere. FILE - is standard input. If a line
    is broken, nothing is imported.

    The run is imported as data: it gets a new session, your mode, this directory and, in place of a
    model that is a file, your default model. Approvals in the file do not count; calls without a
    result wait for your answer. A file that `runs export --sign` wrote on this installation is
    restored unchanged.
    """
    with failing():
        config = load()
        name = "standard input" if str(file) == "-" else str(file)
        lines, signature = unsigned(_read(file))
        entries = read_lines(lines, name)
        ours = signature is not None and is_ours(lines, signature, home(os.environ))
        if signature is not None and not ours:
            echo(
                (
                    f"! {plain(name)}: the signature is not this installation's, so the run is "
                    "imported as data"
                ),
                err=True,
            )
        info = anyio.run(_add, config, journal_url(config, journal), entries, ours)
    if as_json:
        secrets = Redactor(config.secrets())
        put_json(row_of(info, secrets), secrets)
    else:
        put(
            (
                f"{info.run_id}: {status_of(info)}, "
                f"{count(info.entries, 'entry').replace('entrys', 'entries')}"
            )
            + ("" if ours else ", imported as data")
        )


def _read(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as e:
        raise CommandFailed(f"{str(file)!r} cannot be read: {e.strerror or e}") from e


async def _add(config: Config, url: str, entries: list[bytes], ours: bool) -> RunInfo:
    journal = open_journal(url)
    try:
        return await journal.add_run(entries if ours else await _harmless(config, journal, entries))
    finally:
        await journal.aclose()


async def _harmless(config: Config, journal: Journal, entries: list[bytes]) -> list[bytes]:
    """Return the run's entries without their authority.

    Raises AgentError(invalid) for a fork of a run that was not imported.
    """
    read = read_run(entries)
    started = read[0]
    assert isinstance(started, RunStarted), "read_run checks it"
    if started.fork is not None and await _is_local(journal, started.fork.run_id):
        origin = started.fork.run_id
        raise AgentError(
            "invalid",
            (
                f"run {started.run_id} claims to be a fork of your own run {origin}: only a signed "
                "export may build on one"
            ),
        )
    parent = started.parent_run_id
    importer = Importer(
        mode=config.defaults.mode,
        cwd=str(Path.cwd()),
        model=config.models.large,
        file_models=STAND_INS,
        session_id=new_id("session"),
        keeps_parent=parent is not None and await _is_local(journal, parent) is False,
    )
    return [entry.to_json() for entry in as_data(read, importer)]


async def _is_local(journal: Journal, run_id: str) -> bool | None:
    """Return False for an imported run, None for one that is not in the journal."""
    try:
        return (await journal.info(run_id)).imported is None
    except AgentError:
        return None
