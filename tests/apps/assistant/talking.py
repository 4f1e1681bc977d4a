"""People who talk with the task assistant over real SQLite, and models that do as they are told.

Entry: `Talking`, `call`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.apps.assistant.people import People
from treadle.apps.assistant.context import AgentContext, AgentResult, MessageHistory
from treadle.apps.assistant.runner import AgentRunner
from treadle.messages.events import Event
from treadle.models.model import Model
from treadle.runtime.runtime import Runtime
from treadle.testing import ScriptedModel

FAILURE = "I'm having a bit of trouble right now. Please try again."


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    """One tool call of a script's entry."""
    return {"name": tool, "arguments": arguments}


def calls(*several: dict[str, Any], text: str = "") -> dict[str, Any]:
    """An entry that makes them all at once."""
    return {"tool_calls": list(several), "text": text}


@dataclass
class Talking:
    """One conversation of one person."""

    people: People
    user_id: str = "ada"
    conversation_id: str = "chat"
    runtime: Runtime | None = None
    history: tuple[MessageHistory, ...] = ()
    events: list[Event] = field(default_factory=list[Event])
    """Of the last message, as a chat sees them."""
    run_id: str = ""

    def runner(self, *script: dict[str, Any], model: Model | None = None) -> AgentRunner:
        model = model or ScriptedModel(list(script))
        return AgentRunner(
            self.people.server.database,
            self.people.server,
            model,
            runtime=self.runtime,
            clock=self.people.clock,
        )

    @property
    def context(self) -> AgentContext:
        return AgentContext(self.user_id, self.conversation_id, self.history)

    async def say(
        self, message: str, *script: dict[str, Any], model: Model | None = None
    ) -> AgentResult:
        """What the model answers stands in `script`."""
        self.events.clear()
        async with self.runner(*script, model=model).stream(self.context, message) as reply:
            self.run_id = reply.run_id
            async for event in reply:
                self.events.append(event)
        said = (
            MessageHistory("user", message, self.people.clock()),
            MessageHistory("assistant", reply.result.response, self.people.clock()),
        )
        self.history = (*self.history, *said)
        return reply.result
