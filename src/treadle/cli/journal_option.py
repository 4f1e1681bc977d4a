"""The `--journal` option: the journal from the option, the variable, the user's file, or Treadle's
own folder.

Journals are implemented in treadle.journal. Entry points: `journal_option`, `journal_url`,
`open_runtime`, `on_journal`.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

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
_SHARDS: Final = "postgresql+shards:///"

journal_option = click.option(
    "--journal",
    metavar="URL",
    help=(
        "Where runs are kept: sqlite:///FILE, postgresql://USER@HOST/NAME, or "
        "postgresql+shards:///FILE, which lists several databases. Default: TREADLE_JOURNAL, else "
        "journal.db in ~/.treadle."
    ),
)


def journal_url(config: Config, given: str | None) -> str:
    """Return the URL of the journal: `given` (the option), else TREADLE_JOURNAL, else the user's
    configuration, else `journal.db` in Treadle's own folder.

    The path of a SQLite file is absolute, with `~` expanded. Opens and creates nothing. Raises
    CommandFailed if Treadle's folder is not usable.
    """
    url = given or config.journal  # the variable overrides the file there
    if url is None:
        with failing():
            return f"{_SQLITE}{home(os.environ) / 'journal.db'}"
    file = journal_file(url)
    return url if file is None else f"{_SQLITE}{file}"


def journal_file(url: str) -> Path | None:
    """Return the path of a SQLite journal; None for any other URL."""
    name = url.removeprefix(_SQLITE)
    return Path(os.path.abspath(os.path.expanduser(name))) if name and name != url else None


def shards_file(url: str) -> Path | None:
    """Return the path of the file that lists the shards of a journal; None for any other URL."""
    name = url.removeprefix(_SHARDS)
    return Path(name).expanduser() if name and name != url else None


def shown_url(url: str) -> str:
    """Return the URL of a journal or database without password and options, for display."""
    scheme, slashes, rest = url.partition("://")
    if not slashes or scheme.startswith("sqlite"):
        return url
    authority, slash, path = rest.partition("?")[0].partition("/")
    user, at, host = authority.rpartition("@")
    return f"{scheme}://{user.partition(':')[0]}{at}{host}{slash}{path}"


def opened_journal(config: Config, url: str) -> Journal:
    """Open a journal. Raises AgentError(invalid) if it cannot be opened."""
    from treadle.journal import open_journal  # noqa: PLC0415  not needed for --help

    return open_journal(url, lease_s=config.workers.lease_s)


def open_runtime(
    config: Config,
    url: str,
    *,
    otherwise: str = "",
    hooks: Sequence[Hook[Any]] = (),
    unattended: bool = False,
) -> Runtime:
    """Return a runtime on the journal at `url`, which is created if it does not exist. Raises
    CommandFailed with exit code 2 if it cannot be opened.

    `otherwise`: alternative without the journal, appended to that error. `hooks`: hooks of all
    runs. `unattended`: retry overloaded providers for minutes.
    """
    from treadle.runtime.runtime import PATIENT, Runtime  # noqa: PLC0415  not needed for --help

    with failing():
        try:
            journal = opened_journal(config, url)
        except AgentError as e:
            raise AgentError(e.kind, e.message + otherwise) from e
        return Runtime(
            config=config, journal=journal, hooks=hooks, retries=PATIENT if unattended else None
        )


def _warn_of_missing(journal: Journal) -> None:
    """Report shards of a journal that did not answer, because lists lack their runs."""
    missing: Mapping[str, str] = getattr(journal, "missing", {})
    for name, why in missing.items():
        click.echo(
            f"warning: shard {name!r} does not answer, its runs are missing: {why}", err=True
        )


class OpenedJournal(NamedTuple):
    """Open journal, with the redactor for text shown from it."""

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
    """Run `work` on the journal that `--journal` names, and return its result. If the journal's
    file does not exist, return the result of `absent` without creating one.

    Raises CommandFailed: exit code 1 if another process holds the run or session, otherwise 2.
    """
    with failing():
        config = load()
    secrets = Redactor(config.secrets())
    url = journal_url(config, given)
    if (file := journal_file(url)) is not None and not file.exists():
        return absent(secrets)
    import anyio  # noqa: PLC0415  not needed for --help

    async def main() -> T:
        journal = opened_journal(config, url)
        try:
            try:
                return await work(OpenedJournal(journal, secrets, url, config))
            finally:
                _warn_of_missing(journal)
        finally:
            await journal.aclose()

    with failing():
        return anyio.run(main)
