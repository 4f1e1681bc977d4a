"""The experiment's agent on Pydantic AI: `pydantic_ai_worker.py FOLDER start|resume
dbos|steps|ledger`.

dbos: durable execution with DBOS on SQLite, with tools as DBOS steps; a run is resumed by launching
DBOS in a new process. steps: StepPersistence of its harness on SQLite, as in its quick start; a run
is resumed with `continue_run`, or by giving the prompt again if nothing can be continued. ledger:
the same with `capture_frontier`, and an application that reads the ledger of tool effects before it
continues.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    repair_messages,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from shop import DONE, PROMPT, Call, Shop

GO_ON = "The process stopped and was started again. Go on."


def model(shop: Shop) -> FunctionModel:
    def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        wanted = shop.answer(_calls(messages))
        parts = [
            ToolCallPart(call.name, {"order": call.order}, tool_call_id=call.id) for call in wanted
        ]
        return ModelResponse(parts=parts or [TextPart(DONE)])

    return FunctionModel(answer)


def _calls(messages: list[ModelMessage]) -> list[Call]:
    parts = [part for message in messages for part in message.parts]
    results = {
        part.tool_call_id: part
        for part in parts
        if isinstance(part, (ToolReturnPart, RetryPromptPart))
    }
    asked = [part for part in parts if isinstance(part, ToolCallPart)]
    return [
        Call(
            part.tool_call_id,
            part.tool_name,
            part.args_as_dict()["order"],
            _text(results.get(part.tool_call_id)),
        )
        for part in asked
    ]


def _text(result: ToolReturnPart | RetryPromptPart | None) -> str:
    return (
        ""
        if result is None
        else result.model_response_str()
        if isinstance(result, ToolReturnPart)
        else result.model_response()
    )


# ---------------------------------------------------------------- DBOS


async def with_dbos(shop: Shop, folder: Path, *, start: bool) -> None:
    from dbos import DBOS, SetWorkflowID
    from pydantic_ai.durable_exec.dbos import DBOSDurability

    DBOS(
        config={
            "name": "shop",
            "system_database_url": f"sqlite:///{folder / 'dbos.sqlite'}",
            "log_level": "ERROR",
        }
    )

    @DBOS.step()
    async def charge(order: str) -> str:
        return await shop.charge(order)

    @DBOS.step()
    async def notify(order: str) -> str:
        return await shop.notify(order)

    @DBOS.step()
    async def look_up(order: str) -> str:
        return await shop.look_up(order)

    agent = Agent(
        model(shop), name="shop", tools=[charge, notify, look_up], capabilities=[DBOSDurability()]
    )

    @DBOS.workflow()
    async def sell(prompt: str) -> str:
        return (await agent.run(prompt)).output

    DBOS.launch()  # takes up the workflows that this executor had not finished
    if start:
        with SetWorkflowID("shop"):
            await DBOS.start_workflow_async(sell, PROMPT)
    handle: Any = await DBOS.retrieve_workflow_async("shop")
    text: str = await handle.get_result()
    shop.point("run ended")
    DBOS.destroy()
    shop.end(text)  # its tables hold the steps that ended, not those that had begun


# ---------------------------------------------------------------- StepPersistence


async def with_steps(shop: Shop, folder: Path, *, start: bool, ledger: bool) -> None:
    from pydantic_ai_harness import StepPersistence
    from pydantic_ai_harness.step_persistence import SqliteStepStore

    store: Any = SqliteStepStore(database=folder / "steps.db")
    steps: Any = StepPersistence(store=store, agent_name="shop", capture_frontier=ledger)
    agent = Agent(
        model(shop),
        name="shop",
        tools=[shop.charge, shop.notify, shop.look_up],
        capabilities=[steps],
    )
    if start:
        text = (await agent.run(PROMPT, conversation_id="shop")).output
        shop.point("run ended")
        shop.end(text)
        return
    run_id = (await store.list_runs(conversation_id="shop"))[-1].run_id
    unresolved = [
        effect.tool_call_id for effect in await store.list_unresolved_tool_effects(run_id=run_id)
    ]
    text = await _went_on(agent, store, run_id, ledger=ledger)
    begun_anew = text is None
    if text is None:
        text = (await agent.run(PROMPT, conversation_id="shop")).output
    shop.end(text, unknown=unresolved, begun_anew=begun_anew)


async def _went_on(agent: Agent[None, str], store: Any, run_id: str, *, ledger: bool) -> str | None:
    """Continue the run. Return its last text; None if there was nothing to continue."""
    from pydantic_ai_harness.step_persistence import continue_run

    try:
        history: list[Any] = await continue_run(store, run_id=run_id, include_interrupted=ledger)
    except LookupError:
        return None
    if (await store.list_events(run_id=run_id))[-1].kind == "run_completed":
        return history[-1].parts[-1].content
    if not ledger:
        return (await agent.run(GO_ON, message_history=history, conversation_id="shop")).output
    pending = [call.id for call in _calls(history) if not call.result]
    begun = [
        call
        for call in pending
        if await store.get_tool_effect(run_id=run_id, tool_call_id=call) is not None
    ]
    if not begun:  # without a prompt the framework runs what is pending
        return (await agent.run(message_history=history, conversation_id="shop")).output
    prompt = f"{GO_ON} These calls had begun, and may or may not have happened: {', '.join(begun)}."
    return (
        await agent.run(prompt, message_history=repair_messages(history), conversation_id="shop")
    ).output


async def main(folder: Path, how: str, kind: str) -> None:
    shop, start = Shop(folder), how == "start"
    if kind == "dbos":
        await with_dbos(shop, folder, start=start)
    else:
        await with_steps(shop, folder, start=start, ledger=kind == "ledger")


asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:4]))
