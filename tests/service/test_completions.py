"""`/v1/chat/completions`: one answer and no word that was taken back, and a run that is the
service's own: ended, counted and kept like any other.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.service.chatting import ObedientModel, Person, Served, serving
from treadle.agents.agent import Agent
from treadle.errors import AgentError
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    ModelRequest,
    PartEnd,
    ResponseEnd,
    TextDelta,
    ToolCallStart,
)
from treadle.service.running import info_of
from treadle.tools.function import tool
from treadle.types import Outcome, StopReason, Usage

pytestmark = pytest.mark.anyio


@tool
def look() -> str:
    """Looks."""
    return "warm"


class Musing:
    """Says something before it looks, breaks off once, and then answers."""

    name = "test:musing"
    refuses: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.asked = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self.asked += 1
        if self.asked == 1:
            yield TextDelta("Let me look. ")
            yield ToolCallStart("call_1", "look")
            yield ArgumentsDelta("{}")
            yield PartEnd()
            yield ResponseEnd(StopReason.TOOL_USE, Usage(input_tokens=1))
            return
        if self.asked == 2:
            yield TextDelta("Rome is cold, and")
            raise AgentError("network", "the line broke")
        yield TextDelta("Rome is warm.")
        yield ResponseEnd(StopReason.COMPLETE, Usage(input_tokens=1))


def body(model: str, text: str, **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}], **more}


async def streamed(person: Person, model: str, text: str) -> tuple[str, str]:
    """What it says, and its last line."""
    answer = await person.ask("POST", "/v1/chat/completions", json=body(model, text, stream=True))
    assert answer.status_code == 200, answer.text
    lines = [
        line.removeprefix("data: ")
        for line in answer.text.splitlines()
        if line.startswith("data: ")
    ]
    chunks = [json.loads(line) for line in lines if line != "[DONE]"]
    return "".join(
        choice["delta"].get("content", "")
        for chunk in chunks
        for choice in chunk.get("choices", ())
    ), lines[-1]


async def nobody_holds(served: Served) -> None:
    """Every place was given back."""
    limits = served.service.limits
    with anyio.fail_after(10):
        while len(served.service.live) or limits._runs or limits._streams:  # pyright: ignore[reportPrivateUsage]  it shows nowhere else
            await anyio.sleep(0.01)


async def test_words_that_are_taken_back_are_never_sent(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, agents=[Agent(name="guide", model=Musing(), tools=[look])]) as served,
        served.person() as ada,
    ):
        assert await streamed(ada, "guide", "Where is it warm?") == ("Rome is warm.", "[DONE]")
        await nobody_holds(served)


async def test_what_another_agent_says_to_it_is_not_the_answer(tmp_path: Path) -> None:
    below = Agent(name="below", description="Says things.", model=ObedientModel())
    async with (
        serving(
            tmp_path, agents=[below, Agent(name="above", model=ObedientModel(), tools=[below])]
        ) as served,
        served.person() as ada,
    ):
        assert await streamed(ada, "above", "ask below") == ("Done.", "[DONE]")


@pytest.mark.parametrize("model", ["tasks", "guide"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_ends_the_run(tmp_path: Path, model: str, stream: bool) -> None:
    guide = ObedientModel()
    async with (
        serving(tmp_path, agents=[Agent(name="guide", model=guide)]) as served,
        served.person() as ada,
    ):
        waits = served.model.waits if model == "tasks" else guide.waits
        head: dict[str, Any] = {}
        async with anyio.create_task_group() as group:
            group.start_soon(
                lambda: ada.ask(
                    "POST", "/v1/chat/completions", json=body(model, "hang", stream=stream)
                )
            )
            await waits.wait()
            (head,) = (await ada.ask("GET", "/runs")).json()
            assert (head["status"], len(served.service.live)) == ("running", 1)
            group.cancel_scope.cancel()
        await nobody_holds(served)
        info = await info_of(served.service, head["run_id"])
        assert info is not None
        assert info.outcome is Outcome.CANCELLED
        assert (await ada.ask("GET", f"/runs/{head['run_id']}")).json()["finished_at"] is not None


async def test_its_run_is_followed_and_stopped_like_any_other(tmp_path: Path) -> None:
    async with (
        serving(tmp_path) as served,
        served.person() as ada,
        anyio.create_task_group() as group,
    ):
        group.start_soon(
            lambda: ada.ask("POST", "/v1/chat/completions", json=body("tasks", "hang"))
        )
        await served.model.waits.wait()
        (head,) = (await ada.ask("GET", "/runs")).json()
        async with ada.events("GET", f"/runs/{head['run_id']}/events") as events:
            assert (await anext(events)).kind == "run_start"
            await ada.ask("POST", f"/runs/{head['run_id']}/cancel")
            assert [event.kind async for event in events][-1] == "run_end"


async def test_it_may_go_on_for_a_while_when_the_service_closes(tmp_path: Path) -> None:
    answers: list[tuple[int, str]] = []
    async with (
        anyio.create_task_group() as group,
        serving(tmp_path) as served,
        served.person() as ada,
    ):

        async def asks() -> None:
            async with served.person("bob") as bob:
                answer = await bob.ask("POST", "/v1/chat/completions", json=body("tasks", "wait"))
                answers.append(
                    (answer.status_code, answer.json()["choices"][0]["message"]["content"])
                )

        group.start_soon(asks)
        await served.model.waits.wait()
        served.service.stopping.set()
        with anyio.move_on_after(0.1):
            await served.service.live.drained()
        served.model.go.set()
        with anyio.fail_after(10):
            while not answers:
                await anyio.sleep(0.01)
        assert ada
    assert answers == [(200, "You said: wait.")]


async def test_one_that_died_with_its_process_is_closed_at_the_next_start(tmp_path: Path) -> None:
    statuses: list[int] = []
    headers: dict[str, str] = {}
    async with (
        anyio.create_task_group() as group,
        serving(tmp_path, grace_s=0.01) as served,
        served.person() as ada,
    ):

        async def asks() -> None:
            async with httpx2.AsyncClient(base_url=served.url, timeout=30) as http:
                statuses.append(
                    (
                        await http.post(
                            "/v1/chat/completions", headers=headers, json=body("tasks", "wait")
                        )
                    ).status_code
                )

        headers = ada.headers
        group.start_soon(asks)
        await served.model.waits.wait()
    assert statuses == [503]
    async with serving(tmp_path) as served, served.person("bob") as ada:
        ada.headers = headers
        with anyio.fail_after(10):
            while (head := (await ada.ask("GET", "/runs")).json()[0])["finished_at"] is None:
                await anyio.sleep(0.01)
        assert (head["status"], head["outcome"]) == ("finished", "cancelled")


async def test_an_agent_that_cannot_run_is_told_as_such(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, agents=[Agent(name="guide", model="script:nowhere.json")]) as served,
        served.person() as ada,
    ):
        for stream in (False, True):
            answer = await ada.ask(
                "POST", "/v1/chat/completions", json=body("guide", "hello", stream=stream)
            )
            assert (
                answer.status_code,
                "cannot run at the moment" in answer.json()["error"]["message"],
            ) == (503, True)
        assert all(
            head["finished_at"] is not None for head in (await ada.ask("GET", "/runs")).json()
        )
        await nobody_holds(served)


async def test_what_is_refused_at_the_border_has_the_words_where_its_clients_look(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, body_bytes=1000) as served, served.person() as ada:
        answer = await ada.ask("POST", "/v1/chat/completions", json=body("tasks", "x" * 2000))
        assert answer.status_code == 413
        assert answer.json()["error"]["message"] == answer.json()["detail"]
