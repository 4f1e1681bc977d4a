"""The order of the tests on several workers. Entry: `Order`.

`--dist worksteal` gives each worker an equal slice of the list, and a worker without tests takes
the end of another's slice. Tests that mostly wait for processes begin every second slice: they run
while the other workers compute, and none of them is the last one, alone on an idle machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, cycle, groupby, islice

import pytest

from tests.selection import LEFT_OUT

COMPUTE = frozenset({"corpus"})
"""Marks of tests that plain pytest leaves out and that wait for nothing."""


class Order:
    def __init__(self, workers: int) -> None:
        self._workers = workers

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = spread(items, self._workers)


def spread(items: Sequence[pytest.Item], workers: int) -> Iterator[pytest.Item]:
    """Each slice: its share of the files that wait, then the others as before."""
    files = [list(group) for _, group in groupby(items, lambda item: item.path)]
    computing = chain.from_iterable(file for file in files if not _waits(file[0]))
    shares: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for share, file in zip(cycle(shares[::2]), filter(lambda file: _waits(file[0]), files)):
        share += file
    left = len(items)
    for number, share in enumerate(shares):
        length = max(left // (workers - number), len(share))
        yield from share
        yield from islice(computing, length - len(share))
        left -= length


def _waits(item: pytest.Item) -> bool:
    return bool({mark.name for mark in item.iter_markers()} & {*LEFT_OUT} - COMPUTE)
