"""Thirty-two agents at once over real connections: limits hold at every instant, nobody starves,
and nothing is left behind.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anyio
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream
from typing_extensions import override

from tests.models.providers.loopback import GONE, Answer, Server, listening, read_request, sse
from treadle import Agent, Runtime, tool
from treadle._internal.redaction import Secret
from treadle.config import Config
from treadle.config.endpoint import Provider
from treadle.types import Limits

CHILDREN = 32
SAID = 30
"""Output tokens of each answer."""
LIMITS = Limits(turns=2 + 2 * CHILDREN, tool_calls=2 * CHILDREN, tokens=120_000)
"""What the family needs, to the last turn and call; and fewer tokens than it would ask for."""


class Claude(Server):
    """Asked by the boss it starts all helpers; each helper looks once.

    What comes must fit into what is left, whatever is still open.
    """

    def __init__(self) -> None:
        super().__init__("http")
        self.open = self.spent = self.turns = 0
        """Requests under way; tokens of those that were answered; requests so far."""
        self.held: dict[int, int] = {}
        self.most_held = self.most_open = 0
        self.allowed: list[int] = []
        self._together = {"first": anyio.Event(), "second": anyio.Event()}
        self._came = {"first": 0, "second": 0}
        self._after = [anyio.Event() for _ in range(CHILDREN + 1)]
        self._after[CHILDREN].set()

    @override
    async def handle(self, stream: ByteStream) -> None:
        self.connections += 1
        reader = BufferedByteReceiveStream(stream)
        async with stream:
            try:
                while True:
                    await self._serve(
                        stream, json.loads((await read_request(reader, self.connections)).body)
                    )
            except GONE:
                return

    async def _serve(self, stream: ByteStream, body: Mapping[str, Any]) -> None:
        number, asked = self.turns, len(json.dumps(body)) // 4
        self.turns, self.open = self.turns + 1, self.open + 1
        self.held[number] = asked + body["max_tokens"]
        self.allowed.append(body["max_tokens"])
        self.most_held, self.most_open = (
            max(self.most_held, self.spent + sum(self.held.values())),
            max(self.most_open, self.open),
        )
        answer = await self._said(body, asked)
        del self.held[number]
        self.open, self.spent = self.open - 1, self.spent + asked + SAID
        assert await self._answer(stream, answer)

    async def _said(self, body: Mapping[str, Any], asked: int) -> Answer:
        results = [
            block
            for message in body["messages"]
            for block in message["content"]
            if block["type"] == "tool_result"
        ]
        prompt: str = body["messages"][0]["content"][0]["text"]
        if prompt == "go":
            calls = [("helper", {"prompt": f"part {i}"}) for i in range(CHILDREN)]
            return said(asked, *([] if results else calls), text="all there" if results else "")
        own = int(prompt.split()[-1])
        if not results:
            await self._met("first")
            return said(asked, ("look", {"at": own}))
        await self._met("second")
        await self._after[own + 1].wait()  # the last one first
        self._after[own].set()
        return said(asked, text=f"answer {own}")

    async def _met(self, which: str) -> None:
        """Until all children are here, so that one that starves is seen."""
        self._came[which] += 1
        if self._came[which] == CHILDREN:
            self._together[which].set()
        await self._together[which].wait()


def said(asked: int, *calls: tuple[str, Mapping[str, Any]], text: str = "") -> Answer:
    events: list[dict[str, Any]] = [
        {
            "type": "message_start",
            "message": {
                "id": "m",
                "model": "claude",
                "content": [],
                "usage": {"input_tokens": asked, "output_tokens": 1},
            },
        }
    ]
    blocks: list[tuple[dict[str, Any], dict[str, Any]]] = (
        [({"type": "text", "text": ""}, {"type": "text_delta", "text": text})] if text else []
    )
    for number, (name, arguments) in enumerate(calls):
        block: dict[str, Any] = {
            "type": "tool_use",
            "id": f"toolu_{number}",
            "name": name,
            "input": {},
        }
        blocks.append((block, {"type": "input_json_delta", "partial_json": json.dumps(arguments)}))
    for index, (block, delta) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    events.append(
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use" if calls else "end_turn"},
            "usage": {"output_tokens": SAID},
        }
    )
    return Answer(steps=tuple(sse(event) for event in (*events, {"type": "message_stop"})))


@tool(effect="pure")
def look(at: int) -> str:
    """Looks at one thing."""
    return f"seen {at}"


async def test_thirty_two_children_on_real_connections_keep_every_limit_and_leave_nothing_behind() -> (
    None
):
    before = {task.id for task in anyio.get_running_tasks()}
    server, helper = (
        Claude(),
        Agent(name="helper", description="Looks.", model="loop:a-model", tools=[look]),
    )
    boss = Agent(name="boss", model="loop:a-model", tools=[helper], limits=LIMITS)
    with anyio.fail_after(40):
        async with listening(server.handle) as port:
            provider = Provider(
                type="anthropic",
                base_url=f"http://127.0.0.1:{port}",
                api_key=Secret("key-of-the-test"),
            )
            async with Runtime.open(config=Config(providers={"loop": provider})) as rt:
                result = await rt.run(boss, "go")
                runs = await rt.journal.runs()
                open_after = server.open
    assert (result.outcome, result.text) == ("completed", "all there")
    answers = [one.text for message in result.messages for one in message.tool_results]
    assert answers == [f"answer {i}" for i in range(CHILDREN)]
    assert [info.outcome for info in runs] == ["completed"] * (1 + CHILDREN)
    assert server.turns == LIMITS.turns
    assert server.most_open == CHILDREN
    assert server.most_held <= (LIMITS.tokens or 0)
    assert min(server.allowed) >= 1_000
    assert server.connections == CHILDREN
    assert open_after == 0
    assert {task.id for task in anyio.get_running_tasks()} == before
