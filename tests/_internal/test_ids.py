"""Ids of runs, messages and calls: sorted by time, and never given twice."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from treadle._internal.ids import new_id

_FORK = """
import os, sys
from treadle._internal.ids import new_id
new_id("run")
reader, writer = os.pipe()
child = os.fork()
mine = [new_id("run")[-14:] for _ in range(100)]
if child == 0:
    os.write(writer, " ".join(mine).encode())
    os._exit(0)
os.waitpid(child, 0)
print(len({*mine, *os.read(reader, 100_000).decode().split()}))
"""


def test_ids_of_all_threads_differ() -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = [*pool.map(new_id, ["run"] * 20_000)]
    assert len({*ids}) == 20_000
    assert {len(one) for one in ids} == {len("run_") + 26}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_gives_other_ids_than_its_parent() -> None:
    counted = subprocess.run(
        [sys.executable, "-c", _FORK], capture_output=True, text=True, check=True
    )
    assert counted.stdout == "200\n"
