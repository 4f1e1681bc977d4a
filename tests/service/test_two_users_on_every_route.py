"""Two users against every route: what is Ada's looks to Bob like what is not there. A route without
a row here fails the test.

Tools have theirs in tests/apps/assistant/test_two_users.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import httpx2
import pytest
from fastapi import FastAPI
from starlette.routing import Route

from tests.service.at_hand import AtHand, opened
from treadle.agents.agent import Agent
from treadle.testing import ScriptedModel
from treadle.tools.function import tool

CANARY = "canary-7f3a"
JSON: dict[str, dict[str, Any]] = {
    "POST /runs/{run_id}/approvals/{call_id}": {"decision": "approve"},
    "PATCH /tasks/{task_id}": {"title": "taken"},
    "POST /chat": {"message": "hello"},
}
ROWS: dict[str, Literal["nobody's", "own", "theirs"]] = {
    # Nothing of anybody's is in these, or only of whoever signs in with them.
    "POST /auth/register": "nobody's",
    "POST /auth/login": "nobody's",
    "POST /auth/refresh": "nobody's",
    "POST /auth/logout": "nobody's",
    "POST /auth/password": "nobody's",
    "GET /healthz": "nobody's",
    "GET /readyz": "nobody's",
    "GET /metrics": "nobody's",
    "GET /openapi.json": "nobody's",
    "GET /": "nobody's",
    "HEAD /": "nobody's",
    "GET /assets/{name}": "nobody's",
    "HEAD /assets/{name}": "nobody's",
    # Lists and acts of whoever asks.
    "POST /chat": "own",
    "GET /conversations": "own",
    "POST /runs": "own",
    "GET /runs": "own",
    "GET /tasks": "own",
    "POST /tasks": "own",
    "GET /tasks/events": "own",
    "POST /tasks/undo": "own",
    "GET /v1/models": "own",
    "GET /v1/models/{name}": "own",
    "POST /v1/chat/completions": "own",
    "ANY /mcp": "own",
    # Of one thing, by its id.
    "GET /conversations/{conversation_id}": "theirs",
    "DELETE /conversations/{conversation_id}": "theirs",
    "GET /runs/{run_id}": "theirs",
    "GET /runs/{run_id}/events": "theirs",
    "POST /runs/{run_id}/cancel": "theirs",
    "POST /runs/{run_id}/approvals/{call_id}": "theirs",
    "GET /tasks/{task_id}": "theirs",
    "PATCH /tasks/{task_id}": "theirs",
    "DELETE /tasks/{task_id}": "theirs",
}


@dataclass
class Two:
    """Ada, who has everything, and Bob."""

    hand: AtHand
    ada: dict[str, str]
    bob: dict[str, str]
    ids: dict[str, str]
    """What Ada has, by the name of the parameter."""

    async def ask(
        self, who: dict[str, str], method: str, path: str, **more: Any
    ) -> httpx2.Response:
        return await self.hand.http.request(
            method, path, headers={**who, "Accept": "application/json"}, **more
        )


@tool(effect="once", needs_approval=True)
async def charge(amount: int) -> str:
    """Charges a card.

    Args:
        amount: How much.
    """
    return f"charged {amount}"


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Two]:
    async with opened(tmp_path) as hand:
        script = [
            {"tool_calls": [{"name": "charge", "arguments": {"amount": 5}, "id": "call_of_ada"}]},
            {"text": f"done {CANARY}"},
        ]
        hand.service.runtime.agents.register(
            Agent(name="cashier", model=ScriptedModel(script), tools=[charge])
        )
        hand.service.agents = ("cashier",)
        ada, bob = await hand.registered("ada"), await hand.registered("bob")
        both = Two(hand, ada, bob, {})
        said = (await both.ask(ada, "POST", "/chat", json={"message": f"add {CANARY}"})).json()
        run = (
            await both.ask(ada, "POST", "/runs", json={"agent": "cashier", "prompt": CANARY})
        ).json()["run_id"]
        task = (await both.ask(ada, "GET", "/tasks")).json()[0]
        both.ids = {
            "conversation_id": said["conversation_id"],
            "run_id": run,
            "call_id": "call_of_ada",
            "task_id": task["id"],
        }
        yield both


def routes(app: FastAPI) -> list[tuple[str, str]]:
    """Every method and path, those of the document and the others."""
    found: list[tuple[str, str]] = []
    for route in app.router.routes:
        for one in getattr(getattr(route, "original_router", None), "routes", [route]):
            assert isinstance(one, Route), "a kind of route that this walk does not know"
            found.extend((method, one.path) for method in sorted(one.methods or {"ANY"}))
    return found


async def test_every_route_has_a_row_and_every_row_a_route(two: Two) -> None:
    assert {f"{method} {path}" for method, path in routes(two.hand.app)} == set(ROWS)


async def test_without_a_token_nothing_of_anybody_is_reached(two: Two) -> None:
    for name, kind in ROWS.items():
        method, path = name.split(" ")
        if kind == "nobody's":
            continue
        answer = await two.ask(
            {},
            "POST" if method == "ANY" else method,
            path.format(**two.ids, name="tasks"),
            json=JSON.get(name),
        )
        assert answer.status_code == 401, name
        assert answer.headers["www-authenticate"].startswith("Bearer"), name
        assert CANARY not in answer.text


async def test_what_is_somebody_elses_looks_like_what_is_not_there(two: Two) -> None:
    unknown = {
        "conversation_id": str(uuid4()),
        "run_id": f"run_{uuid4().hex}",
        "call_id": "call_x",
        "task_id": str(uuid4()),
    }
    for name, kind in ROWS.items():
        method, path = name.split(" ")
        if kind != "theirs":
            continue
        theirs = await two.ask(two.bob, method, path.format(**two.ids), json=JSON.get(name))
        nothing = await two.ask(two.bob, method, path.format(**unknown), json=JSON.get(name))
        assert theirs.status_code == nothing.status_code == 404, name
        assert theirs.content == nothing.content, name
        assert CANARY not in theirs.text, name
    assert (await two.ask(two.ada, "GET", "/tasks")).json()[0]["title"] == CANARY
    assert (await two.ask(two.ada, "GET", f"/runs/{two.ids['run_id']}")).json()[
        "status"
    ] != "finished"
    assert (
        await two.ask(two.ada, "GET", f"/conversations/{two.ids['conversation_id']}")
    ).status_code == 200


async def test_lists_and_acts_are_of_whoever_asks(two: Two) -> None:
    for path in ("/tasks", "/conversations", "/runs"):
        assert (await two.ask(two.bob, "GET", path)).json() == [], path
        assert CANARY in (await two.ask(two.ada, "GET", path)).text or path == "/runs"
    assert (await two.ask(two.bob, "POST", "/tasks/undo")).status_code == 404
    assert (
        (await two.ask(two.bob, "POST", "/chat", json={"message": "list"}))
        .json()["response"]
        .startswith("Your list is empty")
    )
    told = await two.ask(
        two.bob,
        "POST",
        "/v1/chat/completions",
        json={"model": "tasks", "messages": [{"role": "user", "content": "list"}]},
    )
    assert CANARY not in told.text
    assert told.status_code == 200
    assert (
        (await two.ask(two.bob, "POST", "/chat", json={"message": f"delete {CANARY}"}))
        .json()["response"]
        .startswith("I couldn't find")
    )


async def test_a_conversation_is_gone_on_with_by_its_owner_alone(two: Two) -> None:
    body = {"message": "list", "conversation_id": two.ids["conversation_id"]}
    nothing = {"message": "list", "conversation_id": str(uuid4())}
    theirs, unknown = (
        await two.ask(two.bob, "POST", "/chat", json=body),
        await two.ask(two.bob, "POST", "/chat", json=nothing),
    )
    assert theirs.status_code == unknown.status_code == 404
    assert theirs.content == unknown.content


async def test_nobody_confirms_what_another_was_asked(two: Two) -> None:
    asked = (await two.ask(two.ada, "POST", "/chat", json={"message": f"delete {CANARY}"})).json()
    assert "yes delete" in asked["response"]
    await two.ask(two.bob, "POST", "/chat", json={"message": "yes delete"})
    assert len((await two.ask(two.ada, "GET", "/tasks")).json()) == 1
