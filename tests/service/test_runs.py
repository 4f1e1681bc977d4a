"""Runs of any agent over HTTP: one's own, followed, stopped, and allowed what they ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.service.chatting import Event, ObedientModel, Person, serving
from treadle.agents.agent import Agent
from treadle.agents.templates import Input
from treadle.tools.function import tool

pytestmark = pytest.mark.anyio
DONE: list[str] = []


@tool(effect="once", needs_approval=True)
def launch(where: str = "up") -> str:
    """Launches it."""
    DONE.append(where)
    return f"launched {where}"


def agents() -> list[Agent[Any, Any]]:
    DONE.clear()
    model = ObedientModel()
    below = Agent(
        name="below",
        description="Says things.",
        model=model,
        instructions="${who}",
        inputs={"who": Input(default="Ada")},
    )
    return [
        Agent(name="rocket", model=model, tools=[launch]),
        Agent(name="greeter", model=model, instructions="Greet ${who}.", inputs={"who": Input()}),
        below,
        Agent(name="above", model=model, tools=[below]),
    ]


async def start(person: Person, agent: str, prompt: str, **inputs: Any) -> str:
    answer = await person.ask(
        "POST", "/runs", json={"agent": agent, "prompt": prompt, "inputs": inputs}
    )
    assert answer.status_code == 201, answer.text
    return answer.json()["run_id"]


async def asked_for(person: Person, run_id: str) -> str:
    """The id of the call that waits."""
    async with person.events("GET", f"/runs/{run_id}/events") as events:
        async for event in events:
            if event.kind == "approval_requested":
                return event.data["call_id"]
    raise AssertionError("nothing was asked for")


async def test_runs_are_listed_by_tag_status_and_agent(tmp_path: Path) -> None:
    async with serving(tmp_path, agents=agents()) as served, served.person() as ada:
        for name, tags in (("below", ["eu", "demo"]), ("below", ["us"]), ("rocket", [])):
            body = {"agent": name, "prompt": "hello", "tags": tags, "metadata": {"order": 7}}
            answer = await ada.ask("POST", "/runs", json=body)
            assert answer.status_code == 201, answer.text
            await ada.all_events("GET", f"/runs/{answer.json()['run_id']}/events")

        async def found(**only: str) -> list[tuple[str, list[str]]]:
            answer = await ada.ask("GET", "/runs", params=only)
            assert answer.status_code == 200, answer.text
            return [(one["agent"], one["tags"]) for one in answer.json()]

        demo, other, rocket = ("below", ["eu", "demo"]), ("below", ["us"]), ("rocket", [])
        assert await found() == [rocket, other, demo]
        assert await found(tag="demo") == [demo]
        assert await found(agent="below", limit="1") == [other]
        assert await found(status="completed", tag="us") == [other]
        assert await found(status="waiting") == []
        assert (await ada.ask("GET", "/runs", params={"status": "odd"})).status_code == 422
        body = {"agent": "rocket", "prompt": "hello", "tags": ["a\nb"]}
        refused = await ada.ask("POST", "/runs", json=body)
        assert (refused.status_code, "printable" in refused.text) == (422, True)


async def test_a_run_is_started_followed_and_looked_at(tmp_path: Path) -> None:
    async with serving(tmp_path, agents=agents()) as served, served.person() as ada:
        run_id = await start(ada, "greeter", "hello", who="Bob")
        events = await ada.all_events("GET", f"/runs/{run_id}/events")
        assert events[0].kind == "run_start"
        assert (events[-1].kind, events[-1].data["outcome"]) == ("run_end", "completed")
        known = next(event.id for event in events if event.kind == "message")
        rest = await ada.all_events("GET", f"/runs/{run_id}/events", params={"after": known})
        for place in (events[-1].id, "999.0"):  # a browser that asks again stops asking
            assert (
                await ada.ask("GET", f"/runs/{run_id}/events", params={"after": place})
            ).status_code == 204
        assert [event.id for event in rest] == [
            event.id
            for event in events[events.index(next(e for e in events if e.id == known)) + 1 :]
            if event.id
        ]
        whole = (await ada.ask("GET", f"/runs/{run_id}")).json()
        assert (whole["status"], whole["outcome"], whole["text"]) == (
            "finished",
            "completed",
            "You said: hello",
        )
        assert whole["usage"]["input_tokens"] == 11
        assert [one["run_id"] for one in (await ada.ask("GET", "/runs")).json()] == [run_id]


async def test_runs_of_others_and_runs_that_are_not_there_look_the_same(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, agents=agents()) as served,
        served.person() as ada,
        served.person("bob") as bob,
    ):
        run_id = await start(ada, "rocket", "use launch")
        call_id = await asked_for(ada, run_id)
        for method, path in [
            ("GET", ""),
            ("GET", "/events"),
            ("POST", "/cancel"),
            ("POST", f"/approvals/{call_id}"),
        ]:
            body = {"json": {"decision": "approve"}} if "approvals" in path else {}
            foreign = await bob.ask(method, f"/runs/{run_id}{path}", **body)
            unknown = await bob.ask(method, f"/runs/run_0{path}", **body)
            assert (foreign.status_code, foreign.content) == (404, unknown.content), path
        assert (await bob.ask("GET", "/runs")).json() == []
        assert DONE == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"agent": "nobody", "prompt": "hello"}, 404),
        ({"agent": "greeter", "prompt": "hello"}, 422),
        ({"agent": "greeter", "prompt": "hello", "inputs": {"who": 7}}, 422),
        ({"agent": "greeter", "prompt": "hello", "inputs": {"who": "Bob", "other": "x"}}, 422),
        ({"agent": "greeter", "prompt": " ", "inputs": {"who": "Bob"}}, 422),
        ({"agent": "greeter", "prompt": "hello", "inputs": {"who": "Bob"}, "mode": "full"}, 422),
        ({"agent": "tasks", "prompt": "hello", "inputs": {"today": "never"}}, 422),
    ],
)
async def test_what_cannot_run_is_refused(
    tmp_path: Path, body: dict[str, Any], status: int
) -> None:
    async with serving(tmp_path, agents=agents()) as served, served.person() as ada:
        assert (await ada.ask("POST", "/runs", json=body)).status_code == status
        assert (await ada.ask("GET", "/runs")).json() == []


async def test_a_call_waits_for_a_yes_and_gets_it_once(tmp_path: Path) -> None:
    async with serving(tmp_path, agents=agents()) as served, served.person() as ada:
        run_id = await start(ada, "rocket", "use launch")
        call_id = await asked_for(ada, run_id)
        assert [
            call["call_id"] for call in (await ada.ask("GET", f"/runs/{run_id}")).json()["waiting"]
        ] == [call_id]
        assert (
            await ada.ask("POST", f"/runs/{run_id}/approvals/call_0", json={"decision": "approve"})
        ).status_code == 404
        answer = {"decision": "approve", "arguments": {"where": "down"}}
        assert (
            await ada.ask("POST", f"/runs/{run_id}/approvals/{call_id}", json=answer)
        ).status_code == 202
        assert (await ada.all_events("GET", f"/runs/{run_id}/events"))[-1].data[
            "outcome"
        ] == "completed"
        assert (
            await ada.ask("POST", f"/runs/{run_id}/approvals/{call_id}", json=answer)
        ).status_code == 409
        assert DONE == ["down"]


async def test_a_yes_to_a_call_that_has_moved_on_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, agents=agents()) as served, served.person() as ada:
        run_id = await start(ada, "rocket", "use launch")
        call_id = await asked_for(ada, run_id)
        decide = partial(ada.ask, "POST", f"/runs/{run_id}/approvals/{call_id}")
        refused = await decide(json={"decision": "approve", "seen": 0})
        assert (refused.status_code, DONE) == (409, [])
        assert refused.json()["detail"].startswith("This call has changed since you read")
        too_large = await decide(json={"decision": "approve", "seen": 2**64})
        assert (too_large.status_code, DONE) == (422, [])
        seen = (await ada.ask("GET", f"/runs/{run_id}")).json()["entries"]
        said = await decide(json={"decision": "approve", "seen": float(seen)})
        assert said.status_code == 202
        assert (await ada.all_events("GET", f"/runs/{run_id}/events"))[-1].data[
            "outcome"
        ] == "completed"
        assert DONE == ["up"]


async def test_a_no_is_told_to_the_model(tmp_path: Path) -> None:
    async with serving(tmp_path, agents=agents()) as served, served.person() as ada:
        run_id = await start(ada, "rocket", "use launch")
        call_id = await asked_for(ada, run_id)
        await ada.ask(
            "POST",
            f"/runs/{run_id}/approvals/{call_id}",
            json={"decision": "deny", "reason": "not today"},
        )
        events = await ada.all_events("GET", f"/runs/{run_id}/events")
        assert any("not today" in str(event.data) for event in events)
        assert DONE == []


@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_a_call_that_waits_over_a_restart_is_answered_then(
    tmp_path: Path, decision: str
) -> None:
    async with serving(tmp_path, agents=agents()) as served, served.person() as ada:
        run_id = await start(ada, "rocket", "use launch")
        call_id = await asked_for(ada, run_id)
        headers = ada.headers
    async with serving(tmp_path, agents=agents()) as served, served.person("bob") as bob:
        bob.headers, headers = headers, bob.headers
        ada = bob
        assert (await ada.ask("GET", f"/runs/{run_id}")).json()["status"] == "waiting"
        async with ada.events("GET", f"/runs/{run_id}/events") as events:
            assert (await anext(events)).kind == "run_start"
            assert (
                await ada.ask(
                    "POST", f"/runs/{run_id}/approvals/{call_id}", json={"decision": decision}
                )
            ).status_code == 202
            kinds = [event.kind async for event in events]
        assert kinds[-1] == "run_end"
        assert kinds.count("approval_requested") == 1
        assert (["up"] if decision == "approve" else []) == DONE
        assert (await ada.ask("GET", f"/runs/{run_id}")).json()["status"] == "finished"


async def test_two_calls_that_wait_over_a_restart_are_answered_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path, agents=agents()) as served, served.person() as ada:
        run_id = await start(ada, "rocket", "use launch, launch")
        async with ada.events("GET", f"/runs/{run_id}/events") as events:
            calls = [event.data["call_id"] async for event in _two(events)]
        headers = ada.headers
    async with (
        serving(tmp_path, agents=agents()) as served,
        served.person("bob") as ada,
        anyio.create_task_group() as group,
    ):
        ada.headers = headers

        async def approve(call_id: str) -> None:
            assert (
                await ada.ask(
                    "POST", f"/runs/{run_id}/approvals/{call_id}", json={"decision": "approve"}
                )
            ).status_code == 202

        for call_id in calls:
            group.start_soon(approve, call_id)
        with anyio.fail_after(10):
            seen = await ada.all_events("GET", f"/runs/{run_id}/events")
        assert (seen[-1].kind, seen[-1].data.get("outcome")) == ("run_end", "completed"), [
            event.kind for event in seen
        ]
        assert DONE == ["up", "up"]


async def _two(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
    """Those that ask."""
    left = 2
    async for event in events:
        if event.kind == "approval_requested":
            left -= 1
            yield event
        if not left:
            return


async def test_a_run_is_cancelled(tmp_path: Path) -> None:
    async with serving(tmp_path, agents=agents()) as served, served.person() as ada:
        run_id = await start(ada, "greeter", "hang", who="Bob")
        async with ada.events("GET", f"/runs/{run_id}/events") as events:
            await anext(events)
            assert (await ada.ask("POST", f"/runs/{run_id}/cancel")).status_code == 202
            last = [event async for event in events][-1]
        assert (last.kind, last.data["outcome"]) == ("run_end", "cancelled")
        assert (await ada.ask("POST", f"/runs/{run_id}/cancel")).status_code == 202


async def test_a_message_is_cancelled_and_has_its_reply(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        async with ada.events("POST", "/chat", json={"message": "hang"}) as events:
            run_id = (await anext(events)).data["run_id"]
            await served.model.waits.wait()
            await ada.ask("POST", f"/runs/{run_id}/cancel")
            last = [event async for event in events][-1]
        assert last.kind == "reply"
        assert (await ada.chat("hello", last.data["conversation_id"]))["response"]


async def test_what_children_do_is_told_with_their_parent(tmp_path: Path) -> None:
    async with serving(tmp_path, agents=agents()) as served, served.person() as ada:
        run_id = await start(ada, "above", "ask below")
        events = await ada.all_events("GET", f"/runs/{run_id}/events")
        again = await ada.all_events("GET", f"/runs/{run_id}/events")
        for told in (events, again):
            below = [event for event in told if event.data.get("parent_run_id")]
            assert {"run_start", "message", "run_end"} <= {event.kind for event in below}
            assert all(event.id is None for event in below), (
                "nobody goes on from the place of another run's journal"
            )
        assert [event.id for event in again if event.id] == [
            event.id for event in events if event.id
        ]


async def test_a_run_of_the_task_assistant_is_seen_as_a_chat_is(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        run_id = await start(ada, "tasks", "add Buy milk")
        events = await ada.all_events("GET", f"/runs/{run_id}/events")
        assert events[-1].kind == "reply"
        assert not {"message", "usage"} & {event.kind for event in events}
        whole = (await ada.ask("GET", f"/runs/{run_id}")).json()
        assert whole["text"] == events[-1].data["response"]
        assert whole["conversation_id"] == events[-1].data["conversation_id"]
        assert ada.user_id not in str(whole)
