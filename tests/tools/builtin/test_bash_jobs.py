"""Jobs in the background, unconfined: what they write is shown once, and nothing outlives the
session.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.doubles import skip
from tests.tools.builtin.test_bash import is_running, needs_proc, pids_in
from tests.tools.conftest import MakeContext
from treadle import Agent, Runtime, tool
from treadle.testing import ScriptedModel
from treadle.tools.builtin import jobs as jobs_module
from treadle.tools.builtin.bash import Bash
from treadle.tools.builtin.bash_kill import BashKill
from treadle.tools.builtin.bash_output import BashOutput
from treadle.tools.builtin.jobs import Jobs
from treadle.tools.tool import Happened, InvalidArguments, ToolContext, ToolFailed
from treadle.types import Limits, Outcome

BASH, OUTPUT, KILL = Bash(), BashOutput(), BashKill()
Context = Callable[[], ToolContext[Any]]


@pytest.fixture
async def context(make_context: MakeContext, tmp_path: Path) -> AsyncIterator[Context]:
    kept: dict[Any, Any] = {}
    yield lambda: make_context(tmp_path, kept=kept)
    if Jobs in kept:
        await kept[Jobs].aclose()


async def said(tool: Any, ctx: ToolContext[Any], **arguments: Any) -> str:
    with anyio.fail_after(20):
        return await tool.execute(ctx, tool.parse(json.dumps(arguments)))


async def shown(ctx: ToolContext[Any], until: str, job: str = "job_1") -> str:
    """What the job says, asked for again and again until it says `until`."""
    text = ""
    with anyio.fail_after(20):
        while until not in text:
            text += await said(OUTPUT, ctx, id=job)
            await anyio.sleep(0.01)
    return text


async def test_a_job_goes_on_and_what_it_writes_is_shown_once(context: Context) -> None:
    begun = await said(
        BASH,
        context(),
        command="echo up; while [ ! -e go ]; do sleep 0.01; done; echo down",
        background=True,
    )
    assert (
        begun
        == "[job_1 is running in the background: bash_output shows what it writes, bash_kill ends it; it ends with the session at the latest]"
    )
    assert "up\n[job_1 is running]" in await shown(context(), "up")
    assert await said(OUTPUT, context(), id="job_1") == "(no new output)\n[job_1 is running]"
    await said(BASH, context(), command="touch go")
    last = await shown(context(), "[job_1 has ended]")
    assert last.count("down\n") == 1
    assert last.endswith("[job_1 has ended]\n[exit code 0]")
    assert (
        await said(OUTPUT, context(), id="job_1")
        == "(no new output)\n[job_1 has ended]\n[exit code 0]"
    )


async def test_bash_output_can_wait_for_the_end(context: Context) -> None:
    await said(BASH, context(), command="sleep 0.5; echo done", background=True)
    assert (
        await said(OUTPUT, context(), id="job_1", wait_s=60, until="end")
        == "done\n[job_1 has ended]\n[exit code 0]"
    )
    assert context().keep(Jobs).news() == []


async def test_a_wait_ends_at_new_output_and_at_the_end(context: Context, tmp_path: Path) -> None:
    """The job goes on only when it is told to, so that no wait can have ended for another reason."""
    os.mkfifo(tmp_path / "go")
    await said(
        BASH, context(), command="cat go > /dev/null; echo one; cat go > /dev/null", background=True
    )
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, (tmp_path / "go").write_text, "x")
            assert (
                await said(OUTPUT, context(), id="job_1", wait_s=600) == "one\n[job_1 is running]"
            )
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, (tmp_path / "go").write_text, "x")
            assert (
                await said(OUTPUT, context(), id="job_1", wait_s=600)
                == "(no new output)\n[job_1 has ended]\n[exit code 0]"
            )
        assert (await said(OUTPUT, context(), id="job_1", wait_s=600)).startswith(
            "(no new output)\n[job_1 has ended]"
        )


async def test_a_wait_ends_at_once_for_output_that_was_not_shown(
    context: Context, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    await said(BASH, context(), command="cat go > /dev/null; echo one; sleep 600", background=True)
    job = context().keep(Jobs).get("job_1")
    with anyio.fail_after(20):
        await anyio.to_thread.run_sync((tmp_path / "go").write_text, "x")
        await job.wait(600, to_the_end=False)
        await job.wait(600, to_the_end=False)
        assert await said(OUTPUT, context(), id="job_1", wait_s=600) == "one\n[job_1 is running]"
        assert (
            await said(OUTPUT, context(), id="job_1", wait_s=0.01)
            == "(no new output)\n[job_1 is running]"
        )


async def test_a_wait_counts_as_time_of_the_run_and_the_job_outlives_it_in_its_session(
    tmp_path: Path,
) -> None:
    call = {"name": "bash", "arguments": {"command": "sleep 600", "background": True}}
    wait = {"name": "bash_output", "arguments": {"id": "job_1", "wait_s": 600}}
    model = ScriptedModel(
        [
            {"tool_calls": [call]},
            {"tool_calls": [wait]},
            {"tool_calls": [{"name": "bash_output", "arguments": {"id": "job_1"}}]},
            {"text": "ok"},
        ]
    )
    async with Runtime.open("memory:") as runtime:
        session = runtime.session("s", agent=Agent(name="a", model=model, tools=[BASH, OUTPUT]))
        with anyio.fail_after(30):
            result = await session.send("go", cwd=tmp_path, mode="full", limits=Limits(seconds=2))
            assert result.outcome is Outcome.TIMEOUT
            result = await session.send("go on", cwd=tmp_path, mode="full")
    assert "[job_1 is running]" in [r.text for m in result.messages for r in m.tool_results][-1]


async def test_waiting_again_and_again_is_no_loop(tmp_path: Path) -> None:
    call = {"name": "bash", "arguments": {"command": "sleep 600", "background": True}}
    wait = {"name": "bash_output", "arguments": {"id": "job_1", "wait_s": 0.01}}
    model = ScriptedModel([{"tool_calls": [call]}, *[{"tool_calls": [wait]}] * 12, {"text": "ok"}])
    async with Runtime.open("memory:") as runtime:
        result = await runtime.run(
            Agent(name="a", model=model, tools=[BASH, OUTPUT]), "go", cwd=tmp_path, mode="full"
        )
    assert result.outcome is Outcome.COMPLETED


async def test_the_model_is_told_once_when_a_job_has_ended(tmp_path: Path) -> None:
    async def wait(ctx: ToolContext[None]) -> None:
        await ctx.keep(Jobs).get("job_1").wait(20)

    bash = {"name": "bash", "arguments": {"command": "sleep 0.5; exit 3", "background": True}}
    model = ScriptedModel(
        [
            {"tool_calls": [bash]},
            {"tool_calls": [{"name": "wait", "arguments": {}}]},
            {"tool_calls": [{"name": "wait", "arguments": {}}]},
            {"text": "ok"},
        ]
    )
    async with Runtime.open("memory:") as runtime:
        result = await runtime.run(
            Agent(name="a", model=model, tools=[BASH, tool(wait)]), "go", cwd=tmp_path, mode="full"
        )
    told = [message.text for message in result.messages if message.role == "user"]
    assert told == ["go", "[job_1 has ended with exit code 3: bash_output shows what it wrote]"]


async def test_one_that_fails_at_once_tells_at_once(context: Context) -> None:
    assert (
        await said(BASH, context(), command="echo broken; exit 3", background=True)
        == "broken\n[job_1 has ended already]\n[exit code 3]"
    )


async def test_long_output_keeps_its_ends_and_names_the_file_with_the_whole(
    context: Context,
) -> None:
    result = await said(BASH, context(), command="seq 100000", background=True)
    result = result if "ended already" in result else await shown(context(), "has ended]")
    assert "the whole is in" in result
    assert result.startswith("1\n2\n")
    assert "\n100000\n[job_1 " in result, "its end, perhaps shown before it was over"


async def test_one_that_never_stops_writing_keeps_nobody_waiting_and_memory_flat(
    context: Context,
) -> None:
    await said(BASH, context(), command="yes", background=True)
    for _ in range(3):
        assert "[job_1 is running]" in await said(OUTPUT, context(), id="job_1")
    assert "[job_1 has ended]" in await said(KILL, context(), id="job_1")


async def test_ids_are_not_used_again_and_a_wrong_one_is_told_which_there_are(
    context: Context,
) -> None:
    await said(BASH, context(), command="true", background=True)
    assert "[job_2 is running" in await said(BASH, context(), command="sleep 100", background=True)
    with pytest.raises(
        ToolFailed,
        match=r"^There is no job 'job_3'\. There are: job_1 \(ended\), job_2 \(running\)\.$",
    ):
        await said(OUTPUT, context(), id="job_3")


async def test_where_there_are_none_that_is_told(context: Context) -> None:
    for each in (OUTPUT, KILL):
        with pytest.raises(
            ToolFailed,
            match=r"There is no job 'x'\. None was started, or they ended with the process that had them",
        ):
            await said(each, context(), id="x")


async def test_a_job_is_killed_with_all_that_it_started(context: Context, tmp_path: Path) -> None:
    await said(
        BASH,
        context(),
        command="trap '' TERM; touch $$; sleep 100 & touch $!; (sleep 100 & touch $!; wait) & wait; sleep 100",
        background=True,
    )
    pids = await pids_in(tmp_path, 3)
    assert (await said(KILL, context(), id="job_1")).startswith(
        "(no new output)\n[job_1 has ended]\n[the shell was ended by SIGKILL]"
    )
    assert not any(map(is_running, pids))


@needs_proc
async def test_one_whose_shell_has_ended_leaves_nothing_running(
    context: Context, tmp_path: Path
) -> None:
    await said(BASH, context(), command="setsid sleep 100 & touch $!", background=True)
    await shown(context(), "[job_1 has ended]")
    (left,) = await pids_in(tmp_path, 1)
    # what is killed takes a moment to die, of a session of its own nobody is told
    with anyio.fail_after(20):
        while is_running(left):
            await anyio.sleep(0.01)


async def test_a_timeout_ends_it_at_its_time(context: Context, tmp_path: Path) -> None:
    assert "[job_1 is running" in await said(
        BASH, context(), command="touch $$; sleep 100", background=True, timeout_s=60
    )
    started = await pids_in(tmp_path, 1)
    skip(60)
    assert "[job_1 ran out of time and was killed]" in await shown(context(), "[job_1 ran out")
    assert not any(map(is_running, started))


async def test_there_is_a_most_of_them(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_module, "MAX_RUNNING", 2)
    for _ in range(2):
        await said(BASH, context(), command="sleep 100", background=True)
    with pytest.raises(
        ToolFailed, match=r"2 jobs run already \(job_1, job_2\): end one with bash_kill first"
    ):
        await said(BASH, context(), command="sleep 100", background=True)
    await said(KILL, context(), id="job_1")
    assert "[job_3 is running" in await said(BASH, context(), command="sleep 100", background=True)


async def test_no_descriptor_stays_open(context: Context) -> None:
    await said(BASH, context(), command="true", background=True)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(3):
        await said(BASH, context(), command="sleep 100", background=True)
    await context().keep(Jobs).aclose()
    assert not before or len(os.listdir("/proc/self/fd")) == before


async def test_a_cancelled_start_leaves_no_job(context: Context, tmp_path: Path) -> None:
    with anyio.fail_after(20):
        async with anyio.create_task_group() as running:
            running.start_soon(
                BASH.execute,
                context(),
                BASH.parse('{"command": "touch $$; sleep 100", "background": true}'),
            )
            pids = await pids_in(tmp_path, 1)
            running.cancel_scope.cancel()
    assert not any(map(is_running, pids))


async def test_whoever_resumes_knows_that_a_job_to_be_killed_is_gone(context: Context) -> None:
    arguments = KILL.parse('{"id": "job_1"}')
    assert await KILL.probe(context(), arguments) == Happened(
        "[job_1 has ended, with the process that had started it]"
    )
    await said(BASH, context(), command="sleep 100", background=True)
    assert await KILL.probe(context(), arguments) is None
    assert (KILL.effect, OUTPUT.effect) == ("once", "pure")


def test_a_time_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="more than 0"):
        BASH.parse('{"command": "x", "background": true, "timeout_s": -1}')


# ---------------------------------------------------------------- whose they are


def script(*commands: dict[str, Any]) -> ScriptedModel:
    return ScriptedModel([{"tool_calls": [command]} for command in commands] + [{"text": "done"}])


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


BEAT = "while :; do echo . >> beat; sleep 0.01; done"


async def test_a_job_lives_as_long_as_the_runtime_where_there_is_a_session(tmp_path: Path) -> None:
    beat = tmp_path / "beat"
    async with Runtime() as runtime:
        agent = Agent(
            name="a",
            model=script(call("bash", command=BEAT, background=True)),
            tools=[BASH, OUTPUT],
        )
        await runtime.run(agent, "go", session="s", cwd=tmp_path)
        size = beat.stat().st_size
        with anyio.fail_after(10):
            while beat.stat().st_size == size:
                await anyio.sleep(0.01)
        later = Agent(name="b", model=script(call("bash_output", id="job_1")), tools=[BASH, OUTPUT])
        second = await runtime.run(later, "look", session="s", cwd=tmp_path)
        assert "[job_1 is running]" in second.messages[-2].tool_results[0].text
    size = beat.stat().st_size
    await anyio.run_process(["sleep", "0.1"])
    assert beat.stat().st_size == size


async def test_without_a_session_it_ends_with_the_run(tmp_path: Path) -> None:
    async with Runtime() as runtime:
        agent = Agent(
            name="a", model=script(call("bash", command=BEAT, background=True)), tools=[BASH]
        )
        await runtime.run(agent, "go", cwd=tmp_path)
        size = (tmp_path / "beat").stat().st_size
        await runtime.run(
            Agent(name="b", model=script(call("bash", command="sleep 0.1")), tools=[BASH]),
            "go",
            cwd=tmp_path,
        )
        assert (tmp_path / "beat").stat().st_size == size
