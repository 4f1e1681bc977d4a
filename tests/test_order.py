"""Workers that begin with tests that wait, those that begin with the others, and where they come
from.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from tests.order import spread


class Item:
    """What the order is made from: a path and marks."""

    def __init__(self, name: str, file: str, *marks: str) -> None:
        self.name, self.path = name, Path(file)
        self._marks = [getattr(pytest.mark, mark) for mark in marks]

    def iter_markers(self) -> list[Any]:
        return self._marks


def _spread(items: list[Item], workers: int) -> list[str]:
    return [cast("Item", item).name for item in spread(cast("Any", items), workers)]


@pytest.mark.skipif(
    sys.platform != "linux" or "PYTEST_XDIST_WORKER" not in os.environ, reason="not forked"
)
def test_a_worker_is_forked_from_a_process_that_has_collected_the_tests() -> None:
    assert b"tests.forked_workers" in Path("/proc/self/cmdline").read_bytes()


def test_every_second_slice_begins_with_files_that_wait() -> None:
    items = [
        *(Item(f"a{n}", "a") for n in range(5)),
        Item("crash", "b", "crash"),
        *(Item(f"c{n}", "c", "corpus") for n in range(5)),
        Item("peers", "d", "peers"),
    ]
    assert _spread(items, 4) == [
        *("crash", "a0", "a1"),
        *("a2", "a3", "a4"),
        *("peers", "c0", "c1"),
        *("c2", "c3", "c4"),
    ]


@pytest.mark.parametrize("workers", range(1, 9))
@pytest.mark.parametrize("waiting", [0, 1, 5, 9])
def test_each_test_comes_once_and_files_stay_together(workers: int, waiting: int) -> None:
    items = [
        Item(f"{file}{n}", f"{file}", *(["process"] if file < waiting else []))
        for file in range(9)
        for n in range(file)
    ]
    order = _spread(items, workers)
    assert sorted(order) == sorted(item.name for item in items)
    for file in range(waiting):
        (place, *_) = [order.index(f"{file}{n}") for n in range(file)] or [0]
        assert order[place : place + file] == [f"{file}{n}" for n in range(file)]
