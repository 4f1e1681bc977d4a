"""Runs as spans: which there are, how they nest, what they say, also where a run does not end well."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, StatusCode
from typing_extensions import override

from tests.doubles import (
    USED,
    Gate,
    PlainTool,
    PlayedModel,
    agent,
    asks,
    breaks,
    call,
    end,
    fails,
    gives,
    open_runtime,
    says,
    watch,
    wishes,
)
from tests.events.telemetry.traces import Watched, told
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import ToolContext
from treadle.agents.agent import Agent
from treadle.config import Config
from treadle.config.sections import Models
from treadle.events.telemetry import names
from treadle.events.tracing import TracedRun, at_first
from treadle.models.model import ModelRequest, ModelResponse, Switch, TextDelta
from treadle.models.retry import ModelAttempt
from treadle.tools.tool import ToolDeferred
from treadle.types import Limits, StopReason, Usage


async def test_spans_name_the_user_and_that_of_the_run_its_labels() -> None:
    watched = Watched()
    await open_runtime(tracer=watched.tracer).run(
        agent([asks(call("look", "k1")), says("Here.")], gives("look")),
        "Look.",
        user_id="ada",
        tags=["demo", "eu"],
        metadata={"order": 7, "shop": "north"},
    )
    assert {span.attributes["user.id"] for span in watched.spans} == {"ada"}
    (run,) = [span for span in watched.spans if "treadle.run.tags" in span.attributes]
    assert run.name.startswith("invoke_agent")
    assert run.attributes["treadle.run.tags"] == ("demo", "eu")
    assert run.attributes["treadle.run.metadata.order"] == 7
    assert run.attributes["treadle.run.metadata.shop"] == "north"


async def test_a_run_is_a_tree_of_spans() -> None:
    watched = Watched()
    rt = open_runtime(tracer=watched.tracer)
    seen = await watch(
        [asks(call("look", "k1")), says("There is a cat.")],
        gives("look"),
        runtime=rt,
        session="ada",
    )
    assert watched.tree() == [
        "invoke_agent tester",
        "  chat inline",
        "  execute_tool look",
        "  chat inline",
    ]
    run, first, tool, _ = watched.spans
    assert [span.kind for span in (run, first, tool)] == [
        SpanKind.INTERNAL,
        SpanKind.CLIENT,
        SpanKind.INTERNAL,
    ]
    assert {span.status.status_code for span in watched.spans} == {StatusCode.UNSET}
    assert told(run) == {
        names.OPERATION: "invoke_agent",
        names.RUN_ID: seen.result.run_id,
        names.CONVERSATION: "ada",
        names.AGENT_ID: "tester",
        names.AGENT_NAME: "tester",
        names.AGENT_VERSION: agent([], gives("look")).fingerprint,
        names.PROVIDER: "script",
        names.REQUEST_MODEL: "inline",
        names.OUTCOME: "completed",
        names.TURNS: 2,
        names.TOOL_CALLS: 1,
        names.RETRIES: 0,
        names.INPUT_TOKENS: 20,
        names.OUTPUT_TOKENS: 10,
        names.CACHE_READ_TOKENS: 0,
        names.CACHE_WRITE_TOKENS: 0,
        names.REASONING_TOKENS: 0,
        names.TOTAL_RUNS: 1,
        names.TOTAL_TURNS: 2,
        names.TOTAL_TOOL_CALLS: 1,
        names.TOTAL_INPUT_TOKENS: 20,
        names.TOTAL_OUTPUT_TOKENS: 10,
    }
    assert told(first).items() >= {
        (names.OPERATION, "chat"),
        (names.CONVERSATION, "ada"),
        (names.AGENT_NAME, "tester"),
        (names.REQUEST_MODEL, "inline"),
        (names.RESPONSE_MODEL, "script"),
        (names.REQUEST_MAX_TOKENS, 8192),
        (names.REQUEST_STREAM, True),
        (names.OUTPUT_TYPE, "text"),
        (names.FINISH_REASONS, ("tool_use",)),
        (names.STOP_REASON, "tool_use"),
        (names.INPUT_TOKENS, 10),
    }
    assert told(first)[names.RESPONSE_ID].startswith("resp_")
    assert told(first)[names.FIRST_CHUNK_S] >= 0
    assert told(tool).items() >= {
        (names.OPERATION, "execute_tool"),
        (names.TOOL_NAME, "look"),
        (names.TOOL_CALL_ID, "k1"),
        (names.TOOL_TYPE, "function"),
    }


async def test_the_description_of_an_agent_is_told() -> None:
    watched = Watched()
    rt = open_runtime(tracer=watched.tracer)
    await rt.run(agent([says("hi")], description="Looks at cats."), "go")
    assert told(watched.named("invoke_agent tester"))[names.AGENT_DESCRIPTION] == "Looks at cats."


async def test_input_tokens_hold_those_that_were_cached() -> None:
    watched = Watched()
    usage = {
        "input_tokens": 3,
        "output_tokens": 5,
        "cache_read_tokens": 100,
        "cache_write_tokens": 20,
        "reasoning_tokens": 2,
    }
    await watch([says("hi", usage=usage)], runtime=open_runtime(tracer=watched.tracer))
    for span in watched.spans:
        assert told(span).items() >= {
            (names.INPUT_TOKENS, 123),
            (names.OUTPUT_TOKENS, 5),
            (names.CACHE_READ_TOKENS, 100),
            (names.CACHE_WRITE_TOKENS, 20),
            (names.REASONING_TOKENS, 2),
        }
    assert {
        (point.attributes or {})[names.TOKEN_TYPE]: point.sum
        for point in watched.points(names.TOKEN_USAGE)
    } == {"input": 123, "output": 5}


async def test_a_retry_is_an_event_in_the_span_of_its_response() -> None:
    watched = Watched()
    await watch(
        [fails("rate_limit", retry_after_s=2), says("hi")],
        runtime=open_runtime(tracer=watched.tracer),
    )
    assert watched.tree() == ["invoke_agent tester", "  chat inline"]
    chat = watched.named("chat inline")
    assert [(event.name, dict(event.attributes or {})) for event in chat.events] == [
        ("treadle.retry", {"error.type": "rate_limit", "treadle.retry.wait_s": 2.0})
    ]
    assert chat.status.status_code is StatusCode.UNSET
    assert told(watched.named("invoke_agent tester"))[names.RETRIES] == 1


def test_the_first_piece_counts_from_the_attempt_that_it_belongs_to() -> None:
    watched = Watched()
    run = TracedRun(
        run_id="run_1",
        session_id=None,
        parent_run_id=None,
        agent="a",
        agent_hash="",
        description="",
        model="script:inline",
    )
    response = ModelResponse(parts=(), usage=Usage(), stop_reason=StopReason.COMPLETE)
    for first, wait_s, second in ((True, 0.0, False), (False, 3600.0, True)):
        with watched.tracer.model(run, ModelRequest(messages=[])) as span:
            if first:
                span.first_delta()
            span.retried("network", wait_s)
            if second:
                span.first_delta()
            span.responded(response, None)
    assert [told(span).get(names.FIRST_CHUNK_S) for span in watched.spans] == [None, 0.0], (
        "the wait is not the model's"
    )


def test_the_first_piece_of_each_attempt_is_noticed() -> None:
    attempt, noticed, heard = ModelAttempt(set()), list[int](), list[object]()
    hear = at_first(attempt, lambda: noticed.append(attempt.number), heard.append)
    for _ in range(2):
        hear(TextDelta("a"))
        hear(TextDelta("b"))
        attempt.next()
    assert (noticed, len(heard)) == ([1, 2], 4)


async def test_another_model_that_takes_over_is_an_event_with_the_reason() -> None:
    watched = Watched()
    switch = Switch(
        model="played:other", before="played:model", kind="refusal", why="it refused", usage=Usage()
    )
    await watch(
        PlayedModel([TextDelta("I"), switch, TextDelta("hi"), end(model="other")]),
        runtime=open_runtime(tracer=watched.tracer),
    )
    chat = watched.named("chat model")
    assert [(event.attributes or {})["error.type"] for event in chat.events] == ["refusal"]
    assert told(chat)[names.RESPONSE_MODEL] == "other"


async def test_a_run_that_failed_says_so_without_a_secret() -> None:
    watched = Watched()
    model = PlayedModel(
        [ValueError("the key sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789 is wrong")]
    )
    seen = await watch(model, runtime=open_runtime(tracer=watched.tracer))
    assert seen.outcome == "error"
    run, chat = watched.spans
    assert (run.status.status_code, told(run)[names.ERROR_TYPE], told(run)[names.OUTCOME]) == (
        StatusCode.ERROR,
        "agent",
        "error",
    )
    assert (chat.status.status_code, told(chat)[names.ERROR_TYPE]) == (
        StatusCode.ERROR,
        "ValueError",
    )
    assert "the key [redacted] is wrong" in (chat.status.description or "")
    assert "sk-ant" not in "".join(span.to_json() for span in watched.spans)


async def test_an_error_of_the_provider_keeps_its_kind() -> None:
    watched = Watched()
    await watch([fails("auth", status=401)], runtime=open_runtime(tracer=watched.tracer))
    assert [told(span)[names.ERROR_TYPE] for span in watched.spans] == ["auth", "auth"]
    (point,) = [
        one
        for one in watched.points(names.OPERATION_DURATION)
        if (one.attributes or {})[names.OPERATION] == "chat"
    ]
    assert (point.attributes or {})[names.ERROR_TYPE] == "auth"


async def test_a_limit_is_an_outcome_and_no_error() -> None:
    watched = Watched()
    await watch(
        [asks(call("look", at=i)) for i in range(3)],
        gives("look"),
        runtime=open_runtime(tracer=watched.tracer),
        limits=Limits(turns=2),
    )
    run = watched.named("invoke_agent tester")
    assert (told(run)[names.OUTCOME], run.status.status_code) == ("turn_limit", StatusCode.UNSET)
    assert names.ERROR_TYPE not in told(run)


async def test_a_tool_that_fails_is_an_error_of_its_own_span_only() -> None:
    watched = Watched()
    rt = open_runtime(tracer=watched.tracer)
    await watch(
        [asks(call("bad")), says("sorry")],
        breaks("bad", ValueError("no"), effect="pure"),
        runtime=rt,
    )
    tool = watched.named("execute_tool bad")
    assert (tool.status.status_code, told(tool)[names.ERROR_TYPE]) == (
        StatusCode.ERROR,
        "tool_error",
    )
    assert watched.named("invoke_agent tester").status.status_code is StatusCode.UNSET


async def test_a_cancelled_run_closes_every_span_and_is_nobodys_failure() -> None:
    watched, gate = Watched(), Gate()
    rt = open_runtime(tracer=watched.tracer)
    with anyio.fail_after(20):
        async with (
            rt.stream(agent([asks(call("gate"))], gate.tool), "go") as stream,
            anyio.create_task_group() as group,
        ):

            async def stop() -> None:
                await gate.reached.wait()
                stream.cancel()

            group.start_soon(stop)
            async for _ in stream:
                pass
    assert watched.tree() == ["invoke_agent tester", "  chat inline", "  execute_tool gate"]
    run, _, tool = watched.spans
    for span in (run, tool):
        assert (span.status.status_code, told(span)[names.ERROR_TYPE]) == (
            StatusCode.UNSET,
            "cancelled",
        )
    assert told(run)[names.OUTCOME] == "cancelled"


async def test_a_response_that_is_cut_is_a_span_that_was_cancelled() -> None:
    watched = Watched()
    gate = Gate()
    rt = open_runtime(tracer=watched.tracer)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(rt.run, agent(PlayedModel([TextDelta("I am"), gate.stop])), "go")
            await gate.reached.wait()
            group.cancel_scope.cancel()
    assert [(span.name, told(span)[names.ERROR_TYPE]) for span in watched.spans] == [
        ("invoke_agent tester", "cancelled"),
        ("chat model", "cancelled"),
    ]


async def test_calls_side_by_side_are_siblings() -> None:
    watched = Watched()
    first, second = Gate("first"), Gate("second")
    rt = open_runtime(tracer=watched.tracer)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(
                rt.run,
                agent([asks(call("first"), call("second")), says("done")], first.tool, second.tool),
                "go",
            )
            await first.reached.wait()
            await second.reached.wait()
            second.opened.set()
            first.opened.set()
    assert watched.tree() == [
        "invoke_agent tester",
        "  chat inline",
        "  execute_tool first",
        "  execute_tool second",
        "  chat inline",
    ]


async def test_a_child_run_stands_under_the_call_that_started_it() -> None:
    watched = Watched()
    child = Agent[Any](
        name="child", model=agent([asks(call("look")), says("a cat")]).model, tools=(gives("look"),)
    )

    async def does(ctx: ToolContext[None], arguments: object) -> str:
        return (await ctx.spawn(child, "Have a look.")).text

    rt = open_runtime(tracer=watched.tracer)
    tools = (PlainTool(name="ask", does=does), gives("other"))
    result = await rt.run(
        agent([asks(call("other", "k1"), call("ask", "k2")), says("done")], *tools), "go"
    )
    assert watched.tree() == [
        "invoke_agent tester",
        "  chat inline",
        "  execute_tool other",
        "  execute_tool ask",
        "    invoke_agent child",
        "      chat inline",
        "      execute_tool look",
        "      chat inline",
        "  chat inline",
    ]
    assert len({span.context.trace_id for span in watched.spans if span.context}) == 1
    assert told(watched.named("invoke_agent child"))[names.PARENT_RUN_ID] == result.run_id


async def test_a_run_joins_the_trace_that_its_caller_is_in() -> None:
    watched = Watched()
    rt = open_runtime(tracer=watched.tracer)
    with watched.traces.get_tracer("app").start_as_current_span("GET /answer"):
        await rt.run(agent([says("hi")]), "go")
        async with rt.stream(agent([says("hi")]), "go") as stream:
            async for _ in stream:
                pass
    assert watched.tree() == ["GET /answer", *["  invoke_agent tester", "    chat inline"] * 2]


async def test_what_a_tool_says_of_itself_stands_in_its_span() -> None:
    watched = Watched()

    class Remote(PlainTool):
        trace = {"mcp.server": "files", "unheard_of": "left out"}  # noqa: RUF012  read only

    async def does(ctx: ToolContext[None], arguments: object) -> str:
        return "ok"

    await watch(
        [asks(call("look")), says("done")],
        Remote(name="look", does=does),
        runtime=open_runtime(tracer=watched.tracer),
    )
    assert told(watched.named("execute_tool look")).items() >= {
        (names.TOOL_TYPE, "extension"),
        (names.MCP_SERVER, "files"),
    }
    assert "left out" not in "".join(map(str, told(watched.named("execute_tool look")).values()))


@pytest.mark.usefixtures("store")
async def test_a_call_whose_result_comes_later_is_no_error() -> None:
    watched = Watched()
    rt = open_runtime(tracer=watched.tracer)
    first = await rt.run(
        agent(
            [asks(call("later", "k1")), says("done")],
            breaks("later", ToolDeferred("a person looks")),
        ),
        "go",
    )
    tool = watched.named("execute_tool later")
    assert (first.outcome, told(tool)[names.TOOL_DEFERRED], tool.status.status_code) == (
        "approval_needed",
        True,
        StatusCode.UNSET,
    )
    assert names.ERROR_TYPE not in told(tool)
    await rt.resume(first.run_id, results={"k1": "looked"})
    assert [
        told(span)[names.OUTCOME] for span in watched.spans if span.name == "invoke_agent tester"
    ] == ["approval_needed", "completed"]


async def test_an_agent_among_the_tools_has_its_run_under_its_call() -> None:
    watched = Watched()
    child = Agent[Any](name="child", description="Looks.", model=agent([says("a cat")]).model)
    rt = open_runtime(tracer=watched.tracer)
    parent = Agent[Any](
        name="parent",
        model=agent([asks(call("child", "k1", prompt="Look.")), says("done")]).model,
        tools=[child],
    )
    assert (await rt.run(parent, "go")).success
    assert watched.tree() == [
        "invoke_agent parent",
        "  chat inline",
        "  execute_tool child",
        "    invoke_agent child",
        "      chat inline",
        "  chat inline",
    ]
    assert told(watched.named("execute_tool child"))[names.TOOL_AGENT] == "child"
    above, below = (
        told(watched.named("invoke_agent parent")),
        told(watched.named("invoke_agent child")),
    )
    assert (
        above[names.TURNS],
        above[names.TOTAL_TURNS],
        above[names.TOTAL_RUNS],
        above[names.TOTAL_TOOL_CALLS],
    ) == (2, 3, 2, 1)
    assert (
        above[names.INPUT_TOKENS],
        above[names.TOTAL_INPUT_TOKENS],
        above[names.TOTAL_OUTPUT_TOKENS],
    ) == (20, 30, 15)
    assert (below[names.TOTAL_RUNS], below[names.TOTAL_TURNS]) == (1, 1)


async def test_a_summary_is_a_span_of_the_model_that_wrote_it(tmp_path: Path) -> None:
    watched, script = Watched(), tmp_path / "small.json"
    script.write_text(json.dumps([fails("rate_limit"), says("They rambled.")]))
    async with open_runtime(
        tracer=watched.tracer, config=Config(models=Models(small=f"script:{script}"))
    ) as rt:
        session = rt.session(
            "s", agent=agent([*(says("so on " * 3000) for _ in range(3)), says("done")])
        )
        for i in range(3):
            await session.send(f"question {i}")
        session.compact()
        await session.send("and now?")
    first, second = [span for span in watched.spans if span.name.startswith("chat")][-2:]
    assert (first.name, second.name) == (f"chat {script}", "chat inline")
    assert [event.name for event in first.events] == [names.RETRY]
    assert told(first)[names.OUTPUT_TOKENS] == USED["output_tokens"]


# ---------------------------------------------------------------- metrics


async def test_durations_are_kept_apart_by_operation() -> None:
    watched = Watched()
    await watch(
        [asks(call("look")), says("hi")], gives("look"), runtime=open_runtime(tracer=watched.tracer)
    )
    counts = {
        (point.attributes or {})[names.OPERATION]: point.count
        for point in watched.points(names.OPERATION_DURATION)
    }
    assert counts == {"invoke_agent": 1, "chat": 2, "execute_tool": 1}
    (first,) = watched.points(names.TIME_TO_FIRST_CHUNK)
    assert first.count == 2
    assert first.explicit_bounds == names.DURATION_BOUNDS_S
    assert not any(
        names.RUN_ID in (point.attributes or {})
        for point in watched.points(names.OPERATION_DURATION)
    ), "no series of its own for each run"


# ---------------------------------------------------------------- what breaks


class Broken(SpanProcessor):
    @override
    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise RuntimeError("no disk")

    @override
    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("no network")


async def test_a_broken_processor_harms_no_run_and_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched(processors=[Broken()])
    rt = open_runtime(tracer=watched.tracer)
    seen = await watch([asks(call("look")), says("hi")], gives("look"), runtime=rt)
    assert (seen.outcome, seen.result.text) == ("completed", "hi")
    assert [record.message for record in caplog.records if "tracing failed" in record.message] == [
        "tracing failed; runs continue, and further failures are not logged: RuntimeError: no disk"
    ]


class Stuck(SpanExporter):
    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    @override
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.reached.set()
        self.opened.wait()
        return SpanExportResult.FAILURE


async def test_an_exporter_that_hangs_holds_up_no_run() -> None:
    stuck = Stuck()
    processor = BatchSpanProcessor(
        stuck, max_export_batch_size=1, max_queue_size=2, schedule_delay_millis=1
    )
    watched = Watched(processors=[processor])
    rt = open_runtime(tracer=watched.tracer)
    try:
        assert (await watch([says("hi")], runtime=rt)).outcome == "completed"
        await anyio.to_thread.run_sync(stuck.reached.wait)
        assert (await watch([says("hi again")], runtime=rt)).outcome == "completed"
    finally:
        stuck.opened.set()
        processor.shutdown()


async def test_names_that_no_utf8_can_hold_are_written_out() -> None:
    watched = Watched()
    odd = "l\ud800k"
    await watch(
        PlayedModel(wishes(("k\ud800", odd, "{}")), [TextDelta("hi"), end()]),
        gives(odd),
        runtime=open_runtime(tracer=watched.tracer),
    )
    tool = watched.named("execute_tool l\\ud800k")
    assert told(tool)[names.TOOL_CALL_ID] == "k\\ud800"
