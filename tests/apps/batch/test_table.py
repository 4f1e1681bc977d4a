"""What stands on a terminal while a batch is worked: lines above, and below them a region that is
drawn anew.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress

from tests.apps.batch.conftest import Work, bash


def on_a_terminal(cli: Work, *arguments: str) -> tuple[int, str]:
    """Its exit code, and what the terminal was sent."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "treadle", *arguments],
        cwd=cli.workspace,
        env=cli.environment(TERM="xterm"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    sent = b""
    with suppress(OSError):  # the terminal is gone with its last user
        while piece := os.read(ours, 65536):
            sent += piece
    os.close(ours)
    return process.wait(timeout=200), sent.decode()


def screen(sent: str) -> list[str]:
    """The lines that stand there in the end, as a terminal would have them."""
    lines, row = [""], 0
    for piece in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\n|[^\x1b\n]+", sent.replace("\r", "")):
        if piece == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif (up := re.fullmatch(r"\x1b\[(\d+)F", piece)) is not None:
            row -= int(up[1])
            assert row >= 0, "it moves above what it has drawn"
        elif piece == "\x1b[J":
            lines = [*lines[:row], ""]
        elif not piece.startswith("\x1b"):
            lines[row] += piece
    return lines


def test_what_is_under_way_is_drawn_in_place_and_gone_in_the_end(cli: Work) -> None:
    model = cli.script(bash("sleep 0.4"), {"text": "Done."})
    code, sent = on_a_terminal(
        cli,
        "work",
        "first",
        "second",
        "third",
        "--parallel",
        "2",
        "--worktree",
        "--mode",
        "full",
        "--model",
        model,
    )
    assert code == 0
    assert "\x1b[?2026h" in sent
    assert re.search(r"bash +first", sent)
    assert "2 in progress · 1 left" in sent
    told = [line for line in screen(sent) if line]
    assert told[0].startswith("work_")
    assert sorted(line[:5] for line in told if line.startswith("[")) == ["[1/3]", "[2/3]", "[3/3]"]
    assert not [line for line in told if "in progress" in line]


def test_each_line_fits_the_terminal(cli: Work) -> None:
    code, sent = on_a_terminal(
        cli,
        "work",
        "x" * 300,
        "--model",
        cli.script(bash("sleep 0.3"), {"text": "Done."}),
        "--mode",
        "full",
    )
    assert code == 0
    frames = re.findall(
        r"\x1b\[\?2026h(?:\x1b\[\d+F\x1b\[J)?(.*?)\x1b\[\?2026l", sent.replace("\r", ""), re.DOTALL
    )
    assert frames
    assert all(len(line) < 80 for frame in frames for line in frame.split("\n"))
