"""Which journal a command works on: the option, the variable, the user's file, or the one in
Treadle's own folder.

What a journal is stands in treadle.journal, where they are kept in treadle.journal. Entry:
`journal_option`, `journal_url`, `open_runtime`, `on_journal`.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import click

from treadle._internal.redaction import Redactor
from treadle.cli.exits import failing
from treadle.config import Config, home, load
from treadle.errors import AgentError

if TYPE_CHECKING:
    from treadle.events.hooks import Hook
    from treadle.journal.journal import Journal
    from treadle.runtime.runtime import Runtime

T = TypeVar("T")

_SQLITE: Final = "sqlite:///"

journal_option = click.option(
    "--journal",
    metavar="URL",
    help=(
        "Where runs are kept: sqlite:///FILE or postgresql://USER@HOST/NAME. Default: "
        "TREADLE_JOURNAL, else journal.db in ~/.treadle."
    ),
)


def journal_url(config: Config, given: str | None) -> str:
    """`given`, what `--journal` said, else TREADLE_JOURNAL, else the user's own file, else
    `journal.db` in Treadle's own folder.

    The path of a SQLite file is absolute, `~` expanded. Nothing is opened or made. Raises Failed
    where Treadle's folder cannot be one.
    """
    url = given or config.journal  # the variable stands over the file there
    if url is None:
        with failing():
            return f"{_SQLITE}{home(os.environ) / 'journal.db'}"
    file = journal_file(url)
    return url if file is None else f"{_SQLITE}{file}"


def journal_file(url: str) -> Path | None:
    """The file of a SQLite journal; None for any other."""
    name = url.removeprefix(_SQLITE)
    return Path(os.path.abspath(os.path.expanduser(name))) if name and name != url else None


def shown_url(url: str) -> str:
    """Of a journal or a database, for people: without a password and without options."""
    scheme, slashes, rest = url.partition("://")
    if not slashes or scheme.startswith("sqlite"):
        return url
    authority, slash, path = rest.partition("?")[0].partition("/")
    user, at, host = authority.rpartition("@")
    return f"{scheme}://{user.partition(':')[0]}{at}{host}{slash}{path}"


def opened_journal(config: Config, url: str) -> Journal:
    """Raises AgentError(invalid) for one that cannot be opened."""
    from treadle.journal import open_journal  # noqa: PLC0415  the help of a command needs it not

    return open_journal(url, lease_s=config.workers.lease_s)


def open_runtime(
    config: Config,
    url: str,
    *,
    otherwise: str = "",
    hooks: Sequence[Hook] = (),
    unattended: bool = False,
) -> Runtime:
    """A runtime over the journal at `url`, which is made where there is none. Raises Failed, with
    exit code 2, where it cannot be opened.

    `otherwise`: what a person could do without that journal. `hooks`: of all its runs.
    `unattended`: overloads of providers are waited out for minutes.
    """
    from treadle.runtime.runtime import PATIENT, Runtime  # noqa: PLC0415  the help of a command needs it not

    with failing():
        try:
            journal = opened_journal(config, url)
        except AgentError as e:
            raise AgentError(e.kind, e.message + otherwise) from e
        return Runtime(
            config=config, journal=journal, hooks=hooks, retries=PATIENT if unattended else None
        )


class OpenedJournal(NamedTuple):
    """A journal that is open, and what must not be shown of it."""

    journal: Journal
    secrets: Redactor
    url: str
    config: Config


def on_journal(
    given: str | None,
    work: Callable[[OpenedJournal], Awaitable[T]],
    *,
    absent: Callable[[Redactor], T],
) -> T:
    """What `work` gives on the journal that `--journal` names. Where there is no such file none is
    made, and `absent` is called instead.

    Raises Failed: with exit code 1 for what another process holds, else with 2.
    """
    with failing():
        config = load()
    secrets = Redactor(config.secrets())
    url = journal_url(config, given)
    if (file := journal_file(url)) is not None and not file.exists():
        return absent(secrets)
    import anyio  # noqa: PLC0415  as above

    async def main() -> T:
        journal = opened_journal(config, url)
        try:
            return await work(OpenedJournal(journal, secrets, url, config))
        finally:
            await journal.aclose()

    with failing():
        return anyio.run(main)
