"""`treadle runs import`: imports an exported run as data. The format is defined in lines.py. Entry
points: `import_`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import click

from treadle._internal.json_text import decode_json, encode_json
from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import plain, revealed_line
from treadle._internal.units import count
from treadle.cli.agent_option import ASSISTANT, defined_agent, typed_inputs
from treadle.cli.echo import echo
from treadle.cli.exits import CommandFailed, failing
from treadle.cli.help import HELP
from treadle.cli.journal_option import journal_option, journal_url
from treadle.cli.runs.lines import lines_of, read_lines
from treadle.cli.runs.row import row_of, status_of
from treadle.cli.runs.signing import Unsigned
from treadle.cli.terminal import put, put_json
from treadle.config import Config, home, load
from treadle.config.keys import STAND_INS
from treadle.errors import AgentError
from treadle.journal import open_journal
from treadle.journal.entries import Entry, RunFinished, RunStarted
from treadle.journal.importing import Importer, as_data
from treadle.journal.journal import Journal, read_run
from treadle.journal.run_info import RunInfo
from treadle.types import new_id

if TYPE_CHECKING:
    from treadle.agents.templates import Input


@click.command("import", context_settings=HELP)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--input",
    "inputs",
    metavar="K=V",
    multiple=True,
    help="An input for the continued run, as for `treadle run`; repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="As JSON: the run as `runs list` has it.")
@journal_option
def import_(file: Path, inputs: tuple[str, ...], as_json: bool, journal: str | None) -> None:
    """Import a run that `runs export` wrote, here or elsewhere. FILE - is standard input. If a line
    is broken, nothing is imported.

    The run is imported as data: it gets a new session, your mode, this directory and, in place of a
    model that is a file, your default model. Approvals in the file do not count; calls without a
    result wait for your answer. Inputs in the file are ignored too, because they would be part of
    the system prompt: an unfinished run with inputs needs --input for each. A file that `runs
    export --sign` wrote on this installation is restored unchanged.
    """
    with failing():
        config = load()
        name = "standard input" if str(file) == "-" else str(file)
        entries, unsigned = _read(file, name)
        ours = unsigned.is_ours
        if unsigned.is_signed and not ours:
            echo(
                (
                    f"! {plain(name)}: the signature was not made by this installation, so the "
                    "run is imported as data"
                ),
                err=True,
            )
        try:
            info = anyio.run(_add, config, journal_url(config, journal), entries, ours, inputs)
        except AgentError as e:
            if e.kind != "invalid":
                raise
            raise CommandFailed(f"{plain(name)}: {e.message}") from e
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


def _read(file: Path, name: str) -> tuple[list[bytes], Unsigned]:
    """Read an export. Return its entries, and its signed lines, which know whether the signature is
    valid.
    """
    try:
        with nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb") as stream:
            unsigned = Unsigned(lines_of(stream), home(os.environ))
            return read_lines(unsigned, name), unsigned
    except OSError as e:
        raise CommandFailed(f"cannot read {str(file)!r}: {e.strerror or e}") from e


async def _add(
    config: Config, url: str, entries: list[bytes], ours: bool, inputs: tuple[str, ...]
) -> RunInfo:
    if ours and inputs:
        raise CommandFailed(
            "a signed export is restored unchanged: leave out --input, which is for runs that are "
            "imported as data"
        )
    journal = open_journal(url)
    try:
        return await journal.add_run(
            entries if ours else await _harmless(config, journal, entries, inputs)
        )
    finally:
        await journal.aclose()


async def _harmless(
    config: Config, journal: Journal, entries: list[bytes], inputs: tuple[str, ...]
) -> list[bytes]:
    """Return the run's entries without their authority.

    Raises AgentError(invalid) for a fork of a run that was not imported, CommandFailed for wrong or
    missing inputs.
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
        limits=config.limits,
        session_id=new_id("session"),
        inputs=_inputs(config, read, inputs),
        keeps_parent=parent is not None and await _is_local(journal, parent) is False,
    )
    return [entry.to_json() for entry in as_data(read, importer)]


def _inputs(config: Config, read: Sequence[Entry], given: tuple[str, ...]) -> str:
    """Return the importer's inputs as JSON, with the types that the agent declares here.

    Raises CommandFailed if the run is to continue and an input that the file has is missing.
    """
    started, end = read[0], read[-1]
    assert isinstance(started, RunStarted), "read_run checks it"
    values = typed_inputs(_declared(config, started.agent) if given else {}, given)
    try:
        stored = decode_json(started.inputs.encode(), dict[str, Any])
    except ValueError as e:
        raise CommandFailed(f"the run's inputs cannot be read: {e}") from e
    left = [name for name in stored if name not in values]
    # the assistant's inputs have defaults: the guidance and the environment of this directory
    if left and started.agent != ASSISTANT and not isinstance(end, RunFinished):
        name = left[0]
        claimed = revealed_line(json.dumps(stored[name], ensure_ascii=False))
        raise CommandFailed(
            f"the run is not finished, and its file has the input {revealed_line(name)!r}, which "
            f"would be in the system prompt: {claimed}. Give your own with --input "
            f"{revealed_line(name)}=…"
        )
    return encode_json(values).decode()


def _declared(config: Config, name: str) -> Mapping[str, Input]:
    """Return the inputs of the agent of that name here; empty if there is none."""
    from treadle.agents.definitions import Catalog  # noqa: PLC0415  brings the library for YAML

    catalog = Catalog(config, Path.cwd())
    if name not in catalog.names():
        return {}
    return defined_agent(config, catalog, name).agent.inputs


async def _is_local(journal: Journal, run_id: str) -> bool | None:
    """Return True for a run of this installation, False for an imported one, None for one that is
    not in the journal.
    """
    try:
        return (await journal.info(run_id)).imported is None
    except AgentError:
        return None
