"""What holds over every connection."""

from __future__ import annotations

from contextlib import aclosing

import anyio
import pytest

from tests.providers.conftest import KEY, ModelOn
from tests.providers.loopback import SILENT_CUT, Answer, Step, document, serving, sse, stream
from treadle.errors import AgentError, ErrorKind
from treadle.message import Message, TextPart, ToolCall
from treadle.model import Delta, Fold, ModelRequest, Notice, ResponseEnd, TextDelta, ToolDefinition, fold_stream
from treadle.types import Settings, StopReason, SystemBlock, Usage

USAGE = {"input_tokens": 3, "output_tokens": 1}
START = {"type": "message_start", "message": {"id": "msg_1", "model": "claude-test-1", "content": [], "usage": USAGE}}
TEXT = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
STOP_0 = {"type": "content_block_stop", "index": 0}
STOP = {"type": "message_stop"}


def text(piece: str) -> dict[str, object]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}


def ending(reason: str, **delta: object) -> dict[str, object]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, **delta}, "usage": {"output_tokens": 7}}


WHOLE = (START, TEXT, text("Good "), text("day"), STOP_0, ending("end_turn"), STOP)
HELLO = ModelRequest(messages=[Message.user("Hello")], settings=Settings(max_tokens=100))


async def asked(model_on: ModelOn, answer: Answer, **options: object) -> AgentError:
    async with serving(answer) as server:
        with anyio.fail_after(5), pytest.raises(AgentError) as raised:
            await fold_stream(model_on(server, **options).stream(HELLO))
    return raised.value


# ---------------------------------------------------------------- answers


async def test_a_stream_is_folded_into_a_response(model_on: ModelOn) -> None:
    async with serving(stream(*WHOLE)) as server:
        response = await fold_stream(model_on(server).stream(HELLO))
    assert response.parts == (TextPart(text="Good day"),)
    assert response.usage == Usage(input_tokens=3, output_tokens=7)
    assert (response.stop_reason, response.raw_stop_reason, response.id, response.model) == (StopReason.COMPLETE, "end_turn", "msg_1", "claude-test-1")


async def test_a_plain_json_body_gives_the_same_response(model_on: ModelOn) -> None:
    body = {
        "id": "msg_1",
        "model": "claude-test-1",
        "content": [{"type": "text", "text": "Good day"}],
        "stop_reason": "end_turn",
        "usage": {**USAGE, "output_tokens": 7},
    }
    async with serving(document({"type": "message", **body}), stream(*WHOLE)) as server:
        model = model_on(server)
        assert await fold_stream(model.stream(HELLO)) == await fold_stream(model.stream(HELLO))


async def test_deltas_arrive_while_the_answer_is_still_being_written(model_on: ModelOn) -> None:
    async with serving(Answer(steps=(sse(START), sse(TEXT), sse(text("early")), Step.HANG))) as server:
        with anyio.fail_after(5):
            async with aclosing(model_on(server).stream(HELLO)) as deltas:
                async for delta in deltas:
                    if delta == TextDelta("early"):
                        break
            await server.gone.wait()


async def test_one_connection_carries_many_requests(model_on: ModelOn) -> None:
    async with serving(*[stream(*WHOLE)] * 5) as server:
        model = model_on(server)
        for _ in range(5):
            await fold_stream(model.stream(HELLO))
        assert server.connections == 1


async def test_what_is_asked_is_one_post_with_the_key_and_the_version(model_on: ModelOn) -> None:
    async with serving(stream(*WHOLE)) as server:
        await fold_stream(model_on(server).stream(ModelRequest(messages=HELLO.messages, settings=Settings(max_tokens=5, extra={"betas": ["a-1", "b-2"]}))))
    (seen,) = server.seen
    assert (seen.method, seen.target) == ("POST", "/v1/messages")
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.headers["anthropic-version"] == "2026-10-21"
    assert seen.headers["anthropic-beta"] == "a-1,b-2"
    assert seen.headers["content-type"] == "application/json"
    assert seen.json["stream"] is True
    assert "betas" not in seen.json


async def test_a_large_body_arrives_whole(model_on: ModelOn) -> None:
    async with serving(stream(*WHOLE)) as server:
        await fold_stream(model_on(server).stream(ModelRequest(messages=[Message.user("x" * 3_000_000)], settings=Settings(max_tokens=5))))
    assert len(server.seen[0].body) > 3_000_000
    assert server.seen[0].json["model"] == "claude-test"


async def test_many_requests_run_at_once(model_on: ModelOn) -> None:
    async with serving(*[stream(*WHOLE)] * 150) as server:
        model, done = model_on(server), list[str]()

        async def ask() -> None:
            done.append((await fold_stream(model.stream(HELLO))).text)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                for _ in range(150):
                    group.start_soon(ask)
    assert done == ["Good day"] * 150


async def test_tokens_are_counted(model_on: ModelOn) -> None:
    tools = (ToolDefinition(name="look", description="Looks.", parameters={"type": "object"}),)
    request = ModelRequest(
        messages=[Message.user("Hello")], tools=tools, system=(SystemBlock(text="Be kind."),), settings=Settings(max_tokens=9, temperature=0.5)
    )
    async with serving(document({"input_tokens": 41})) as server:
        assert await model_on(server).count_tokens(request) == 41
    assert server.seen[0].target == "/v1/messages/count_tokens"
    assert set(server.seen[0].json) == {"model", "messages", "system", "tools"}


async def test_a_count_that_is_none_is_an_error(model_on: ModelOn) -> None:
    async with serving(document({"tokens": "many"})) as server:
        with pytest.raises(AgentError, match="cannot be read") as raised:
            await model_on(server).count_tokens(HELLO)
    assert raised.value.kind is ErrorKind.NETWORK


async def test_a_refusal_says_why_to_the_person(model_on: ModelOn) -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "Not this."}
    deltas: list[Delta] = []
    async with serving(stream(START, ending("refusal", stop_details=details), STOP)) as server:
        async for delta in model_on(server).stream(HELLO):
            deltas.append(delta)
    assert Notice("the provider refused to go on: cyber: Not this.") in deltas
    assert isinstance(deltas[-1], ResponseEnd)
    assert deltas[-1].stop_reason is StopReason.REFUSAL


async def test_temperature_is_named_as_what_the_model_refuses_and_sent_when_given(model_on: ModelOn) -> None:
    async with serving(stream(*WHOLE)) as server:
        model = model_on(server)
        assert model.refuses == {"temperature"}
        assert model.name == "anthropic:claude-test"
        await fold_stream(model.stream(ModelRequest(messages=HELLO.messages, settings=Settings(max_tokens=5, temperature=0.25))))
    assert server.seen[0].json["temperature"] == 0.25


# ---------------------------------------------------------------- errors


async def test_an_error_status_becomes_an_error_with_all_that_the_provider_said(model_on: ModelOn) -> None:
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down."}, "request_id": "req_body"}
    error = await asked(model_on, document(body, status=429, headers={"retry-after": "12", "request-id": "req_head"}))
    assert (error.kind, error.status, error.request_id, error.retry_after_s) == (ErrorKind.RATE_LIMIT, 429, "req_head", 12.0)
    assert "Slow down." in error.message
    assert KEY not in error.message


async def test_the_provider_is_asked_once_whatever_it_says(model_on: ModelOn) -> None:
    overloaded = document({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, status=529)
    async with serving(overloaded, stream(*WHOLE)) as server:
        with pytest.raises(AgentError):
            await fold_stream(model_on(server).stream(HELLO))
    assert len(server.seen) == 1


async def test_a_page_of_a_proxy_gives_a_short_clean_message(model_on: ModelOn) -> None:
    page = b"<html><head><title>502 Bad\x1b[31m Gateway</title></head><body>" + b"<p>nginx</p>" * 10_000 + b"</body></html>"
    error = await asked(model_on, Answer(steps=(page,), status=502, type="text/html", chunked=False))
    assert error.kind is ErrorKind.NETWORK
    assert "502 Bad" in error.message
    assert len(error.message) < 300
    assert "<" not in error.message
    assert "\x1b" not in error.message


async def test_a_page_instead_of_an_answer_points_at_the_address(model_on: ModelOn) -> None:
    error = await asked(model_on, Answer(steps=(b"<html>Welcome</html>",), type="text/html", chunked=False))
    assert error.kind is ErrorKind.INVALID
    assert "base_url" in error.message


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_refused_and_the_key_does_not_travel(model_on: ModelOn, status: int) -> None:
    async with (
        serving(stream(*WHOLE)) as elsewhere,
        serving(Answer(status=status, headers={"location": f"{elsewhere.url}/v1/messages"}, chunked=False)) as server,
    ):
        with pytest.raises(AgentError) as raised:
            await fold_stream(model_on(server).stream(HELLO))
        assert elsewhere.connections == 0
    assert raised.value.kind is ErrorKind.INVALID
    assert raised.value.status == status
    assert f"127.0.0.1:{elsewhere.port}" in raised.value.message


async def test_an_error_inside_a_stream_is_told_by_its_type_after_what_came_before(model_on: ModelOn) -> None:
    failure = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "req_1"}
    fold = Fold()

    async def read() -> None:
        async for delta in model_on(server).stream(HELLO):
            fold.add(delta)

    async with serving(stream(START, TEXT, text("Partial"), failure)) as server:
        with pytest.raises(AgentError) as raised:
            await read()
    assert fold.partial() == (TextPart(text="Partial"),)
    assert (raised.value.kind, raised.value.status, raised.value.request_id) == (ErrorKind.RATE_LIMIT, 200, "req_1")


async def test_an_error_document_under_a_good_status_is_an_error(model_on: ModelOn) -> None:
    error = await asked(model_on, document({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}))
    assert error.kind is ErrorKind.RATE_LIMIT


async def test_a_stream_that_is_cut_is_a_lost_connection(model_on: ModelOn) -> None:
    error = await asked(model_on, Answer(steps=(sse(START), sse(TEXT), sse(text("Good ")), Step.CUT), headers={"request-id": "req_cut"}))
    assert (error.kind, error.status, error.request_id) == (ErrorKind.NETWORK, 200, "req_cut")


async def test_a_plain_body_that_is_cut_is_a_lost_connection(model_on: ModelOn) -> None:
    error = await asked(model_on, Answer(steps=(b'{"content": [', Step.CUT), type="application/json", headers={"request-id": "req_cut"}))
    assert (error.kind, error.status, error.request_id) == (ErrorKind.NETWORK, 200, "req_cut")


async def test_a_stream_that_ends_politely_but_early_is_a_lost_connection(model_on: ModelOn) -> None:
    error = await asked(model_on, stream(START, TEXT, text("Good ")))
    assert (error.kind, error.message) == (ErrorKind.NETWORK, "the answer ended before it was whole")


async def test_garbage_in_a_stream_is_a_lost_connection(model_on: ModelOn) -> None:
    error = await asked(model_on, Answer(steps=(sse(START), b"data: {half\n\n")))
    assert error.kind is ErrorKind.NETWORK


async def test_no_server_is_a_network_error_that_names_it(model_on: ModelOn) -> None:
    async with serving() as server:
        url = server.url
    with anyio.fail_after(5), pytest.raises(AgentError) as raised:
        await fold_stream(model_on(url).stream(HELLO))
    assert raised.value.kind is ErrorKind.NETWORK
    assert "127.0.0.1" in raised.value.message
    assert raised.value.status is None


async def test_a_server_that_hangs_up_on_a_new_connection_is_not_asked_again(model_on: ModelOn) -> None:
    async with serving(SILENT_CUT, stream(*WHOLE)) as server:
        with anyio.fail_after(5), pytest.raises(AgentError) as raised:
            await fold_stream(model_on(server).stream(HELLO))
    assert raised.value.kind is ErrorKind.NETWORK
    assert len(server.seen) == 1


# ---------------------------------------------------------------- waiting and going


@pytest.mark.parametrize("steps", [(), (sse(START), sse(TEXT), sse(text("Good ")))], ids=["before anything", "in the middle"])
async def test_a_server_that_only_pings_times_out(model_on: ModelOn, steps: tuple[bytes, ...]) -> None:
    error = await asked(model_on, Answer(steps=(*steps, Step.PINGS)), timeout_s=0.3)
    assert error.kind is ErrorKind.TIMEOUT
    assert "0.3 s" in error.message


async def test_a_server_that_never_answers_times_out(model_on: ModelOn) -> None:
    error = await asked(model_on, Answer(steps=(Step.HANG,), status=0), timeout_s=0.3)
    assert error.kind is ErrorKind.TIMEOUT


async def test_cancelling_closes_the_connection(model_on: ModelOn) -> None:
    async with serving(Answer(steps=(sse(START), Step.HANG))) as server:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(fold_stream, model_on(server).stream(HELLO))
                await server.asked.wait()
                group.cancel_scope.cancel()
            await server.gone.wait()


async def test_cancelling_before_the_answer_closes_the_connection(model_on: ModelOn) -> None:
    async with serving(Answer(steps=(Step.HANG,), status=0)) as server:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(fold_stream, model_on(server).stream(HELLO))
                await server.asked.wait()
                group.cancel_scope.cancel()
            await server.gone.wait()


async def test_a_call_streams_its_arguments(model_on: ModelOn) -> None:
    call = {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}}
    pieces = [{"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": p}} for p in ("", '{"a"', ": 1}")]
    async with serving(stream(START, call, *pieces, STOP_0, ending("tool_use"), STOP)) as server:
        response = await fold_stream(model_on(server).stream(HELLO))
    assert response.parts == (ToolCall(id="toolu_1", name="look", arguments_json='{"a": 1}'),)
    assert response.stop_reason is StopReason.TOOL_USE
