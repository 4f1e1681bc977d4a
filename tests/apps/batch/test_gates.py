"""Gates: commands in order, what they say and leave behind, with and without a sandbox."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from tests.apps.batch.conftest import lives
from treadle._internal.redaction import Redactor
from treadle.apps.batch.gates import TAIL_CHARS, TAIL_LINES, Gates
from treadle.apps.batch.leftovers import LEFT_BY, end_leftovers
from treadle.apps.batch.report import GateResult
from treadle.policy.sandboxes import find_sandbox


class Judge:
    def __init__(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "work"
        self.kept = tmp_path / "kept"
        self.folder.mkdir()
        self.kept.mkdir()
        self.begun: list[str] = []

    def gates(self, *commands: str, **more: object) -> Gates:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        defaults: dict[str, object] = {
            "timeout_s": 20,
            "environment": environment,
            "secrets": Redactor(()),
            "kept": self.kept,
            "scratch": self.kept / "tmp",
        }
        return Gates(commands=commands, **{**defaults, **more})  # pyright: ignore[reportArgumentType]

    async def judged(self, *commands: str, **more: object) -> tuple[GateResult, ...]:
        with anyio.fail_after(30):
            return await self.gates(*commands, **more).judge(
                "work_01-7", self.folder, attempt=2, begins=self.begun.append
            )


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    return Judge(tmp_path)


async def test_they_run_in_order_and_the_first_that_fails_ends_them(judge: Judge) -> None:
    first, second, third = await judge.judged("touch a; pwd", "test -e b", "touch c")
    assert (first.passed, first.exit_code, first.output) == (True, 0, str(judge.folder))
    assert (second.passed, second.exit_code, second.failed) == (False, 1, True)
    assert (third.passed, third.exit_code, third.log, third.failed) == (None, None, None, False)
    assert judge.begun == ["touch a; pwd", "test -e b"]
    assert sorted(os.listdir(judge.folder)) == ["a"]


async def test_all_that_one_says_is_kept_and_its_end_is_told(judge: Judge) -> None:
    (gate,) = await judge.judged("seq 1 20000; printf '\\033[31mred\\033[0m last'")
    assert gate.log == str(judge.kept / "7.2.gate-1.log")
    log = Path(gate.log).read_text()
    assert log.startswith("1\n2\n")
    assert log.count("\n") == 20000
    assert len(gate.output) <= TAIL_CHARS
    assert len(gate.output.splitlines()) == TAIL_LINES
    assert gate.output.endswith("20000\nred last")


async def test_an_endless_one_is_ended_at_its_time_and_its_log_is_bounded(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.apps.batch.gates.LOG_BYTES_MAX", 100_000)
    (gate,) = await judge.judged("yes", timeout_s=0.5)
    assert (gate.passed, gate.exit_code) == (False, None)
    assert gate.output.endswith("[still running after 0.5 s: terminated]")
    assert gate.log
    assert Path(gate.log).stat().st_size == 100_000


async def test_what_one_leaves_in_the_background_keeps_nobody_waiting_and_is_ended(
    judge: Judge,
) -> None:
    (gate,) = await judge.judged("sleep 300 & echo $! > pid; echo started")
    assert (gate.passed, gate.output) == (True, "started")
    assert not lives(int((judge.folder / "pid").read_text()))


async def test_one_that_cannot_be_run_fails_and_says_why(judge: Judge) -> None:
    (gate,) = await judge.judged("nobody-knows-this-program")
    assert (gate.passed, gate.exit_code) == (False, 127)
    judge.folder.rmdir()
    (gate,) = await judge.judged("true")
    assert (gate.passed, gate.exit_code) == (False, None)
    assert "does not exist" in gate.output


async def test_standard_input_is_empty_and_nobody_is_at_a_terminal(judge: Judge) -> None:
    (gate,) = await judge.judged("cat; test ! -t 0 && echo $CI $TERM")
    assert gate.output == "true dumb"


async def test_a_secret_that_comes_in_pieces_is_taken_out_of_log_and_tail(judge: Judge) -> None:
    (gate,) = await judge.judged(
        "printf sword; sleep 0.05; echo fish-8812", secrets=Redactor(["swordfish-8812"])
    )
    assert gate.log
    assert "[redacted]" in gate.output
    assert "fish" not in gate.output + Path(gate.log).read_text()


async def test_a_cancelled_one_is_ended_with_all_that_it_started(judge: Judge) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(judge.judged, "(sleep 300 & echo $! > pid.new; mv pid.new pid); sleep 300")
        with anyio.fail_after(10):
            while not (judge.folder / "pid").exists():
                await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert not lives(int((judge.folder / "pid").read_text()))


# ---------------------------------------------------------------- in the sandbox


async def test_where_a_sandbox_works_they_are_confined_by_it(judge: Judge, tmp_path: Path) -> None:
    sandbox = find_sandbox(None)
    if not (await sandbox.standing()).works:
        pytest.skip("no sandbox works here")
    outside = Path("/var/tmp") / f"treadle-gate-{os.getpid()}"
    try:
        commands = (
            f"touch {outside}; touch inside; touch /tmp/private",
            "mkdir -p .vscode; echo '{}' > .vscode/tasks.json; exit 3",
        )
        first, second = await judge.judged(*commands, sandbox=sandbox)
        assert not outside.exists()
        assert (judge.folder / "inside").exists()
        assert first.passed
        assert second.exit_code == 3
        assert not (judge.folder / ".vscode" / "tasks.json").exists()
    finally:
        outside.unlink(missing_ok=True)
        await sandbox.aclose()


# ---------------------------------------------------------------- what a dead process left


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="without /proc they are not found")
async def test_what_a_batch_left_running_is_ended_and_nothing_else(tmp_path: Path) -> None:
    async def started(mark: str) -> anyio.abc.Process:
        return await anyio.open_process(
            ["sleep", "300"], env={**os.environ, LEFT_BY: mark}, start_new_session=True
        )

    ours, others, longer = (
        await started("work_01"),
        await started("work_02"),
        await started("work_01x"),
    )
    try:
        with anyio.fail_after(10):
            await end_leftovers("work_01")
            assert await ours.wait() == -9
        assert others.returncode is None
        assert longer.returncode is None
    finally:
        for process in (others, longer):
            process.kill()
            await process.wait()
