"""Answers to calls, given as options of the form CALL or CALL=TEXT. Entry points:
`answer_options`, `answers`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import click

from treadle.cli.exits import CommandFailed

F = TypeVar("F", bound=Callable[..., Any])


def answer_options(command: F) -> F:
    for option in (
        click.option(
            "--result",
            metavar="CALL=TEXT",
            multiple=True,
            help="The result of this call, if you know it; it is not run; repeatable.",
        ),
        click.option(
            "--deny",
            metavar="CALL[=REASON]",
            multiple=True,
            help="Deny this call, and tell the model; repeatable.",
        ),
        click.option(
            "--approve",
            metavar="CALL",
            multiple=True,
            help="Approve this call; repeatable. An interrupted call is run again.",
        ),
    ):
        command = option(command)
    return command


def answers(
    calls: Collection[str],
    *,
    approve: Sequence[str] = (),
    deny: Sequence[str] = (),
    result: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the options `approve`, `deny` and `results` of a resume, without empty ones.

    `calls`: ids of the run's calls. An id may contain `=`, so the longest match wins. Raises
    CommandFailed if an option names no call, or two options name the same one.
    """
    said = {
        "approve": tuple(approve),
        "deny": _by_call("--deny", deny, calls),
        "results": texts(result, calls),
    }
    seen: dict[str, str] = {}
    for option, named in (
        ("approve", said["approve"]),
        ("deny", said["deny"]),
        ("result", said["results"]),
    ):
        for call_id in named:
            if (other := seen.setdefault(call_id, option)) != option:
                raise CommandFailed(
                    f"--{other} and --{option} both name the call {call_id!r}: give it one answer"
                )
    return {name: value for name, value in said.items() if value}


def texts(given: Sequence[str], calls: Collection[str]) -> dict[str, str]:
    """Return the text of each `--result CALL=TEXT` by call id.

    Raises CommandFailed for a missing `=` or a repeated call.
    """
    for said in given:
        if "=" not in said or said in calls:
            raise CommandFailed(
                f"--result {said!r}: write CALL=TEXT, the id of a call and its result"
            )
    return _by_call("--result", given, calls)


def _by_call(option: str, given: Sequence[str], calls: Collection[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for said in given:
        call_id = max(
            (one for one in calls if said == one or said.startswith(f"{one}=")),
            key=len,
            default=said.partition("=")[0],
        )
        if not call_id:
            raise CommandFailed(f"{option} {said!r} names no call")
        if call_id in found:
            raise CommandFailed(f"{option} names the call {call_id!r} twice")
        found[call_id] = said[len(call_id) + 1 :]
    return found
