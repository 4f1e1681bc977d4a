"""`bash` runs one command, tells what it did, and leaves nothing running."""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.doubles import skip
from tests.tools.conftest import MakeContext, Use
from treadle._internal.environment import find_shell
from treadle.policy.permissions import permissions_of
from treadle.policy.policy import decide_command
from treadle.tools.builtin import bash, commands, processes
from treadle.tools.builtin.bash import Bash, BashArguments
from treadle.tools.tool import InvalidArguments, ToolFailed, Touched
from treadle.tools.truncate import Capture

BASH = Bash()

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(),
    reason="processes that left their group are found through /proc only",
)


def is_running(pid: int) -> bool:
    """False for the dead that nobody has collected yet."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] not in "ZX"


async def pids_in(directory: Path, count: int) -> list[int]:
    """The process ids that the command writes as names of files, once all are there."""
    with anyio.fail_after(10):
        while (
            len(found := [int(p.name) for p in directory.iterdir() if p.name.isdecimal()]) < count
        ):
            await anyio.sleep(0.01)
    return found


# ---------------------------------------------------------------- the result


async def test_both_outputs_come_in_the_order_in_which_they_were_written(use: Use) -> None:
    assert await use(BASH, command="echo one; echo two >&2; echo three") == "one\ntwo\nthree"


async def test_a_command_without_output_says_so(use: Use) -> None:
    assert await use(BASH, command="true") == "(no output)"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("exit 3", "(no output)\n[exit code 3]"),
        ("echo x; false", "x\n[exit code 1]"),
        ("no-such-program 2>/dev/null", "(no output)\n[exit code 127: command not found]"),
        ("/dev/null 2>/dev/null", "(no output)\n[exit code 126: cannot be executed]"),
        ("(kill -9 $BASHPID); exit $?", "[exit code 137: ended by SIGKILL]"),
        ("exit 255", "(no output)\n[exit code 255]"),
    ],
)
async def test_an_exit_code_other_than_zero_is_a_normal_result(
    use: Use, command: str, said: str
) -> None:
    assert (await use(BASH, command=command)).endswith(said)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("true", 0),
        ("exit 3", 3),
        ("no-such-program", 127),
        ("/dev/null", 126),
        ("(kill -9 $BASHPID); exit $?", 137),
        ("kill -TERM $$", 143),
    ],
)
async def test_a_call_gives_its_exit_code_beside_its_text(
    make_context: MakeContext, tmp_path: Path, command: str, code: int
) -> None:
    codes = list[int]()
    with suppress(ToolFailed):
        await BASH.execute(
            make_context(tmp_path, on_exit=codes.append), BashArguments(command=command)
        )
    assert codes == [code]


async def test_a_shell_that_dies_of_a_signal_is_an_error_that_did_happen(use: Use) -> None:
    with pytest.raises(ToolFailed, match=r"^so far\n\[the shell was ended by SIGTERM\]$") as raised:
        await use(BASH, command="echo so far; kill -TERM $$")
    assert raised.value.happened is True


async def test_it_runs_in_the_working_directory_in_bash(use: Use, tmp_path: Path) -> None:
    assert (
        await use(BASH, command="pwd -P; [[ a == a ]] && echo $0")
        == f"{tmp_path.resolve()}\n/bin/bash"
    )


async def test_nothing_lasts_from_one_call_to_the_next(use: Use, tmp_path: Path) -> None:
    await use(BASH, command="cd /; X=1; export X")
    assert await use(BASH, command="echo [$X] $PWD") == f"[] {tmp_path.resolve()}"


async def test_there_is_no_input_and_no_terminal(use: Use) -> None:
    with anyio.fail_after(20):
        assert (
            await use(
                BASH, command="cat; read x || echo none; test -t 0 || test -t 1 || echo no terminal"
            )
            == "none\nno terminal"
        )


async def test_the_environment_is_the_one_given_and_says_that_nobody_is_there(
    make_context: MakeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    context = make_context(
        tmp_path, environment={"PATH": os.environ["PATH"], "MINE": "yes", "TERM": "xterm"}
    )
    shown = await BASH.execute(context, BashArguments(command="env"))
    lines = set(shown.split("\n"))
    assert {
        "MINE=yes",
        "TERM=dumb",
        "CI=true",
        "PAGER=cat",
        "GIT_PAGER=cat",
        "AI_AGENT=treadle",
        "NONINTERACTIVE=1",
    } <= lines
    assert "sk-secret" not in shown


@pytest.mark.parametrize(
    "command",
    [
        "-n",
        "--help >/dev/null; echo ran",
        "echo 'a b' \"c\"",
        "# nothing\necho two\n\n",
        "cat <<'E'\n$x\nE\n",
    ],
)
async def test_a_command_is_never_an_option_of_the_shell(use: Use, command: str) -> None:
    assert await use(BASH, command=command)


async def test_output_that_is_not_text_becomes_text(use: Use) -> None:
    shown = await use(
        BASH, command=r"printf '\xff\x00\x01a\x1b[31mred\x1b[0m\r\n10%%\r20%%\rdone\xc5\xbc'"
    )
    assert shown == "\ufffdared\ndoneż"


async def test_a_random_stream_is_told_as_text(use: Use) -> None:
    shown = await use(BASH, command="head -c 300000 /dev/urandom")
    assert "\0" not in shown
    assert len(shown) <= BASH.max_output
    shown.encode()


async def test_two_hundred_megabytes_of_output_leave_memory_flat(use: Use) -> None:
    await use(BASH, command="seq 100000")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    shown = await use(
        BASH, command="yes 'a line of output that goes on and on' | head -c 200000000; echo the end"
    )
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * (1 if sys.platform == "darwin" else 1024) < 20_000_000
    assert len(shown) <= BASH.max_output
    assert shown.startswith("a line of output")
    assert "the end" in shown[-30:]
    (path,) = re.findall(r"its first 64 MiB are in (\S+):", shown)
    assert Path(path).stat().st_size < 65 * 1024 * 1024
    assert Path(path).stat().st_mode & 0o777 == 0o600


async def test_the_note_is_kept_where_the_output_is_cut(use: Use) -> None:
    shown = await use(BASH, command="seq 100000; exit 7")
    assert shown.endswith("\n100000\n[exit code 7]")
    assert len(shown.split("\n")) <= 2_000


async def test_progress_tells_the_newest_line(make_context: MakeContext, tmp_path: Path) -> None:
    told: list[str] = []
    context = make_context(tmp_path, report=lambda text, done, total: told.append(text))
    await BASH.execute(context, BashArguments(command="for i in 1 2 3; do echo step $i; done"))
    assert told
    assert set(told) <= {"step 1", "step 2", "step 3"}


# ---------------------------------------------------------------- what is left running


async def test_a_background_child_does_not_keep_the_call_waiting_and_is_ended(
    use: Use, tmp_path: Path
) -> None:
    with anyio.fail_after(20):
        shown = await use(BASH, command="sleep 100 & touch $!; echo done")
    assert shown == "done\n[what the command had left running in the background was ended]"
    assert not is_running(*await pids_in(tmp_path, 1))


async def test_a_background_child_that_holds_no_pipe_is_ended_too(use: Use, tmp_path: Path) -> None:
    assert "was ended" in await use(BASH, command="nohup sleep 100 >/dev/null 2>&1 & touch $!")
    assert not is_running(*await pids_in(tmp_path, 1))


@needs_proc
async def test_a_background_child_in_a_session_of_its_own_is_ended_with_its_pipe(
    use: Use, tmp_path: Path
) -> None:
    shown = await use(
        BASH,
        command="setsid bash -c 'touch $$; exec sleep 100' & while [ -z \"$(ls)\" ]; do sleep 0.01; done; echo done",
    )
    assert shown.startswith("done")
    assert not is_running(*await pids_in(tmp_path, 1))


async def test_output_that_comes_just_after_the_shell_is_kept(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bash, "_LAST_WORDS_S", 5.0)
    assert (await use(BASH, command="(sleep 0.05; echo late) & echo early")) == "early\nlate"


# ---------------------------------------------------------------- timeouts


Cut = Callable[[int, str], Awaitable[ToolFailed]]


@pytest.fixture
def cut(make_context: MakeContext, tmp_path: Path) -> Cut:
    """Return the failure of a command that says `begun`, and whose timeout passes once it has named
    so many processes. None of them runs on.
    """

    async def cut(pids: int, command: str) -> ToolFailed:
        failures, followed = list[ToolFailed](), anyio.Event()
        context = make_context(tmp_path, report=lambda *_: followed.set())
        words = {"command": f"echo begun; {command}", "timeout_s": 60}

        async def runs() -> None:
            with pytest.raises(ToolFailed) as raised:
                await BASH.execute(context, BASH.parse(json.dumps(words)))
            failures.append(raised.value)

        async with anyio.create_task_group() as group:
            group.start_soon(runs)
            started = await pids_in(tmp_path, pids)
            await followed.wait()  # its time runs only then
            skip(60)
            group.cancel_scope.deadline = anyio.current_time() + 20
        assert not any(map(is_running, started))
        return failures[0]

    return cut


async def test_a_timeout_kills_at_once_and_gives_the_output_until_then(cut: Cut) -> None:
    failed = await cut(1, "trap '' TERM; sleep 100 & touch $!; wait")
    assert failed.message == (
        "Timed out after 60 s (killed): pass a larger timeout_s, or run it with background=true.\n"
        "Everything that it had started was killed too. Its output until then:\nbegun"
    )
    assert failed.happened is None


@needs_proc
async def test_a_timeout_finds_those_who_left_the_group(cut: Cut) -> None:
    script = "touch $$; trap '' TERM HUP; while :; do sleep 0.05; done"
    command = f"setsid bash -c {shlex.quote(script)} >/dev/null 2>&1 & (setsid bash -c {shlex.quote(script)} &) ; sleep 100"
    await cut(2, command)


@needs_proc
async def test_a_descendant_with_another_environment_is_found_by_its_parents(cut: Cut) -> None:
    await cut(1, "env -i setsid /bin/bash -c 'touch $$; sleep 100; :'; :")


async def test_a_program_that_never_stops_writing_is_stopped_by_its_timeout(use: Use) -> None:
    with anyio.fail_after(20), pytest.raises(ToolFailed, match="was killed"):
        await use(BASH, command="yes", timeout_s=0.5)


async def test_a_pipe_that_is_never_empty_does_not_keep_everybody_else_waiting(
    make_context: MakeContext, tmp_path: Path
) -> None:
    endless = os.open("/dev/zero", os.O_RDONLY)
    try:
        with (
            anyio.fail_after(20),
            anyio.move_on_after(0.1) as limit,
            Capture(lambda text: tmp_path) as capture,
        ):
            await bash._Output(endless, capture, make_context(tmp_path), anyio.Event()).follow()  # pyright: ignore[reportPrivateUsage]
    finally:
        os.close(endless)
    assert limit.cancelled_caught


async def test_a_longer_timeout_than_possible_is_cut_and_said(use: Use) -> None:
    assert (
        await use(BASH, command="echo x", timeout_s=1_000)
        == "x\n[timeout_s was 1000; 600 is the most]"
    )


async def test_how_long_it_took_is_told_only_where_it_was_long(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bash, "_LONG_S", 0.0)
    assert await use(BASH, command="true") == "(no output)\n[took 0 s]"


# ---------------------------------------------------------------- cancellation


async def cancelled(context: Any, command: str, directory: Path, count: int) -> list[int]:
    """Cancels the command once `count` process ids are there, and gives them."""
    pids: list[int] = []
    with anyio.fail_after(20):
        async with anyio.create_task_group() as running:
            running.start_soon(BASH.execute, context, BashArguments(command=command))
            pids += await pids_in(directory, count)
            running.cancel_scope.cancel()
    return pids


async def test_cancelling_ends_the_grandchildren(make_context: MakeContext, tmp_path: Path) -> None:
    command = "bash -c 'touch $$; bash -c \"touch \\$\\$; sleep 100 & touch \\$!; wait\"; :'; :"
    for pid in await cancelled(make_context(tmp_path), command, tmp_path, 3):
        assert not is_running(pid)


async def test_a_cancelled_command_is_asked_first(
    make_context: MakeContext, tmp_path: Path
) -> None:
    await cancelled(
        make_context(tmp_path),
        "trap 'echo bye > bye; exit' TERM; touch $$; while :; do sleep 0.01; done",
        tmp_path,
        1,
    )
    assert (tmp_path / "bye").read_text() == "bye\n"


async def test_one_that_ignores_sigterm_is_killed_after_its_grace(
    make_context: MakeContext, tmp_path: Path
) -> None:
    (pid,) = await cancelled(
        make_context(tmp_path), "trap '' TERM; touch $$; while :; do sleep 0.01; done", tmp_path, 1
    )
    assert not is_running(pid)


@needs_proc
async def test_cancelling_finds_those_who_left_the_group(
    make_context: MakeContext, tmp_path: Path
) -> None:
    command = "setsid bash -c 'trap \"\" TERM HUP; touch $$; while :; do sleep 0.01; done' >/dev/null 2>&1 & touch $$; wait"
    for pid in await cancelled(make_context(tmp_path), command, tmp_path, 2):
        assert not is_running(pid)


@needs_proc
async def test_cancelling_leaves_no_descriptor_open(
    make_context: MakeContext, tmp_path: Path
) -> None:
    await cancelled(make_context(tmp_path), "touch $$; sleep 100", tmp_path, 1)
    before = len(os.listdir("/proc/self/fd"))
    (tmp_path / "again").mkdir()
    await cancelled(make_context(tmp_path / "again"), "touch $$; sleep 100", tmp_path / "again", 1)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_other_processes_are_left_alone(make_context: MakeContext, tmp_path: Path) -> None:
    async with await anyio.open_process(["sleep", "100"]) as bystander:
        await cancelled(make_context(tmp_path), "touch $$; sleep 100", tmp_path, 1)
        assert is_running(bystander.pid)
        bystander.kill()


# ---------------------------------------------------------------- what cannot be started


async def test_what_cannot_be_started_is_told_and_did_not_happen(
    make_context: MakeContext, use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[ToolFailed] = []
    with pytest.raises(
        ToolFailed, match=r"characters long, more than can be started: write it to a file"
    ) as raised:
        await use(BASH, command="true " + "x" * 3_000_000)
    failures.append(raised.value)
    with pytest.raises(
        ToolFailed, match=r"The working directory '.*gone' does not exist"
    ) as raised:
        await BASH.execute(make_context(tmp_path / "gone"), BashArguments(command="true"))
    failures.append(raised.value)
    monkeypatch.setattr(commands, "find_shell", lambda path: str(tmp_path / "no-shell"))
    with pytest.raises(ToolFailed, match="no-shell' could not be started: No such file") as raised:
        await use(BASH, command="true")
    failures.append(raised.value)
    assert [failure.happened for failure in failures] == [False, False, False]


async def test_windows_is_told_to_use_wsl(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ToolFailed, match=r"no bash on Windows\. Use WSL"):
        await use(BASH, command="true")


def test_without_bash_a_command_that_would_run_unasked_is_held(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def verdict() -> str:
        return decide_command("ask", "ls", tmp_path, permissions_of()).verdict

    assert (find_shell(os.environ["PATH"]), verdict()) == ("/bin/bash", "allow")
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: os.path.basename(path) != "bash" and access(path, mode)
    )
    assert (find_shell(os.environ["PATH"]), verdict()) == ("/bin/sh", "contained")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"command": "  "}', "The command is empty"),
        ('{"command": "a\\u0000b"}', "NUL"),
        ('{"command": "x", "timeout_s": 0}', "more than 0"),
        ('{"command": "x", "timeout_s": "soon"}', 'timeout_s must be a number, not "soon"'),
        ('{"command": "x", "timeout": 5}', r"there is no 'timeout' \(did you mean 'timeout_s'\?\)"),
        ('{"cmd": "x"}', r"there is no 'cmd'"),
    ],
)
def test_a_wrong_call_is_told_how_to_be_right(arguments: str, said: str) -> None:
    with pytest.raises(InvalidArguments, match=said):
        BASH.parse(arguments)


def test_what_it_touches_is_for_the_policy_to_find_out() -> None:
    arguments = BASH.parse('{"command": "true", "timeout_s": "30"}')
    assert arguments == BashArguments(command="true", timeout_s=30.0)
    assert BASH.touches(arguments, Path("/")) == Touched(command="true")
    assert (BASH.effect, BASH.timeout_s) == ("once", None)


@needs_proc
async def test_a_pid_that_was_used_again_is_not_killed() -> None:
    async with await anyio.open_process(["sleep", "100"], start_new_session=True) as bystander:
        stale = frozenset({processes.ProcessIdentity(bystander.pid, "an earlier start")})
        async with await anyio.open_process(["true"]) as gone:
            await gone.wait()
        await processes.Tree(gone.pid, "no such mark").kill(stale)
        assert is_running(bystander.pid)
        os.kill(bystander.pid, signal.SIGKILL)


@needs_proc
async def test_a_group_whose_name_was_used_again_is_not_killed() -> None:
    async with await anyio.open_process(["sleep", "100"], start_new_session=True) as stranger:
        tree = processes.Tree(stranger.pid, "no such mark", "an earlier start")
        with anyio.fail_after(20):
            await tree.group_ended()
            await tree.end()
            await tree.kill()
        tree.kill_now()
        assert is_running(stranger.pid)
        os.kill(stranger.pid, signal.SIGKILL)
