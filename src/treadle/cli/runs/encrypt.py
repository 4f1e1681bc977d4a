"""`treadle runs encrypt`: encrypts a journal, or changes its key. Entry points: `encrypt`."""

from __future__ import annotations

import click

from treadle._internal.units import count
from treadle.cli.exits import CommandFailed, failing
from treadle.cli.help import HELP
from treadle.cli.journal_option import journal_file, journal_option, journal_url, shown_url
from treadle.cli.terminal import put
from treadle.config import load


@click.command(context_settings=HELP)
@journal_option
def encrypt(journal: str | None) -> None:
    """Encrypt the text in a journal with the key in TREADLE_JOURNAL_KEY.

    A journal in plain text is converted; no process may have it open. One under an older key, which
    TREADLE_JOURNAL_OLD_KEYS has, gets the new one; the older key is not needed afterwards.
    """
    from treadle.journal import encrypt_journal  # noqa: PLC0415  not needed for --help

    with failing():
        config = load()
        url = journal_url(config, journal)
        if (file := journal_file(url)) is not None and not file.exists():
            raise CommandFailed(
                f"there is no journal {str(file)!r}: with a key, a new one is encrypted"
            )
        done = encrypt_journal(url)
    put(f"Encrypted {count(done, 'value')} of {shown_url(url)}. Keep a copy of the key.")
