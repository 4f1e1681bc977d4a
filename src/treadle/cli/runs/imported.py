"""Questions about the calls of an imported run, shown as they would run. Entry points:
`answers_for`, `tell`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from treadle._internal.terminal_text import revealed, revealed_line
from treadle._internal.units import count
from treadle.cli.asked_call import call_lines
from treadle.cli.echo import echo
from treadle.journal.run_state import RunState

REFUSED = "not approved when the imported run was resumed"


def answers_for(state: RunState, clean: Callable[[str], str]) -> dict[str, Any] | None:
    """Ask on the terminal about each open call and return the options of a resume. Without a
    terminal, show the calls and return None.

    Raises click.Abort on Ctrl-C and at the end of the input; then nothing was answered.
    """
    tell(state, clean)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    approve, deny = list[str](), dict[str, str]()
    for asked in state.approvals.asked.values():
        if call_lines(asked, clean).whole and click.confirm(
            f"Run {revealed(clean(asked.name))} ({revealed(asked.call_id)}) here?",
            default=False,
            err=True,
        ):
            approve.append(asked.call_id)
        else:
            deny[asked.call_id] = REFUSED
    return {"approve": tuple(approve), "deny": deny}


def tell(state: RunState, clean: Callable[[str], str]) -> None:
    """Show on stderr the open calls as they would run, with hidden and control characters
    escaped.
    """
    for line in _lines(state, clean):
        echo(line, err=True)


def _lines(state: RunState, clean: Callable[[str], str]) -> Iterator[str]:
    assert state.started is not None, "a run begins with run.started"
    waiting = list(state.approvals.asked.values())
    yield (
        f"Run {state.started.run_id} was imported. These calls would run, in mode {state.mode}, "
        f"in {revealed_line(clean(state.cwd))} ({count(len(waiting), 'call')}):"
    )
    for asked in waiting:
        head = f"{asked.name} ({asked.call_id}), {asked.reason}"
        yield f"  {revealed_line(clean(head))}"
        yield from (f"    {line}" for line in call_lines(asked, clean).lines)
