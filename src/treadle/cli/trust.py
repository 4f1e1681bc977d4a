"""`treadle trust`: says that a project's own configuration may be used, as it is now; shows what that is. Entry: `trust`.

What is bound to what is config/trust.py's; what it admits stands where it is used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import click

from treadle.cli.exits import Failed, clean, failing
from treadle.cli.help import HELP
from treadle.cli.terminal import put
from treadle.config import home
from treadle.config import trust as store
from treadle.config.file import Broken
from treadle.config.places import CONFIG_NAME, FOLDER, Project, project_of
from treadle.errors import AgentError
from treadle.plain import plain
from treadle.units import count, size

INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
"""Characters that nobody sees, and a model reads. Not U+FE0F, which makes a picture of the character before it."""


@click.command(context_settings=HELP)
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path), default=".")
@click.option("--revoke", is_flag=True, help="Trust it no longer.")
@click.option("--list", "listing", is_flag=True, help="List every trusted project, and whether its trust still holds.")
def trust(folder: Path, revoke: bool, listing: bool) -> None:
    """Say that a project's own configuration may be used, as it is now.

    The project is that of DIR, or of the working directory: the nearest folder above with a .git, else DIR itself. From then on
    its AGENTS.md files and skills are sent to the model, its commands are offered in the chat, and the modules under `agents` and
    the servers under `mcp_servers` of its .treadle/config.yaml count. It never allows what your own permissions do not, and sets no
    sandbox, address, header, key or journal.

    A file of these that changes, goes or comes voids it all, until you have looked and trust it again.
    """
    with failing():
        own = home(os.environ)
        if listing:
            _list(own)
        elif revoke:
            _revoke(own, folder)
        else:
            _trust(own, _project(folder))


def _project(folder: Path) -> Project:
    if not folder.is_dir():
        raise Failed(f"{str(folder)!r} is no directory")
    project = project_of(folder)
    if project is None:
        raise Failed("the working directory is gone: change to one that is there")
    return project


def _trust(own: Path, project: Project) -> None:
    files = store.survey(project, own)
    store.trust(own, project, files)
    _say(f"trusted, as it is now: {project.root}")
    _say_files(files)


def _say_files(files: Mapping[str, bytes]) -> None:
    if not files:
        _say("  It has no configuration of its own yet. What comes has to be trusted again.")
    width = max((len(plain(name)) for name in files), default=0)
    for name, data in files.items():
        _say(f"  {plain(name):<{width}}  {_means(name)} ({size(len(data))})")
        if found := INVISIBLE.search(text := data.decode("utf-8", "replace")):
            line = text.count("\n", 0, found.start()) + 1
            click.echo(f"! {plain(clean(name))}:{line}: holds characters that you cannot see and a model reads, like U+{ord(found[0]):04X}", err=True)


def _means(name: str) -> str:
    if name.rpartition("/")[2] == store.GUIDANCE_NAME:
        return "instructs the model"
    if name.endswith(f"/{CONFIG_NAME}") and f"/{store.SKILLS_NAME}/" not in name:
        return "names agents' modules and MCP servers, which are programs that run"
    if f"{FOLDER}/{store.COMMANDS_NAME}/" in name and f"/{store.SKILLS_NAME}/" not in name:
        return "is a command of the chat"
    return "belongs to a skill"


def _revoke(own: Path, folder: Path) -> None:
    root = Path(os.path.realpath(folder))
    project = project_of(folder)
    if not any(store.revoke(own, each) for each in dict.fromkeys((root, project.root if project else root))):
        raise Failed(f"{root} was not trusted: `treadle trust --list` says what is")
    _say(f"not trusted any more: {project.root if project else root}")


def _list(own: Path) -> None:
    try:
        folders = store.trusted(own)
    except Broken as e:
        raise AgentError("invalid", f"{own / store.STORE_NAME}: {e.text}") from e
    if not folders:
        click.echo("no project is trusted", err=True)
    for root, files in sorted(folders.items()):
        found = store.trust_of(own, Project(Path(root), Path(root)))
        holds = f"holds, with {count(len(files), 'file')}" if found.standing is store.Standing.HOLDS else f"void: {', '.join(found.changes[: store.TOLD_MAX])}"
        _say(f"{root}  {holds}")


def _say(text: str) -> None:
    put(plain(clean(text)))
