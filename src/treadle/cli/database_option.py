"""The `--database` option: the service database from the option, the variable, or Treadle's own
folder.

Its tables are in treadle.service.database. Entry points: `database_option`, `database_url`,
`require_database`.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Final

import click

from treadle.cli.exits import failing
from treadle.config import home
from treadle.errors import AgentError

_SQLITE: Final = "sqlite:///"
_VARIABLE: Final = "TREADLE_DATABASE"
INSTALL: Final = "pip install 'treadle[service]'"

database_option = click.option(
    "--database",
    metavar="URL",
    help=(
        "Where tasks, conversations and accounts are kept: sqlite:///FILE or postgresql://… . "
        "Default: TREADLE_DATABASE, else tasks.db in ~/.treadle."
    ),
)


def database_url(given: str | None) -> str:
    """Return the URL of the service database: `given` (the option), else TREADLE_DATABASE, else
    `tasks.db` in Treadle's own folder. Opens and creates nothing.

    The path of a SQLite file is absolute, with `~` expanded. Raises CommandFailed if Treadle's
    folder is not usable.
    """
    url = given or os.environ.get(_VARIABLE)
    if not url:
        with failing():
            return f"{_SQLITE}{home(os.environ) / 'tasks.db'}"
    name = url.removeprefix(_SQLITE)
    return (
        url if name == url or not name else f"{_SQLITE}{os.path.abspath(os.path.expanduser(name))}"
    )


def require_database() -> None:
    """Raise AgentError(invalid) if the libraries of the service are not installed."""
    if find_spec("sqlmodel") is None or find_spec("alembic") is None:
        raise AgentError("invalid", f"this needs the libraries of the service: {INSTALL}")
