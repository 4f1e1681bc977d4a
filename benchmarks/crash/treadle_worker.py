"""The experiment's agent on Treadle: `treadle_worker.py FOLDER start|resume once|idempotent`, the
declared effect of `charge`.

The runtime has its defaults, with a journal on SQLite. A run is resumed with `Runtime.resume`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from shop import DONE, PROMPT, Call, Shop

from treadle import Agent, Message, ModelRequest, Runtime, StopReason, Usage, tool
from treadle.journal.entries import ToolFinished
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    PartEnd,
    ResponseEnd,
    TextDelta,
    ToolCallStart,
)
from treadle.types import Effect


class ShopModel:
    name = "shop:model"
    refuses: frozenset[str] = frozenset()

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        wanted = self._shop.answer(_calls(request.messages))
        for call in wanted:
            yield ToolCallStart(call.id, call.name)
            yield ArgumentsDelta(json.dumps({"order": call.order}))
            yield PartEnd()
        if not wanted:
            yield TextDelta(DONE)
        yield ResponseEnd(
            stop_reason=StopReason.TOOL_USE if wanted else StopReason.COMPLETE,
            usage=Usage(input_tokens=1, output_tokens=1),
        )


def _calls(messages: Sequence[Message]) -> list[Call]:
    results = {
        result.call_id: result.text for message in messages for result in message.tool_results
    }
    asked = [call for message in messages for call in message.tool_calls]
    return [
        Call(call.id, call.name, json.loads(call.arguments_json)["order"], results.get(call.id, ""))
        for call in asked
    ]


async def main(folder: Path, how: str, effect: Effect) -> None:
    shop = Shop(folder)
    tools = [
        tool(effect=effect)(shop.charge),
        tool(effect="idempotent")(shop.notify),
        tool(effect="pure")(shop.look_up),
    ]
    agent = Agent(name="shop", model=ShopModel(shop), tools=tools)

    async with Runtime.open(f"sqlite:///{folder / 'journal.db'}") as runtime:
        left = await runtime.journal.runs(limit=1)
        begun_anew = how == "resume" and not left
        result = await (
            runtime.resume(left[0].run_id, agent=agent) if left else runtime.run(agent, PROMPT)
        )
        shop.point("run ended")
        entries = [record.entry for record in await runtime.journal.read(result.run_id)]
    unknown = [
        entry.result.call_id
        for entry in entries
        if isinstance(entry, ToolFinished) and entry.status == "unknown"
    ]
    shop.end(result.text, unknown=unknown, begun_anew=begun_anew)


asyncio.run(
    main(Path(sys.argv[1]), sys.argv[2], "idempotent" if "idempotent" in sys.argv[3:] else "once")
)
