"""Exit codes and command failures. Entry points: `exit_code`, `CommandFailed`, `failing`, `clean`,
`unwritable`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO, Any

import click
from typing_extensions import override

from treadle._internal.redaction import Redactor
from treadle.cli.echo import echo
from treadle.errors import AgentError, ErrorKind
from treadle.types import Outcome

_LIMITS = frozenset(
    {
        Outcome.TURN_LIMIT,
        Outcome.CALL_LIMIT,
        Outcome.TOKEN_LIMIT,
        Outcome.COST_LIMIT,
        Outcome.TIMEOUT,
        Outcome.TRUNCATED,
        Outcome.LOOPING,
    }
)


def exit_code(outcome: Outcome, error: str | None) -> int:
    """Return the exit code of a run that ended. `error`: kind of the error that ended it, or
    None.
    """
    if outcome is Outcome.COMPLETED:
        return 0
    if outcome in _LIMITS:
        return 3
    if outcome is Outcome.APPROVAL_NEEDED:
        return 4
    if outcome is Outcome.CANCELLED:
        return 130
    return 75 if error in (ErrorKind.RATE_LIMIT, ErrorKind.NETWORK, ErrorKind.TIMEOUT) else 1


class CommandFailed(click.ClickException):
    """Failure of a command: one sentence for stderr, and an exit code."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code

    @override
    def show(self, file: IO[Any] | None = None) -> None:
        echo(f"treadle: {clean(self.message)}", err=True, file=file)
        if file is None:
            sys.exit(self.code)  # here, because click's own exit code belongs to the class


def clean(text: str) -> str:
    """Return `text` without configured secrets, secrets of the environment, and anything that looks
    like a secret. Never raises.
    """
    from treadle.config import load, own_secrets  # noqa: PLC0415  only where something went wrong

    try:
        secrets = load().secrets()
    except AgentError:  # the configuration itself may be broken
        secrets = own_secrets()
    return Redactor(secrets).text(text)


def unwritable(error: OSError) -> Exception:
    """Return the exception to raise if stdout cannot be written. A closed pipe needs no message."""
    silence(sys.stdout)
    return (
        error
        if isinstance(error, BrokenPipeError)
        else CommandFailed(f"standard output cannot be written: {error.strerror or error}", 1)
    )


def silence(stream: IO[str]) -> None:
    """Redirect the rest of the output to the null device, so that the final flush does not fail
    again.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


@contextmanager
def failing(code: int = 2) -> Generator[None]:
    """Convert AgentError into CommandFailed with `code`, or with 1 if a session or run is busy."""
    try:
        yield
    except AgentError as e:
        raise CommandFailed(e.message, 1 if e.kind is ErrorKind.BUSY else code) from e
