"""`treadle runs import`: takes in a run that was exported elsewhere. What a line holds is lines.py's. Entry: `import_`."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import click

from treadle.cli.exits import Failed, failing
from treadle.cli.help import HELP
from treadle.cli.journal_option import journal_option, journal_url
from treadle.cli.runs.lines import read_lines
from treadle.cli.runs.row import row_of, status_of
from treadle.cli.terminal import put, put_json
from treadle.config import load
from treadle.journal import RunInfo
from treadle.journals import open_journal
from treadle.redaction import Redactor
from treadle.units import count


@click.command("import", context_settings=HELP)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="As JSON: the run as `runs list` has it.")
@journal_option
def import_(file: Path, as_json: bool, journal: str | None) -> None:
    """Take in a run that `runs export` gave, here or elsewhere. FILE - is standard input. Where a line is broken, nothing is taken in.

    One that was not finished can be resumed here, in its directory or in another one.
    """
    with failing():
        config = load()
        entries = read_lines(_read(file), "standard input" if str(file) == "-" else str(file))
        info = anyio.run(_add, journal_url(config, journal), entries)
    if as_json:
        secrets = Redactor(config.secrets())
        put_json(row_of(info, secrets), secrets)
    else:
        put(f"{info.run_id}: {status_of(info)}, {count(info.entries, 'entry').replace('entrys', 'entries')}")


def _read(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as e:
        raise Failed(f"{str(file)!r} cannot be read: {e.strerror or e}") from e


async def _add(url: str, entries: list[bytes]) -> RunInfo:
    journal = open_journal(url)
    try:
        return await journal.add_run(entries)
    finally:
        await journal.aclose()
