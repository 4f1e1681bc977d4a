"""`treadle.open`: a runtime for scripts and web frameworks without an event loop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

import treadle
from tests.doubles import asks, call, says
from treadle import Agent, AgentError, SyncRuntime, tool
from treadle.testing import ScriptedModel
from treadle.types import Outcome


@tool(effect="pure")
def look() -> str:
    """Look around."""
    return "rain"


def agent(*script: dict[str, Any]) -> Agent[object, str]:
    return Agent(name="tester", model=ScriptedModel(list(script)), tools=[look])


@tool(effect="pure")
async def wait() -> str:
    """Wait for ever."""
    return await anyio.sleep_forever()


def waiting() -> Agent[object, str]:
    return Agent(name="tester", model=ScriptedModel([asks(call("wait"))]), tools=[wait])


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/runs.db"


def test_a_run_is_made_resumed_forked_read_and_counted(url: str) -> None:
    one = agent(asks(call("look", "a")), says("Rain."), says("Still rain."))
    with treadle.open(url) as rt:
        result = rt.run(one, "How is it?", session="ada")
        assert (result.text, result.outcome) == ("Rain.", Outcome.COMPLETED)
        assert rt.resume(result.run_id, one).text == "Rain."
        assert rt.fork(result.run_id, turn=1, agent=one, text="And now?").text == "Still rain."
        assert rt.events(result.run_id)[0].type == "run_start"
        assert rt.kill(result.run_id).status == "finished"
        assert len(rt.call(rt.runtime.journal.runs, session_id="ada")) == 1


def test_events_and_text_are_read_while_a_run_goes_on(url: str) -> None:
    with treadle.open(url) as rt:
        with rt.stream(agent(asks(call("look", "a"), text="I look. "), says("Rain.")), "go") as run:
            kinds = [event.type for event in run]
        assert kinds[0] == "run_start"
        assert kinds[-1] == "run_end"
        assert run.result.text == "Rain."
        with rt.stream(agent(asks(call("look", "a"), text="I look. "), says("Rain.")), "go") as run:
            assert "".join(run.text_stream()) == "I look. Rain."
        counts = Agent(name="tester", model=ScriptedModel([says('{"result": 3}')]), output=int)
        with rt.stream(counts, "go") as run:
            assert list(run.output_stream()) == [3]


def test_leaving_a_stream_early_cancels_its_run(url: str) -> None:
    with treadle.open(url) as rt:
        with rt.stream(waiting(), "go") as run:
            next(iter(run))
        assert run.result.outcome is Outcome.CANCELLED


def test_a_run_is_steered_and_cancelled_from_its_reader() -> None:
    with treadle.open() as rt, rt.stream(waiting(), "go") as run:
        run.steer("Come home.")
        run.cancel()
    assert run.result.outcome is Outcome.CANCELLED


def test_threads_share_a_runtime(url: str) -> None:
    def visit(rt: SyncRuntime, user: int) -> str:
        one = agent(asks(call("look", "a")), says(f"Hello {user}."))
        return rt.run(one, "Hi!", session=f"user-{user}").text

    with treadle.open(url) as rt, ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda user: visit(rt, user), range(24)))
        assert texts == [f"Hello {user}." for user in range(24)]
        assert len(rt.call(rt.runtime.journal.runs)) == 24


def test_errors_before_a_run_come_through(url: str) -> None:
    with treadle.open(url) as rt:
        with pytest.raises(AgentError, match="unknown run 'nowhere'"):
            rt.resume("nowhere", agent())
        with pytest.raises(AgentError, match="missing"):
            rt.run(Agent(name="a", model="script:missing.json"), "Hi!")
    with pytest.raises(AgentError, match="nosql"):
        treadle.open("nosql:///runs.db")


async def test_inside_an_event_loop_it_says_what_to_use() -> None:
    rt = treadle.open()
    with pytest.raises(AgentError, match=r"use `async with Runtime.open\(…\)` there"):
        rt.run(agent(says("Hi.")), "Hi!")


def test_a_closed_runtime_says_so() -> None:
    rt = treadle.open()
    rt.run(agent(says("Hi.")), "Hi!")
    rt.close()
    rt.close()
    with pytest.raises(AgentError, match="this runtime is closed: open a new one"):
        rt.run(agent(says("Hi.")), "Hi!")


def test_star_imports_keep_the_built_in_open() -> None:
    assert "open" not in treadle.__all__
    assert "open" in dir(treadle)


def program(text: str, url: str) -> subprocess.Popen[str]:
    """Start a program that imports what these tests do; `url` is its first argument."""
    head = """
    import os, sys, time
    import treadle
    from treadle import Agent, tool
    from treadle.testing import ScriptedModel

    @tool(effect="idempotent")
    async def wait() -> str:
        import anyio
        print("waits", flush=True)
        await anyio.sleep_forever()

    url = sys.argv[1]
    calls = [{"id": "a", "name": "wait", "arguments": {}}]
    slow = Agent(name="slow", model=ScriptedModel([{"tool_calls": calls}]), tools=[wait])
    quick = Agent(name="quick", model=ScriptedModel([{"text": "Hi."}] * 9))
    """
    source = textwrap.dedent(head) + textwrap.dedent(text)
    return subprocess.Popen(
        [sys.executable, "-c", source, url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ctrl_c_ends_a_run_as_cancelled(url: str) -> None:
    running = program(
        """
        with treadle.open(url) as rt:
            rt.run(slow, "go", run_id="run_slow")
        """,
        url,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "waits\n"
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=200)
    assert said.strip().endswith("KeyboardInterrupt")
    with treadle.open(url) as rt:
        assert rt.call(rt.runtime.journal.info, "run_slow").outcome == "cancelled"


def test_a_program_that_exits_without_closing_leaves_its_run_to_be_resumed(url: str) -> None:
    running = program(
        """
        rt = treadle.open(url)
        run = rt.stream(slow, "go", run_id="run_slow").__enter__()
        for event in run:
            if event.type == "tool_call_start":
                break
        """,
        url,
    )
    out, said = running.communicate(timeout=200)
    assert (running.returncode, said) == (0, ""), out
    with treadle.open(url) as rt:
        script = [asks(call("wait", "a")), says("Done.")]
        done = Agent(name="slow", model=ScriptedModel(script), tools=[_at_once])
        assert rt.resume("run_slow", done).text == "Done."


@tool(name="wait", effect="idempotent")
def _at_once() -> str:
    return "waited"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_is_told_to_open_its_own(url: str) -> None:
    running = program(
        """
        rt = treadle.open(url)
        if child := os.fork():
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        try:
            rt.run(quick, "x")
        except treadle.AgentError as e:
            print(e.message, flush=True)
        rt.close()
        with treadle.open(url + "2") as rt:
            print(rt.run(quick, "x").text, flush=True)
        os._exit(0)
        """,
        url,
    )
    out, errors = running.communicate(timeout=200)
    assert out.splitlines() == [
        "this runtime was opened before this process was forked: open it after the fork",
        "Hi.",
    ], errors
    assert running.returncode == 0
