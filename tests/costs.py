"""What tests cost: `pytest -p tests.costs` ends with the process CPU of each folder.

Seconds of user and system time, those of the processes that a test started included; on Linux also
while they live, as the fork servers do.
What a process of the tests did outside tests (imports, collection) stands in a row of its own.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.fork_server import forked_servers

OUTSIDE = "(collection and the like)"
TICKS = os.sysconf("SC_CLK_TCK")
FILES = 20
"""How many of the dearest files are listed."""

_seconds: Counter[str] = Counter()
_tests: Counter[str] = Counter()


def _spent() -> float:
    return sum(
        (sum(os.times()[:4]), _spent_by_children(os.getpid()), *map(_spent_by, forked_servers))
    )


def _spent_by_children(pid: int) -> float:
    """Of those that live, and their own; a parent's clock counts a child once it has ended."""
    seconds = 0.0
    with suppress(OSError):  # the process has ended, or this is not Linux
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                seconds += _spent_by(int(child))
    return seconds


def _spent_by(pid: int) -> float:
    with suppress(OSError):
        clocks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
        return sum(map(int, clocks)) / TICKS + _spent_by_children(pid)
    return 0.0


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Look at the clocks where a file ends: each look takes a third of a millisecond."""
    if not _tests:
        _seconds[OUTSIDE] = round(_spent() * 100)
    file = item.nodeid.partition("::")[0]
    _tests[file] += 1
    try:
        return (yield)
    finally:
        if nextitem is None or nextitem.path != item.path:
            _seconds[file] += round(_spent() * 100) - _seconds.total()


def pytest_sessionfinish(session: pytest.Session) -> None:
    _seconds[OUTSIDE] += round(_spent() * 100) - _seconds.total()
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["costs"] = dict(_seconds), dict(_tests)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    seconds, tests = getattr(node, "workeroutput", {}).get("costs", ({}, {}))
    _seconds.update(seconds)
    _tests.update(tests)


def _rows(depth: int) -> list[tuple[str, int, int]]:
    seconds: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for file, spent in _seconds.items():
        name = "/".join(file.split("/")[:depth])
        seconds[name] += spent
        tests[name] += _tests[file]
    return [(name, tests[name], spent) for name, spent in seconds.most_common()]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("CPU seconds")
    rows = [*_rows(2), ("dearest files:", 0, 0), *_rows(9)[:FILES]]
    for name, tests, spent in rows:
        terminalreporter.write_line(f"{name:60} {tests:7,} {spent / 100:8.1f}")
    terminalreporter.write_line(f"{'all':60} {_tests.total():7,} {_seconds.total() / 100:8.1f}")
