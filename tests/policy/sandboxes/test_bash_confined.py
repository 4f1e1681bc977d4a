"""`bash` inside the sandbox: what it always does, and what it tells of the walls around it."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.policy.sandboxes.conftest import Weakened, needs_bubblewrap
from tests.tools.builtin.test_bash import is_running
from tests.tools.conftest import MakeContext, make_context, spill  # noqa: F401  fixtures
from treadle.policy.sandboxes import bubblewrap, mounts
from treadle.policy.sandboxes.limits import Group
from treadle.tools.builtin.bash import Bash
from treadle.tools.builtin.bash_kill import BashKill
from treadle.tools.builtin.bash_output import BashOutput
from treadle.tools.builtin.jobs import Jobs
from treadle.tools.confinement import CommandRoom, Confinement
from treadle.tools.tool import ToolContext, ToolFailed

pytestmark = needs_bubblewrap
MakeConfined = Callable[..., ToolContext[Any]]


@pytest.fixture
async def confined(
    sandbox: Weakened,
    base: Path,
    make_context: MakeContext,  # noqa: F811
) -> AsyncIterator[MakeConfined]:
    """Makes contexts of one session whose commands are confined to `base/work`."""
    for folder in ("work", "scratch", "quarantine"):
        (base / folder).mkdir()
    kept: dict[Any, Any] = {}
    warned: list[str] = []

    def make(is_open: bool = False, **fields: Any) -> ToolContext[Any]:
        room = CommandRoom(
            workspace=base / "work",
            scratch=lambda: base / "scratch",
            quarantine=lambda: base / "quarantine",
            is_open=is_open,
        )
        fields = {"environment": dict(os.environ), "kept": kept, "tell": warned.append} | fields
        return make_context(base / "work", sandbox=Confinement(sandbox, room), **fields)

    make.warned = warned  # pyright: ignore[reportFunctionMemberAccess]  for those tests that look
    yield make
    if Jobs in kept:
        await kept[Jobs].aclose()


async def said(tool: Any, ctx: ToolContext[Any], **arguments: Any) -> str:
    with anyio.fail_after(250):
        return await tool.execute(ctx, tool.parse(json.dumps(arguments)))


async def bash(ctx: ToolContext[Any], command: str, **arguments: Any) -> str:
    return await said(Bash(), ctx, command=command, **arguments)


# ---------------------------------------------------------------- as ever


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo one; echo two >&2; echo three", "one\ntwo\nthree"),
        ("true", "(no output)"),
        ("exit 3", "(no output)\n[exit code 3]"),
        ("no-such-program 2>/dev/null", "(no output)\n[exit code 127: command not found]"),
        ("kill -TERM $$", "(no output)\n[exit code 143: ended by SIGTERM]"),
        ("cat; read x || echo none", "none"),
        ("set -euo pipefail; false | true", "(no output)\n[exit code 1]"),
        ("trap 'echo bye' EXIT; echo hi", "hi\nbye"),
        ("echo $BASH_ENV$0", "/bin/bash"),
        ("bash -c 'echo $BASH_ENV inner'", "inner"),
        ("exec echo replaced", "replaced"),
    ],
)
async def test_a_command_gives_what_it_gives_outside(
    confined: MakeConfined, command: str, expected: str
) -> None:
    assert await bash(confined(), command) == expected


async def test_it_works_in_the_directory_and_what_it_writes_is_there(
    confined: MakeConfined, base: Path
) -> None:
    assert await bash(confined(), "pwd; mkdir a; echo text > a/file; ls a") == f"{base}/work\nfile"
    assert (base / "work/a/file").read_text() == "text\n"
    assert (base / "work/a/file").stat().st_uid == os.geteuid()


async def test_its_temporary_files_last_for_the_session_and_are_its_own(
    confined: MakeConfined, base: Path
) -> None:
    await bash(
        confined(), "echo kept > /tmp/x; cache=$XDG_CACHE_HOME; mkdir -p $cache && touch $cache/y"
    )
    assert await bash(confined(), "cat /tmp/x; ls /tmp/.cache") == "kept\ny"
    assert (base / "scratch/x").exists()


async def test_what_was_left_running_is_waited_for_a_moment_and_then_ended(
    confined: MakeConfined,
) -> None:
    assert await bash(confined(), "(sleep 0.05; echo late) & echo early") == "early\nlate"
    assert (await bash(confined(), "sleep 100 & echo done")).startswith(
        "done\n[what the command had left running"
    )


async def test_a_timeout_gives_the_output_until_then_and_nothing_lives_on(
    confined: MakeConfined, base: Path
) -> None:
    command = "trap '' TERM; echo begun; (setsid nohup bash -c 'while :; do echo . >> beat; sleep 0.01; done' >/dev/null 2>&1 &); sleep 100"
    with pytest.raises(
        ToolFailed, match=r"(?s)^Timed out after 0\.5 s \(killed\).*\nbegun$"
    ) as raised:
        await bash(confined(), command, timeout_s=0.5)
    assert raised.value.happened is None
    size = (base / "work/beat").stat().st_size
    assert await bash(confined(), "sleep 0.1; stat -c %s beat") == str(size)


async def test_a_cancelled_command_is_asked_first(confined: MakeConfined, base: Path) -> None:
    with anyio.fail_after(250):
        async with anyio.create_task_group() as running:
            running.start_soon(
                bash,
                confined(),
                "trap 'echo bye > bye; exit' TERM; touch up; while :; do sleep 0.01; done",
            )
            while not (base / "work/up").exists():
                await anyio.sleep(0.01)
            running.cancel_scope.cancel()
    assert (base / "work/bye").read_text() == "bye\n"


async def test_cancelling_at_any_moment_leaves_no_descriptor_and_no_process(
    confined: MakeConfined,
) -> None:
    await bash(confined(), "true")
    before = len(os.listdir("/proc/self/fd"))
    for hundredths in range(8):
        with anyio.move_on_after(hundredths / 100):
            await bash(confined(), "sleep 100")
    # the garbage collector may close one of an earlier test meanwhile
    assert len(os.listdir("/proc/self/fd")) <= before


async def test_git_finds_no_dubious_ownership_and_a_commit_needs_nothing_guarded(
    confined: MakeConfined, base: Path
) -> None:
    names = "-c user.name=a -c user.email=a@b.c"
    run = await anyio.run_process(
        ["bash", "-c", f"git init -q && git {names} commit -q --allow-empty -m first"],
        cwd=base / "work",
    )
    assert run.returncode == 0
    assert (
        await bash(
            confined(),
            f"git status --short; echo x > y; git add y && git {names} commit -q -m second && git log --format=%s",
        )
        == "second\nfirst"
    )


async def worktree(base: Path) -> None:
    """`base/work` becomes a worktree of a repository beside it."""
    names = "git -c user.name=a -c user.email=a@b.c"
    script = f"rmdir work; git init -q main && cd main && {names} commit -q --allow-empty -m first && git worktree add -q ../work; rm -rf .git/info"
    assert (await anyio.run_process(["bash", "-c", script], cwd=base)).returncode == 0


async def test_a_worktree_can_be_committed_to_where_everything_was_allowed(
    confined: MakeConfined, base: Path
) -> None:
    await worktree(base)
    commit = "echo x > y; git add y && git -c user.name=a -c user.email=a@b.c commit -q -m second; git log --format=%s"
    assert (await bash(confined(is_open=True), commit)) == "second\nfirst"
    assert "Read-only file system" in await bash(confined(), "touch y2; git add y2")
    assert (await bash(confined(), "git log --format=%s")) == "second\nfirst"


@pytest.mark.parametrize(
    "path",
    [
        "config",
        "hooks/pre-commit",
        "info/attributes",
        "worktrees/work/commondir",
        "worktrees/work/gitdir",
        "worktrees/other/x",
        "modules/sub/config",
    ],
)
async def test_what_names_programs_in_the_repository_of_a_worktree_stays_closed(
    confined: MakeConfined, base: Path, path: str
) -> None:
    await worktree(base)
    target = base / "main/.git" / path
    before = target.read_text() if target.exists() else None
    await bash(
        confined(is_open=True),
        f"mkdir -p {target.parent}; echo x > {target}; mv {target} {target}2; mv {target.parent} {target.parent}2",
    )
    assert (target.read_text() if target.exists() else None) == before
    assert not any(
        file.read_bytes() == b"x\n" for file in (base / "main/.git").rglob("*") if file.is_file()
    )


async def test_where_worktrees_have_configurations_of_their_own_none_can_be_put_there(
    confined: MakeConfined, base: Path
) -> None:
    await worktree(base)
    with (base / "main/.git/config").open("a") as config:
        config.write("[extensions]\n\tworktreeConfig = true\n")
    files = [base / "main/.git/config.worktree", base / "main/.git/worktrees/work/config.worktree"]
    said = await bash(
        confined(is_open=True),
        "; ".join(["git status --short", *(f"echo x > {file}" for file in files)]),
    )
    assert said.count("Read-only file system") == 2
    assert [file.read_text() for file in files] == ["", ""]


async def test_a_file_that_only_says_where_the_repository_is_opens_nothing(
    confined: MakeConfined, base: Path
) -> None:
    (base / "victim/worktrees/w").mkdir(parents=True)
    (base / "victim/config").write_text("")
    (base / "victim/worktrees/w/commondir").write_text("../..")
    (base / "victim/worktrees/w/gitdir").write_text("/somewhere/else/.git")
    (base / "work/.git").write_text(f"gitdir: {base}/victim/worktrees/w")
    assert "Read-only file system" in await bash(
        confined(is_open=True), f"echo x > {base}/victim/objects"
    )


# ---------------------------------------------------------------- the walls


async def test_a_variable_that_is_on_no_list_stays_outside_unless_everything_was_allowed(
    confined: MakeConfined,
) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "LC_ALL": "C",
        "SOME_SETTING": "x",
        "LD_PRELOAD": "./evil.so",
        "PYTHONPATH": ".",
    }
    command = "echo $LC_ALL [$SOME_SETTING] [$LD_PRELOAD] [$PYTHONPATH]"
    assert await bash(confined(environment=environment), command) == "C [] [] []"
    assert await bash(confined(is_open=True, environment=environment), command) == "C [x] [] [.]"


async def test_a_file_that_configures_what_runs_later_is_moved_away_and_both_are_told(
    confined: MakeConfined, base: Path
) -> None:
    result = await bash(confined(), "echo '{}' > .mcp.json; echo fine > other.json")
    moved = base / "quarantine/moved-.mcp.json"
    assert (
        result
        == f"(no output)\n['.mcp.json' is new and decides what runs later: it was moved to '{moved}']"
    )
    assert confined.warned == [f"bash: {result.split(chr(10))[1][1:-1]}"]  # pyright: ignore[reportFunctionMemberAccess]
    assert moved.read_text() == "{}\n"
    assert sorted(os.listdir(base / "work")) == ["other.json"]


async def test_what_was_there_before_stays_and_cannot_be_changed(
    confined: MakeConfined, base: Path
) -> None:
    (base / "work/AGENTS.md").write_text("ours\n")
    assert "Read-only file system" in await bash(confined(), "echo theirs > AGENTS.md")
    assert "busy" in await bash(confined(), "mv AGENTS.md b")
    assert (base / "work/AGENTS.md").read_text() == "ours\n"
    assert os.listdir(base / "quarantine") == []


async def test_many_control_files_make_room_for_none_that_is_not_kept(
    confined: MakeConfined, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "MAX_BINDS", 6)
    (base / "work/.git/hooks").mkdir(parents=True)
    for name in ("!1", "!2", "!3", "!4", "packages/a", "packages/b"):
        (base / "work" / name).mkdir(parents=True)
        (base / "work" / name / ".envrc").write_text("as it was")
    await bash(
        confined(),
        "echo x > .git/hooks/pre-commit; mv .git moved; for d in '!'* packages/*; do echo x > $d/.envrc; done; echo y > '!1/free'; echo y > free",
    )
    assert not any((base / "work/.git/hooks").iterdir())
    assert {file.read_text() for file in (base / "work").rglob(".envrc")} == {"as it was"}
    assert (base / "work/!1/free").exists()
    assert (base / "work/free").exists()


async def test_a_new_repository_stays_where_nothing_in_it_names_a_program(
    confined: MakeConfined, base: Path
) -> None:
    assert await bash(confined(), "git init -q a && git -C a status --short && echo made") == "made"
    assert (base / "work/a/.git").is_dir()
    assert "'b/.git' is new" in await bash(
        confined(), "git init -q b && git -C b config core.fsmonitor ./evil"
    )
    assert not (base / "work/b/.git").exists()


async def test_the_workflows_of_ci_can_be_written_where_everything_was_allowed(
    confined: MakeConfined, base: Path
) -> None:
    (base / "work/.github/workflows").mkdir(parents=True)
    assert "Read-only file system" in await bash(confined(), "echo x > .github/workflows/ci.yml")
    assert await bash(confined(is_open=True), "echo x > .github/workflows/ci.yml") == "(no output)"


async def test_a_job_that_plants_something_is_found_out_by_the_next_command(
    confined: MakeConfined, base: Path
) -> None:
    await bash(
        confined(), "sleep 0.4; echo '{}' > .mcp.json; touch done; sleep 100", background=True
    )
    while not (base / "work/done").exists():
        await anyio.sleep(0.01)
    assert "'.mcp.json' is new" in await bash(confined(), "true")


async def test_too_much_memory_is_told(
    confined: MakeConfined, sandbox: Weakened, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.limits = bubblewrap.CommandLimits(memory_bytes=64 << 20)
    if (group := Group.make(sandbox.limits)) is None:
        pytest.skip("this user may make no control group")
    await group.aclose()
    assert "[it used more than 64 MiB of memory, and was killed for it]" in await bash(
        confined(), "head -c 200000000 /dev/zero | tail; true"
    )


async def test_the_root_of_the_disk_is_no_workspace(
    sandbox: Weakened,
    make_context: MakeContext,  # noqa: F811
    base: Path,
) -> None:
    room = CommandRoom(workspace=Path("/"), scratch=lambda: base, quarantine=lambda: base)
    with pytest.raises(
        ToolFailed, match="Not run: the command cannot be confined: the working directory is '/'"
    ) as raised:
        await bash(make_context(base, sandbox=Confinement(sandbox, room)), "true")
    assert raised.value.happened is False


async def test_a_sandbox_that_cannot_be_made_runs_nothing(
    confined: MakeConfined, sandbox: Weakened, monkeypatch: pytest.MonkeyPatch, base: Path
) -> None:
    await sandbox.standing()
    monkeypatch.setattr(bubblewrap, "guarding", lambda *_: ["--ro-bind", "/no/such/place", "/x"])
    with pytest.raises(
        ToolFailed, match=r"Not run: the sandbox could not be created\..*no/such/place"
    ) as raised:
        await bash(confined(), "touch ran")
    assert raised.value.happened is False
    assert not (base / "work/ran").exists()


# ---------------------------------------------------------------- jobs


async def test_a_job_goes_on_shows_what_is_new_and_is_ended_with_all_it_started(
    confined: MakeConfined, base: Path
) -> None:
    begun = await bash(
        confined(),
        "echo up; (setsid sleep 100 &); while [ ! -e go ]; do sleep 0.01; done; echo more; touch went; sleep 100",
        background=True,
    )
    assert begun.startswith("[job_1 is running in the background")
    assert await said(BashOutput(), confined(), id="job_1") == "up\n[job_1 is running]"
    assert await said(BashOutput(), confined(), id="job_1") == "(no new output)\n[job_1 is running]"
    await bash(confined(), "touch go; while [ ! -e went ]; do sleep 0.01; done")
    ended = await said(BashKill(), confined(), id="job_1")
    # bash may say so too
    assert (
        ended.removeprefix("more\n").removeprefix("Terminated\n")
        == "[job_1 has ended]\n[exit code 143: ended by SIGTERM]"
    )
    assert (
        await said(BashKill(), confined(), id="job_1")
        == "(no new output)\n[job_1 has ended]\n[exit code 143: ended by SIGTERM]\n[it had ended before]"
    )


async def test_the_end_of_a_session_ends_its_jobs(confined: MakeConfined, base: Path) -> None:
    ctx = confined()
    await bash(ctx, "trap '' TERM; while :; do echo . >> beat; sleep 0.01; done", background=True)
    inside = ctx.keep(Jobs).get("job_1")._command.process.pid  # pyright: ignore[reportPrivateUsage]
    assert is_running(inside)
    await ctx.keep(Jobs).aclose()
    assert not is_running(inside)
