"""One of several servers over one journal and one database, in a process of its own: `python -m
tests.service.replica JOURNAL DATABASE PORT [QUEUE]`.

Who drives a queue is a test's business. Entry: `replica`, `agents`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import uvicorn

from tests.service.chatting import KEY, ObedientModel, config_of
from treadle.agents.agent import Agent
from treadle.apps.assistant.application import task_application
from treadle.journal import open_journal
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    ModelRequest,
    PartEnd,
    ResponseEnd,
    TextDelta,
    ToolCallStart,
)
from treadle.runtime.runtime import Runtime
from treadle.service import resuming
from treadle.service.app import create_app
from treadle.service.database.database import Database
from treadle.service.state import Service
from treadle.tools.function import tool
from treadle.types import StopReason, Usage, new_id

LEASE_S = 2.0


class Walker:
    """`walk N`: takes N steps, one a turn; `send WISH`: has another one do it; anything else asks
    for `launch`. Then it says so.
    """

    name = "test:walker"
    refuses: frozenset[str] = frozenset()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        wish = next(m.text for m in reversed(request.messages) if m.role == "user")
        taken = sum(m.role == "tool" for m in request.messages)
        wanted = int(wish.split()[1]) if wish.startswith("walk ") else 1
        if taken < wanted:
            name, arguments = _call(wish, taken)
            yield ToolCallStart(new_id("call"), name)
            yield ArgumentsDelta(json.dumps(arguments))
            yield PartEnd()
            yield ResponseEnd(StopReason.TOOL_USE, Usage(input_tokens=3, output_tokens=2))
            return
        for word in ("I ", "am ", "there."):
            yield TextDelta(word)
        yield ResponseEnd(StopReason.COMPLETE, Usage(input_tokens=3, output_tokens=2))


def _call(wish: str, taken: int) -> tuple[str, dict[str, Any]]:
    match wish.split(" ", 1):
        case ["walk", _]:
            return "step", {"number": taken}
        case ["send", below]:
            return "walker", {"prompt": below}
        case _:
            return "launch", {}


@tool(effect="pure")
async def step(number: int) -> str:
    """Takes a step."""
    await anyio.sleep(0.03)
    return f"step {number}"


@tool(effect="once", needs_approval=True)
def launch(where: str = "up") -> str:
    """Launches it."""
    return f"launched {where}"


def agents() -> list[Agent[Any, Any]]:
    walker = Agent(name="walker", description="Walks.", model=Walker(), tools=[step, launch])
    return [walker, Agent(name="sender", model=Walker(), tools=[walker])]


def replica(journal: str, database: str, *, queue: str | None = None, **limits: Any) -> Service:
    config = config_of(grace_s=0.2, **limits)
    config = msgspec.structs.replace(
        config, service=msgspec.structs.replace(config.service, queue=queue)
    )
    runtime = Runtime(config=config, journal=open_journal(journal, lease_s=LEASE_S))
    for agent in agents():
        runtime.agents.register(agent)
    return Service(
        config,
        Database.open(database),
        runtime,
        key=KEY,
        application=task_application(ObedientModel()),
        agents=["walker", "sender"],
        journal=journal[-64:],
    )


def main(journal: str, database: str, port: str, queue: str = "") -> None:
    resuming.TAKE_UP_S = 0.3  # others die often here
    uvicorn.run(
        create_app(replica(journal, database, queue=queue or None)),
        host="127.0.0.1",
        port=int(port),
        log_config=None,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])


def in_folder(folder: Path) -> tuple[str, str]:
    """URLs of a journal and a database."""
    return f"sqlite:///{folder}/journal.db", f"sqlite:///{folder}/service.db"
