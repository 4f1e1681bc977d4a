"""`treadle trust`: shows a project's own configuration and trusts its current state. Entry points:
`trust`.

The trust store is in treadle.config; file contents are described by trust_contents.py.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import click

from treadle._internal.terminal_text import plain, revealed
from treadle._internal.units import count, size
from treadle.cli.echo import echo
from treadle.cli.exits import CommandFailed, clean, failing
from treadle.cli.help import HELP
from treadle.cli.terminal import confirm, put
from treadle.cli.trust_contents import described
from treadle.config import home, trust_store
from treadle.config import trust as store
from treadle.config.file import Broken
from treadle.config.places import Project, project_of
from treadle.errors import AgentError

_ALSO_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0e\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
"""Filler and selector characters, which Unicode counts as letters and marks.

U+FE0F is excluded, because it turns the character before it into an emoji.
"""
_UNSEEN = frozenset(("Cc", "Cf", "Co", "Cs", "Zl", "Zp"))
"""Unicode categories that a terminal hides or interprets."""


@click.command(context_settings=HELP)
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path), default=".")
@click.option("--revoke", is_flag=True, help="Revoke its trust.")
@click.option(
    "--list",
    "listing",
    is_flag=True,
    help="List every trusted project, and whether its trust still holds.",
)
@click.option("--show", is_flag=True, help="Show what would be trusted, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask on a terminal.")
def trust(folder: Path, revoke: bool, listing: bool, show: bool, yes: bool) -> None:
    """Show a project's own configuration, and trust it in its current state.

    The project is that of DIR, or of the working directory: the nearest folder above with a .git,
    else DIR itself. Once trusted, its AGENTS.md files, and its agents and skills with their
    descriptions, are sent to the model, its commands are offered in the chat, and the modules under
    `agents` and the servers under `mcp_servers` of its .treadle/config.yaml are used. It never
    allows what your own permissions do not, and sets no sandbox, address, header, key or journal.
    An agent of yours keeps its name.

    A change to any of these files, or a new or removed one, revokes the trust until you review the
    project and trust it again.
    """
    with failing():
        own = home(os.environ)
        if listing:
            _list(own)
        elif revoke:
            _revoke(own, folder)
        else:
            _trust(
                own,
                _project(folder),
                show=show,
                ask=not yes and sys.stdin.isatty() and sys.stderr.isatty(),
            )


def _project(folder: Path) -> Project:
    if not folder.is_dir():
        raise CommandFailed(f"{str(folder)!r} is not a directory")
    project = project_of(folder)
    if project is None:
        raise CommandFailed("the working directory no longer exists: change to one that does")
    return project


def _trust(own: Path, project: Project, *, show: bool, ask: bool) -> None:
    """Trust the project. `ask`: request confirmation after showing the files."""
    files = store.survey(project, own)
    if show or ask:
        _say(f"would be trusted in its current state: {project.root}")
        _say_files(files)
    if show:
        return
    if ask:
        confirm("Trust this project?", undone="nothing was trusted")
    trust_store.trust(own, project, files)
    _say(f"trusted in its current state: {project.root}")
    if not ask:
        _say_files(files)


def _say_files(files: Mapping[str, bytes]) -> None:
    if not files:
        _say("  It has no configuration yet. Any that is added must be trusted again.")
        return
    width = max(len(_shown(name)) for name in files)
    lines: list[str] = []
    for name, data in files.items():
        lines.append(f"  {_shown(name):<{width}}  {_means(name)} ({size(len(data))})")
        lines += (f"      {line}" for line in described(name, data))
    _say("\n".join(lines))
    for name, data in files.items():
        text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
        if (at := _unseen_in(text)) is not None:
            line = text.count("\n", 0, at) + 1
            echo(
                (
                    f"! {_shown(clean(name))}:{line}: contains invisible characters that a model "
                    f"reads, such as U+{ord(text[at]):04X}"
                ),
                err=True,
            )


def _unseen_in(text: str) -> int | None:
    """Return the index of the first character that is invisible to people but read by models."""
    places = [
        text.find(c)
        for c in set(text) - {"\n", "\t"}
        if unicodedata.category(c) in _UNSEEN or _ALSO_UNSEEN.match(c)
    ]
    return min(places, default=None)


def _shown(name: str) -> str:
    """Escape every unusual character of a file name, including line ends and tabs."""
    return revealed(name).replace("\n", "\\n").replace("\t", "\\t")


def _means(name: str) -> str:
    return _MEANINGS[store.kind_of(PurePosixPath(name))]


_MEANINGS = {
    store.TrustedKind.GUIDANCE: "instructs the model",
    store.TrustedKind.CONFIG: "names agent modules and MCP servers, which are executed",
    store.TrustedKind.COMMAND: "is a command of the chat",
    store.TrustedKind.AGENT: "is an agent, which is offered to the model",
    store.TrustedKind.SKILL: "belongs to a skill",
    store.TrustedKind.UNUSED: "is not used",
}


def _revoke(own: Path, folder: Path) -> None:
    root = Path(os.path.realpath(folder))
    project = project_of(folder)
    if not any(
        trust_store.revoke(own, each)
        for each in dict.fromkeys((root, project.root if project else root))
    ):
        raise CommandFailed(
            f"{root} was not trusted: `treadle trust --list` lists trusted projects"
        )
    _say(f"no longer trusted: {project.root if project else root}")


def _list(own: Path) -> None:
    try:
        folders = trust_store.trusted(own)
    except Broken as e:
        raise AgentError("invalid", f"{own / trust_store.STORE_NAME}: {e.text}") from e
    if not folders:
        echo("no project is trusted", err=True)
    for root, files in sorted(folders.items()):
        found = store.trust_of(own, Project(Path(root), Path(root)))
        holds = (
            f"holds, with {count(len(files), 'file')}"
            if found.standing is store.TrustState.HOLDS
            else f"void: {', '.join(found.changes[: store.TOLD_MAX])}"
        )
        _say(f"{root}  {holds}")


def _say(text: str) -> None:
    put(plain(clean(text)))
