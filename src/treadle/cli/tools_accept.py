"""`treadle tools accept`: shows changed tools of MCP servers and accepts them. Entry points:
`accept`.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from pathlib import Path

import click

from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import revealed_line
from treadle._internal.units import count
from treadle.cli.exits import CommandFailed, failing
from treadle.cli.help import HELP
from treadle.cli.terminal import confirm, put
from treadle.config import load
from treadle.tools.mcp import ChangedTool, Pins


@click.command(
    "accept",
    context_settings=HELP,
    short_help="Review changed tools of MCP servers, and accept them.",
)
@click.argument("server", required=False)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def accept(server: str | None, yes: bool) -> None:
    """Review the tools of MCP servers that have changed since they were first seen, and accept
    them.

    A changed tool is not offered to any model until you have reviewed it here: models read its
    description, which may contain instructions to them. SERVER restricts this to one server.
    """
    with failing():
        config = load(cwd=Path.cwd())
        secrets = Redactor(config.secrets())
        if config.home is None:
            raise CommandFailed("Treadle's own folder is unknown, so no tools were recorded")
        pins = Pins(Path(config.home))
        changes = [change for change in pins.changed() if server in (None, change.server)]
        if not changes:
            of = f" of the MCP server {server!r}" if server else ""
            put(f"No tool{of} has changed since it was first seen.")
            return
        for change in changes:
            put("")
            put(revealed_line(secrets.text(f"{change.server} ({change.place}): {change.tool}")))
            for line in _difference(change):
                put(revealed_line(secrets.text(line)))
        put("")
        if not yes:
            confirm(f"Use {count(len(changes), 'tool')} as shown?", undone="nothing was accepted")
        accepted = pins.accept(changes)
        put(f"{count(len(accepted), 'tool')} accepted.")
        if len(accepted) < len(changes):
            put("The others have changed again since: review them again.")


def _difference(change: ChangedTool) -> Iterator[str]:
    before, now = (
        json.dumps(
            json.loads(text or '"(too long to be kept)"'), indent=2, ensure_ascii=False
        ).split("\n")
        for text in (change.before, change.now)
    )
    for line in difflib.unified_diff(before, now, lineterm="", n=1):
        if not line.startswith(("---", "+++", "@@")):
            yield f"  {line}"
