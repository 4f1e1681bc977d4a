"""`treadle init`: writes a `.treadle/` folder with an example agent and a commented configuration.

The files are copied from init_files/. Entry points: `init`.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from pkgutil import get_data

import click

from treadle.cli.exits import CommandFailed
from treadle.cli.help import HELP
from treadle.cli.terminal import put

FILES = {"config.yaml": "config.yaml", "agents/reviewer.md": "reviewer.md"}
"""Names in init_files/ by path below `.treadle/`."""


@click.command(context_settings=HELP)
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path), default=".")
def init(folder: Path) -> None:
    """Write an example agent and a commented configuration into DIR/.treadle and print the next
    steps.

    Existing files are kept.
    """
    for name, beside in FILES.items():
        path = folder / ".treadle" / name
        try:
            said = "written" if _written(path, beside) else "kept, already exists"
        except OSError as e:
            raise CommandFailed(f"{str(path)!r} cannot be written: {e.strerror or e}", 1) from e
        put(f"{said}: {path}")
    at = "" if folder == Path() else f" --cwd {shlex.quote(str(folder))}"
    put(
        f"""
Next:
  treadle agents list{at}
  treadle run{at} --agent reviewer "Look for mistakes in this project"
  and change .treadle/agents/reviewer.md to what you need: `treadle agents check{at}` checks it"""
    )


def _written(path: Path, beside: str) -> bool:
    """Write the file; return False if it exists."""
    data = get_data("treadle.cli", f"init_files/{beside}")
    assert data is not None, "it is part of the package"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        return False
    with open(descriptor, "wb") as file:
        file.write(data)
    return True
