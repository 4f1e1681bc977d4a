"""A script goes on where its conversation stands, whichever process and whichever branch asks."""

from __future__ import annotations

import json
from pathlib import Path

from tests.doubles import gives
from tests.journal.runs import says
from treadle import Agent, Runtime


def _agent(script: Path) -> Agent[object, str]:
    return Agent(name="a", model=f"script:{script}", tools=[gives("look", effect="pure")])


def _script(directory: Path) -> Path:
    path = directory / "script.json"
    path.write_text(
        json.dumps(
            [
                {"tool_calls": [{"name": "look", "arguments": {}}]},
                {"text": "second"},
                {"text": "third"},
                {"text": "fourth"},
            ]
        )
    )
    return path


async def test_a_fork_takes_what_its_turns_had_left(tmp_path: Path) -> None:
    script = _script(tmp_path)
    async with Runtime.open() as rt:
        first = await rt.run(_agent(script), "go")
        again = await rt.fork(first.run_id, turn=1)
        other = await rt.fork(first.run_id, turn=2, text="and then?")
    assert [first.text, again.text, other.text] == ["second", "second", "third"]


async def test_a_fork_counts_what_the_session_had_used_before(tmp_path: Path) -> None:
    script = _script(tmp_path)
    url = f"sqlite:///{tmp_path}/runs.db"
    async with Runtime.open(url) as rt:
        session = rt.session("s", agent=_agent(script))
        await session.send("go")
        second = await session.send("more")
        assert second.text == "third"
    async with Runtime.open(url) as rt:
        forked = await rt.fork(second.run_id, turn=0, text="otherwise", agent=_agent(script))
        assert forked.text == "third"
        assert forked.session_id not in (None, "s")
    async with Runtime.open(url) as rt:
        further = await rt.session(forked.session_id, agent=_agent(script)).send("on")
        assert further.text == "fourth"


async def test_a_fork_counts_earlier_runs_whatever_their_clock(tmp_path: Path) -> None:
    script = _script(tmp_path)
    async with Runtime.open(f"sqlite:///{tmp_path}/runs.db") as rt:
        model, far = f"script:{script}", 60 * 24 * 365 * 1000
        await says(rt.journal, "far", "go", "on", session="s", minute=far, model=model)
        session = rt.session("s", agent=_agent(script))
        said = [await session.send("more"), await session.send("and more")]
        assert [result.text for result in said] == ["second", "third"]
        forked = await rt.fork(said[1].run_id, turn=0, text="otherwise", agent=_agent(script))
        assert forked.text == "third"
