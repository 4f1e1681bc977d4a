"""The experiment's agent on LangGraph: `langgraph_worker.py FOLDER start|resume`.

Persistence is its SQLite checkpointer in the strictest durability mode. A run is resumed as
documented: the same thread, with None as the input.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from shop import DONE, PROMPT, Call, Shop


class ShopModel(BaseChatModel):
    shop: Any

    @property
    def _llm_type(self) -> str:
        return "shop"

    def bind_tools(self, tools: object, **options: object) -> ShopModel:  # pyright: ignore[reportIncompatibleMethodOverride]  it knows them
        return self

    def _generate(
        self, messages: list[BaseMessage], *rest: object, **options: object
    ) -> ChatResult:
        wanted = self.shop.answer(_calls(messages))
        tool_calls = [
            {"id": call.id, "name": call.name, "args": {"order": call.order}} for call in wanted
        ]
        return ChatResult(
            generations=[
                ChatGeneration(
                    message=AIMessage(content="" if wanted else DONE, tool_calls=tool_calls)
                )
            ]
        )

    async def _agenerate(
        self, messages: list[BaseMessage], *rest: object, **options: object
    ) -> ChatResult:
        return self._generate(messages)


def _calls(messages: list[BaseMessage]) -> list[Call]:
    results = {
        message.tool_call_id: str(message.content)
        for message in messages
        if isinstance(message, ToolMessage)
    }
    asked = [
        call
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    ]
    return [
        Call(str(call["id"]), call["name"], call["args"]["order"], results.get(str(call["id"]), ""))
        for call in asked
    ]


async def main(folder: Path, how: str) -> None:
    shop = Shop(folder)
    async with AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:
        agent = create_agent(
            ShopModel(shop=shop), tools=[shop.charge, shop.notify, shop.look_up], checkpointer=saver
        )
        given = {"messages": [("user", PROMPT)]} if how == "start" else None
        state = await agent.ainvoke(
            given, {"configurable": {"thread_id": "shop"}}, durability="sync"
        )
        shop.point("run ended")
    # its checkpoints hold results and the steps that wait, not whether a step had begun
    shop.end(state["messages"][-1].content)


asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
