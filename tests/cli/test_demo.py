"""`treadle demo`: both halves, as somebody sees them who has nothing but the package."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import KEY, Cli
from treadle.cli import demo_crash


def temporary(cli: Cli) -> Path:
    """A folder for the demo's own, so that what it leaves behind is seen."""
    folder = cli.home.parent / "temporary"
    folder.mkdir()
    return folder


def processes_in(folder: Path) -> list[str]:
    """The command lines of processes that work in there."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(folder):
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_the_demo_finds_and_fixes_a_bug_and_survives_a_kill(cli: Cli):
    folder = temporary(cli)
    answer = cli(
        "demo",
        "--fast",
        TMPDIR=str(folder),
        TREADLE_JOURNAL="sqlite:///mine.db",
        TREADLE_MODEL="none:x",
        ANTHROPIC_API_KEY=KEY,
    )
    assert answer.code == 0, answer
    first, _, second = answer.out.partition("Part two")
    assert "2 failed, 2 passed" in first
    assert "4 passed" in first
    told = (
        "$ treadle run ",
        "kill -9 ",
        "$ treadle runs resume run_",
        "? bash: The process stopped",
        "completed",
        "$ treadle runs show run_",
        "UNKNOWN",
    )
    places = [second.index(words) for words in told]
    assert places == sorted(places)
    assert "The complete ledger:\n    order 17: 42.00 EUR\n" in second
    assert list(folder.iterdir()) == list(cli.workspace.iterdir()) == list(cli.home.iterdir()) == []
    assert processes_in(folder) == []


def test_a_demo_that_is_kept_can_be_looked_at(cli: Cli):
    folder = temporary(cli)
    answer = cli("demo", "--fast", "--keep", TMPDIR=str(folder))
    assert answer.code == 0, answer
    home = re.findall(r"TREADLE_HOME=(\S+) treadle runs list", answer.out)[0]
    (kept,) = json.loads(cli("runs", "list", "--json", TREADLE_HOME=home).out)
    assert (kept["outcome"], kept["turns"]) == ("completed", 5)
    orders = Path(home).parent
    assert (orders / "ledger.txt").read_text() == "order 17: 42.00 EUR\n"
    assert "charged" in (orders / "receipt.txt").read_text()
    assert processes_in(folder) == []


def test_the_demo_ends_no_process_but_its_own(cli: Cli):
    """A program in the sandbox knows itself by another process id: once that of a stranger out here
    was taken for it, and everything died.
    """
    script = f"{shlex.quote(sys.executable)} -m treadle demo --fast; echo the shell goes on"
    done = subprocess.run(
        ["sh", "-c", script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=cli.environment(),
        start_new_session=True,
        check=False,
    )
    assert (done.returncode, done.stdout.decode().splitlines()[-1]) == (0, "the shell goes on"), (
        done
    )


def test_a_demo_that_is_stopped_leaves_nothing(cli: Cli):
    for number in (signal.SIGINT, signal.SIGTERM):
        folder = cli.home.parent / f"temporary-{number}"
        folder.mkdir()
        command = [sys.executable, "-m", "treadle", "demo"]
        environment = cli.environment(TMPDIR=str(folder), PYTHONUNBUFFERED="1")
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            for line in process.stdout:
                if line.startswith("It is not charged yet"):
                    break
            process.send_signal(number)
            process.stdout.read()
            assert process.wait(20) == 128 + number
            assert "Traceback" not in process.stderr.read()
        assert list(folder.iterdir()) == []
        assert processes_in(folder) == []


def test_what_the_demo_tells_between_its_commands_fits_a_terminal_of_100_columns() -> None:
    for told in (demo_crash.INTRO, demo_crash.KILLED.format(4_000_000), demo_crash.PROOF):
        assert max(map(len, told.splitlines())) <= 100
