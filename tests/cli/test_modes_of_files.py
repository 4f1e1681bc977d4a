"""Files that hold a conversation are for their owner alone, whatever the umask is."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apps.batch.conftest import repository
from tests.cli.conftest import Cli

HI = {"text": "Hi."}


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def recorded(cli: Cli) -> str:
    return f"record:{cli.workspace / 'run.tape'}={cli.script(HI, HI)}"


def test_what_a_run_writes_is_for_its_owner_alone(cli: Cli) -> None:
    assert cli("run", "hello", "--model", recorded(cli), "-o", "answer.txt").code == 0
    assert cli("runs", "export", "last", "-o", "run.jsonl").code == 0
    assert (
        cli(
            "run",
            "hello",
            "--session",
            "s",
            "--model",
            cli.script(HI),
            "--output",
            "stream-json",
            "-o",
            "events.jsonl",
        ).code
        == 0
    )
    assert cli("sessions", "export", "s", "-o", "session.json").code == 0
    assert cli("runs", "resume", "last", "-o", "again.txt").code == 0
    written = {path.name: mode(path) for path in cli.workspace.iterdir()}
    assert written == dict.fromkeys(
        ("answer.txt", "run.tape", "run.jsonl", "events.jsonl", "session.json", "again.txt"), 0o600
    )


def test_what_a_batch_writes_is_for_its_owner_alone(cli: Cli) -> None:
    repository(cli.workspace)
    answer = cli(
        "work",
        "one",
        "two",
        "--model",
        cli.script(HI),
        "--gate",
        "echo said",
        "--worktree",
        "-o",
        "report.md",
        "--output",
        "markdown",
    )
    assert (cli.workspace / "report.md").is_file(), answer
    assert mode(cli.workspace / "report.md") == 0o600


def test_treadles_own_folder_is_for_its_owner_alone(cli: Cli) -> None:
    repository(cli.workspace)
    cli("work", "one", "--model", cli.script(HI), "--gate", "echo said", "--worktree")
    cli("run", "hello", "--session", "s", "--model", cli.script(HI))
    own = cli.home / ".treadle"
    for folder, folders, files in os.walk(own):
        if mode(Path(folder)) & 0o077 == 0:
            folders.clear()  # nobody else gets further
            continue
        assert [name for name in files if mode(Path(folder, name)) & 0o077] == [], folder


def test_a_file_that_is_there_keeps_its_mode(cli: Cli) -> None:
    for name in ("answer.txt", "run.tape"):
        (cli.workspace / name).touch(0o644)
    assert cli("run", "hello", "--model", recorded(cli), "-o", "answer.txt").code == 0
    assert [mode(cli.workspace / name) for name in ("answer.txt", "run.tape")] == [0o644, 0o644]
    assert (cli.workspace / "answer.txt").read_text() == "Hi.\n"
