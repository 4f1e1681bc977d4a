"""An application other than the shipped one, mounted on the service."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, cast

import pytest
from fastapi import APIRouter
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from tests.service.at_hand import opened
from tests.service.chatting import ObedientModel, serving
from treadle import Agent, ToolContext, tool
from treadle.apps.assistant import routes
from treadle.apps.assistant.application import task_application
from treadle.service import auth, chat, conversations, health, openai_api, runs
from treadle.service.application import Application, MountedAgent, ServiceHost
from treadle.service.signed_in import SignedIn
from treadle.testing import ScriptedModel

router = APIRouter()


@router.get("/shelf")
async def shelf(person: SignedIn) -> dict[str, str]:
    return {"of": person.user_id}


@tool(effect="pure")
def whoami(ctx: ToolContext[str]) -> str:
    """Say for whom this runs."""
    return ctx.deps


def mounted(seen: list[str]) -> Application:
    """The assistant's chat with an agent, a route and a job of its own; no page and no MCP."""
    script = [{"tool_calls": [{"name": "whoami", "arguments": {}}]}, {"text": "Done."}]
    guide = Agent(name="guide", model=ScriptedModel(script), tools=[whoami])

    async def job(host: ServiceHost) -> None:
        seen.append("begun")
        await host.stopping.wait()
        seen.append("over")

    return replace(
        task_application(ObedientModel()),
        agents=(MountedAgent(guide, deps=lambda scope: scope.user_id),),
        routers=(router,),
        links=(),
        jobs=(job,),
        page=None,
        mcp=None,
    )


async def test_tools_of_a_mounted_agent_get_the_deps_of_the_person_who_asks(tmp_path: Path) -> None:
    async with serving(tmp_path, application=mounted([])) as served, served.person() as ada:
        started = await ada.ask("POST", "/runs", json={"agent": "guide", "prompt": "Who am I?"})
        run_id = started.json()["run_id"]
        events = await ada.all_events("GET", f"/runs/{run_id}/events")
        (end,) = [event for event in events if event.kind == "tool_call_end"]
        assert ada.user_id in str(end.data)


async def test_routes_of_an_application_are_for_people_who_are_signed_in(tmp_path: Path) -> None:
    async with opened(tmp_path, application=mounted([])) as hand:
        assert (await hand.http.get("/shelf")).status_code == 401


async def test_jobs_of_an_application_run_until_the_service_stops(tmp_path: Path) -> None:
    seen: list[str] = []
    async with opened(tmp_path, application=mounted(seen)) as hand:
        await hand.registered()
        assert seen == ["begun"]
    assert seen == ["begun", "over"]


async def test_without_a_page_and_mcp_nothing_is_there(tmp_path: Path) -> None:
    async with opened(tmp_path, application=mounted([])) as hand:
        headers = await hand.registered()
        assert (await hand.http.get("/")).status_code == 404
        assert (await hand.http.post("/mcp", json={}, headers=headers)).status_code == 404
        assert "/tasks" not in (await hand.http.get("/openapi.json")).text


@pytest.mark.parametrize("module", [auth, chat, conversations, health, openai_api, routes, runs])
def test_no_dependency_of_a_route_takes_a_thread(module: Any) -> None:
    def below(dependant: Dependant) -> Iterator[Dependant]:
        for each in dependant.dependencies:
            yield each
            yield from below(each)

    for route in module.router.routes:
        for each in below(cast("APIRoute", route).dependant):
            call = cast("Any", each.call)
            assert iscoroutinefunction(call) or iscoroutinefunction(type(call).__call__)
