"""An export takes neither all memory nor all time of the process that imports it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.attacks import SEEDS, chance
from tests.attacks.exports import LARGE, lines, message, started
from tests.attacks.limited import limited
from tests.cli.conftest import Cli
from tests.cli.conftest import cli as cli
from treadle.cli.exits import CommandFailed
from treadle.cli.runs.lines import lines_of, read_lines
from treadle.errors import AgentError
from treadle.journal.import_bounds import LINE_BYTES, LINES, VALUES
from treadle.journal.journal import read_run

CPU_S = 60


def _feed(pipe: IO[bytes], pieces: Iterator[bytes]) -> None:
    """Write the pieces until the other side closes."""
    with contextlib.suppress(BrokenPipeError), pipe:
        for piece in pieces:
            pipe.write(piece)


def _import(cli: Cli, pieces: Iterator[bytes]) -> tuple[int, str]:
    """Return the exit code and the message of an import in a process with 2 GiB and a minute of the
    processor.
    """
    with subprocess.Popen(
        limited(CPU_S, "treadle", "runs", "import", "-"),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=cli.workspace,
        env=cli.environment(),
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        feeding = threading.Thread(target=_feed, args=(process.stdin, pieces))
        feeding.start()
        said = process.stderr.read().decode()
        code = process.wait()
        feeding.join()
    return code, said


@pytest.mark.parametrize("kind", LARGE)
def test_an_export_that_is_larger_than_its_limits_is_refused_with_the_limit(
    cli: Cli, kind: str
) -> None:
    make, words = LARGE[kind]
    code, said = _import(cli, make(chance(SEEDS[0], kind)))
    assert code == 2, said[-2000:]
    assert "standard input:" in said
    assert words in said
    assert cli("runs", "list", "--json").rows == []


def test_a_file_of_gigabytes_is_refused_at_its_first_line(cli: Cli) -> None:
    with (cli.workspace / "large.jsonl").open("wb") as file:
        file.truncate(8 << 30)
    refused = cli("runs", "import", "large.jsonl")
    assert refused.code == 2
    assert "large.jsonl:1: it is too long: an import reads up to 32 MiB in a line" in refused.err


def test_what_is_as_long_as_the_limits_is_imported(cli: Cli) -> None:
    text = lines(started(input=message("user", {"type": "text", "text": "x" * (8 << 20)})))
    (cli.workspace / "long.jsonl").write_text(text)
    assert cli("runs", "import", "long.jsonl").code == 0


@pytest.mark.parametrize(
    ("count", "line", "words"),
    [
        (1, b" " * (LINE_BYTES + 1), "file:1: it is too long"),
        (9, b" " * LINE_BYTES, "file:9: the run is too large"),
        (LINES + 1, b"\n", "file:100001: the run has too many entries"),
    ],
)
def test_no_line_after_a_limit_is_taken(count: int, line: bytes, words: str) -> None:
    lines = iter([line] * (count + 1))
    with pytest.raises(CommandFailed, match=words):
        read_lines(lines, "file")
    assert list(lines) == [line]


def test_memory_for_a_file_does_not_grow_with_it(tmp_path: Path) -> None:
    """A file without a line end is read up to the limit of one line."""
    with (tmp_path / "large").open("w+b") as file:
        file.truncate(8 * LINE_BYTES)
        tracemalloc.start()
        try:
            with pytest.raises(CommandFailed, match="large:1: it is too long"):
                read_lines(lines_of(file), "large")
            assert tracemalloc.get_traced_memory()[1] < 4 * LINE_BYTES
        finally:
            tracemalloc.stop()


INNER = "[" + "0," * VALUES + "0]"


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([b" " * (LINE_BYTES + 1)], "entry 1: it is too long"),
        ([INNER.encode()], "entry 1: the run has too many parts"),
        ([json.dumps(started(inputs=INNER)).encode()], "entry 1: the run has too many parts"),
    ],
)
def test_a_run_from_a_program_has_the_same_limits(entries: list[bytes], words: str) -> None:
    with pytest.raises(AgentError, match=words) as caught:
        read_run(entries)
    assert caught.value.kind == "invalid"
