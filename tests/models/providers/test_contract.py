"""What holds for every wire, over every connection. How a wire says it stands in speeches/."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import aclosing

import anyio
import pytest

from tests.models.providers.conftest import Wire
from tests.models.providers.loopback import SILENT_CUT, Answer, Step, document, serving
from tests.models.providers.speech import (
    ANSWER_ID,
    ANSWERED_BY,
    HELLO,
    KEY,
    MODEL,
    USAGE,
    Call,
    Reasoning,
    Said,
    Speech,
    Text,
    call,
    reasoning,
    stream,
    text,
)
from treadle._internal.redaction import Secret
from treadle.config import Endpoint
from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.errors import AgentError, ErrorKind
from treadle.messages.history import History
from treadle.messages.message import (
    MediaPart,
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
    UnknownPart,
)
from treadle.models.model import (
    Fold,
    Model,
    ModelRequest,
    ModelResponse,
    TextDelta,
    ToolDefinition,
    fold_stream,
)
from treadle.models.providers.wires import connect_to, wire_of
from treadle.types import Settings, StopReason, SystemBlock

GOOD_DAY = text("Good ", "day")
LOOK = ToolDefinition(
    name="look",
    description="Looks.",
    parameters={"type": "object", "properties": {"a": {"type": "integer"}}},
)
ANSWERS: dict[str, tuple[Said, ...]] = {
    "text": (GOOD_DAY,),
    "reasoning": (reasoning("Let me ", "think."), GOOD_DAY),
    "call": (call("look", '{"a"', ": 1}"),),
    "calls after text": (
        text("Two."),
        call("look", '{"a":1}', id="c1"),
        call("look", '{"a"', ":2}", id="c2"),
    ),
    "everything": (reasoning("Hm."), text("é 🧵"), call("look", '{"s":"', "ü\\", 'n"}')),
}


async def answered(wire: Wire, answer: Answer, request: ModelRequest = HELLO) -> ModelResponse:
    async with serving(answer) as server:
        with anyio.fail_after(20):
            return await fold_stream(wire.model(server).stream(request))


async def asked(wire: Wire, answer: Answer, **options: object) -> AgentError:
    async with serving(answer) as server:
        with anyio.fail_after(20), pytest.raises(AgentError) as raised:
            await fold_stream(wire.model(server, **options).stream(HELLO))
    assert KEY not in raised.value.message
    return raised.value


def end_of(said: Sequence[Said]) -> StopReason:
    return (
        StopReason.TOOL_USE if any(isinstance(part, Call) for part in said) else StopReason.COMPLETE
    )


def without_data(parts: Sequence[Part]) -> list[Part]:
    """The same for every wire: what a provider wants back with a part is its own."""
    plain = list[Part]()
    for part in parts:
        match part:
            case TextPart():
                plain.append(TextPart(text=part.text))
            case ReasoningPart():
                plain.append(ReasoningPart(text=part.text))
            case ToolCall():
                plain.append(
                    ToolCall(id=part.id, name=part.name, arguments_json=part.arguments_json)
                )
            case _:
                plain.append(part)
    return plain


def parts_of(said: Sequence[Said]) -> list[Part]:
    parts = list[Part]()
    for part in said:
        whole = "".join(part.pieces)
        if isinstance(part, Text):
            parts.append(TextPart(text=whole))
        elif isinstance(part, Reasoning):
            parts.append(ReasoningPart(text=whole))
        else:
            parts.append(ToolCall(id=part.id, name=part.name, arguments_json=whole or "{}"))
    return parts


def begun(speech: Speech) -> Sequence[bytes]:
    """A stream that has said "Good " and goes no further."""
    return speech.frames(text("Good "), end=None)


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize("said", ANSWERS.values(), ids=ANSWERS)
async def test_a_stream_is_folded_into_a_response(wire: Wire, said: tuple[Said, ...]) -> None:
    response = await answered(wire, stream(wire.speech, *said, end=end_of(said)))
    found = without_data(response.parts)
    if not wire.speech.arguments_in_pieces:
        found = [_read(part) for part in found]
        assert found == [_read(part) for part in parts_of(said)]
    else:
        assert found == parts_of(said)
    assert response.usage == USAGE
    assert (response.stop_reason, response.raw_stop_reason) == (
        end_of(said),
        wire.speech.words[end_of(said)],
    )
    assert (response.id, response.model) == (ANSWER_ID, ANSWERED_BY)


def _read(part: Part) -> object:
    return (part.id, part.name, part.arguments) if isinstance(part, ToolCall) else part


@pytest.mark.parametrize("said", ANSWERS.values(), ids=ANSWERS)
async def test_a_plain_json_body_gives_the_same_response(
    wire: Wire, said: tuple[Said, ...]
) -> None:
    streamed = await answered(wire, stream(wire.speech, *said, end=end_of(said)))
    whole = await answered(wire, document(wire.speech.body(*said, end=end_of(said))))
    assert [_read(part) for part in without_data(whole.parts)] == [
        _read(part) for part in without_data(streamed.parts)
    ]
    assert [getattr(part, "provider_data", None) for part in whole.parts] == [
        getattr(part, "provider_data", None) for part in streamed.parts
    ]
    assert (whole.usage, whole.stop_reason, whole.raw_stop_reason) == (
        streamed.usage,
        streamed.stop_reason,
        streamed.raw_stop_reason,
    )
    assert (whole.id, whole.model, whole.provider_data) == (
        streamed.id,
        streamed.model,
        streamed.provider_data,
    )


@pytest.mark.parametrize(
    "label",
    [
        "application/json",
        "application/x-ndjson",
        "text/plain",
        "application/octet-stream",
        "text/event-stream",
    ],
)
async def test_an_answer_is_known_by_how_it_begins_whatever_it_is_labelled(
    wire: Wire, label: str
) -> None:
    body = json.dumps(wire.speech.body(GOOD_DAY), indent=1).encode()
    assert (
        await answered(wire, Answer(steps=tuple(wire.speech.frames(GOOD_DAY)), type=label))
    ).text == "Good day"
    assert (
        await answered(wire, Answer(steps=(b"\n \n", body[:3], body[3:]), type=label))
    ).text == "Good day"


@pytest.mark.parametrize("status", [201, 203])
async def test_an_answer_may_have_the_status_that_a_gateway_gave_it(
    wire: Wire, status: int
) -> None:
    assert (
        await answered(wire, Answer(steps=tuple(wire.speech.frames(GOOD_DAY)), status=status))
    ).text == "Good day"


async def test_every_end_that_a_wire_has_is_told(wire: Wire) -> None:
    for end, word in wire.speech.words.items():
        said = (call("look", "{}"),) if end is StopReason.TOOL_USE else (GOOD_DAY,)
        response = await answered(wire, stream(wire.speech, *said, end=end))
        assert (response.stop_reason, response.raw_stop_reason) == (end, word)


async def test_deltas_arrive_while_the_answer_is_still_being_written(wire: Wire) -> None:
    async with serving(
        Answer(steps=(*wire.speech.frames(text("early"), end=None), Step.HANG))
    ) as server:
        with anyio.fail_after(20):
            async with aclosing(wire.model(server).stream(HELLO)) as deltas:
                async for delta in deltas:
                    if delta == TextDelta("early"):
                        break
            await server.gone.wait()


async def test_a_hundred_calls_in_one_answer_are_a_hundred_calls(wire: Wire) -> None:
    said = [call("look", f'{{"a":{i}}}', id=f"call_{i}") for i in range(100)]
    for answer in (
        stream(wire.speech, *said, end=StopReason.TOOL_USE),
        document(wire.speech.body(*said, end=StopReason.TOOL_USE)),
    ):
        response = await answered(wire, answer)
        assert [(c.id, c.name, c.arguments) for c in response.tool_calls] == [
            (f"call_{i}", "look", {"a": i}) for i in range(100)
        ]


async def test_calls_without_an_id_or_with_the_same_one_are_told_apart(wire: Wire) -> None:
    for ids in (("", ""), ("same", "same")):
        said = [call("look", f'{{"a":{i}}}', id=id) for i, id in enumerate(ids)]
        response = await answered(wire, stream(wire.speech, *said, end=StopReason.TOOL_USE))
        first, second = response.tool_calls
        assert first.id
        assert second.id
        assert first.id != second.id
        assert [first.arguments, second.arguments] == [{"a": 0}, {"a": 1}]


async def test_arguments_that_are_no_json_are_kept_as_they_came(wire: Wire) -> None:
    if not wire.speech.arguments_in_pieces:
        pytest.skip("this wire's arguments are part of its own JSON")
    response = await answered(
        wire, stream(wire.speech, call("look", '{"a": ', "oops"), end=StopReason.TOOL_USE)
    )
    assert response.tool_calls[0].arguments_json == '{"a": oops'


async def test_a_call_without_arguments_has_none(wire: Wire) -> None:
    for said in (call("look"), call("look", "{}")):
        assert (
            await answered(wire, stream(wire.speech, said, end=StopReason.TOOL_USE))
        ).tool_calls[0].arguments == {}


async def test_bytes_that_are_no_utf_8_are_replaced(wire: Wire) -> None:
    frames = [frame.replace(b"Good ", b"Go\xffd ") for frame in wire.speech.frames(GOOD_DAY)]
    response = await answered(wire, Answer(steps=tuple(frames)))
    assert response.text == "Go\ufffdd day"


async def test_halves_of_characters_are_survived(wire: Wire) -> None:
    frames = [frame.replace(b"Good ", b"Go\\ud83dd ") for frame in wire.speech.frames(GOOD_DAY)]
    response = await answered(wire, Answer(steps=tuple(frames)))
    async with serving(stream(wire.speech, GOOD_DAY)) as server:
        await fold_stream(
            wire.model(server).stream(
                ModelRequest(
                    messages=[
                        *HELLO.messages,
                        Message.assistant(response.parts),
                        Message.user("Go on."),
                    ]
                )
            )
        )
    assert "day" in json.dumps(server.seen[0].json)


@pytest.mark.parametrize("line_end", [b"\r\n", b"\r"])
async def test_any_kind_of_line_end_will_do(wire: Wire, line_end: bytes) -> None:
    frames = [frame.replace(b"\n", line_end) for frame in wire.speech.frames(GOOD_DAY)]
    assert (await answered(wire, Answer(steps=tuple(frames)))).text == "Good day"


async def test_comments_and_events_of_later_versions_are_passed_over(wire: Wire) -> None:
    strange = (
        b": a comment\n\n",
        b'event: hologram\ndata: {"type": "hologram", "shape": [1]}\n\n',
        wire.speech.ping,
    )
    frames = [piece for frame in wire.speech.frames(GOOD_DAY) for piece in (*strange, frame)]
    assert (await answered(wire, Answer(steps=tuple(frames)))).text == "Good day"


# ---------------------------------------------------------------- questions


@pytest.mark.parametrize(
    "part",
    [
        MediaPart(media_type="application/zip", data="QUJD", name="all.zip"),
        MediaPart(media_type="image/png", data="QUJD"),
    ],
)
async def test_a_file_that_cannot_be_sent_is_refused_before_the_request(
    wire: Wire, part: MediaPart
) -> None:
    """In an ended run, a line says what was there instead: the conversation goes on with another
    model.
    """
    prompt = Message.user([TextPart(text="Look."), part])
    async with serving(Answer(steps=tuple(wire.speech.frames(GOOD_DAY)))) as server:
        model = wire.model(server, abilities=Abilities(images=False))
        with pytest.raises(AgentError, match="cannot be sent to the model") as raised:
            await fold_stream(
                model.stream(ModelRequest(messages=[prompt], settings=HELLO.settings))
            )
        assert part.media_type in raised.value.message
        assert (raised.value.kind, server.seen) == ("invalid", [])
        await fold_stream(
            model.stream(
                ModelRequest(
                    messages=History([prompt, Message.user("Go on.")], settled=1),
                    settings=HELLO.settings,
                )
            )
        )
        assert "not shown" in server.seen[0].body.decode()


async def test_one_connection_carries_many_requests(wire: Wire) -> None:
    async with serving(*[stream(wire.speech, GOOD_DAY)] * 5) as server:
        model = wire.model(server)
        for _ in range(5):
            await fold_stream(model.stream(HELLO))
        assert server.connections == 1


async def test_what_is_asked_is_one_post_with_the_key(wire: Wire) -> None:
    async with serving(stream(wire.speech, GOOD_DAY)) as server:
        model = wire.model(server)
        assert model.name.endswith(f":{MODEL}")
        await fold_stream(model.stream(HELLO))
    (seen,) = server.seen
    assert (seen.method, seen.target) == ("POST", wire.speech.target)
    assert {name: seen.headers.get(name) for name in wire.speech.headers} == dict(
        wire.speech.headers
    )
    assert KEY not in seen.target
    assert KEY.encode() not in seen.body


async def test_a_large_body_arrives_whole(wire: Wire) -> None:
    async with serving(stream(wire.speech, GOOD_DAY)) as server:
        text = " ".join(map(str, range(400_000)))
        await fold_stream(
            wire.model(server).stream(
                ModelRequest(messages=[Message.user(text)], settings=Settings(max_tokens=5))
            )
        )
    assert text.encode() in server.seen[0].body
    assert server.seen[0].json


async def test_many_requests_run_at_once(wire: Wire) -> None:
    async with serving(*[stream(wire.speech, GOOD_DAY)] * 150) as server:
        model, done = wire.model(server), list[str]()

        async def ask() -> None:
            done.append((await fold_stream(model.stream(HELLO))).text)

        with anyio.fail_after(80):
            async with anyio.create_task_group() as group:
                for _ in range(150):
                    group.start_soon(ask)
    assert done == ["Good day"] * 150


@pytest.mark.parametrize("cache", [None, False])
async def test_each_request_of_a_run_is_the_one_before_it_and_what_is_new(
    wire: Wire, cache: bool | None
) -> None:
    speech = wire.speech
    said = (
        reasoning("Hm."),
        text("Looking."),
        call("look", '{"a":1}', id="c1"),
        call("look", '{"a":2}', id="c2"),
    )
    answers = [
        stream(speech, *said, end=StopReason.TOOL_USE),
        stream(speech, *said, end=StopReason.TOOL_USE),
        stream(speech, GOOD_DAY),
    ]
    history, settings = History([Message.user("Hello")]), Settings(max_tokens=100, cache=cache)
    request = ModelRequest(
        messages=history, tools=(LOOK,), system=(SystemBlock(text="Be kind."),), settings=settings
    )
    async with serving(*answers) as server:
        model = wire.model(server)
        for _ in answers:
            response = await fold_stream(model.stream(request))
            history.append(Message.assistant(response.parts))
            if response.tool_calls:
                history.append(
                    Message.tool(
                        [
                            ToolResult(call_id=c.id, name=c.name, content="seen")
                            for c in response.tool_calls
                        ]
                    )
                )
    bodies = [seen.json for seen in server.seen]
    heads = [
        {name: value for name, value in body.items() if speech.history(body) != value}
        for body in bodies
    ]
    assert heads[0] == heads[1] == heads[2]
    if cache is False:
        told = [speech.history(body) for body in bodies]
        assert told[1][: len(told[0])] == told[0]
        assert told[2][: len(told[1])] == told[1]
        assert "seen" in json.dumps(told[1][len(told[0]) :])


async def test_the_same_history_is_the_same_bytes(wire: Wire) -> None:
    history = [
        Message.user("Hello"),
        Message.assistant([ToolCall(id="c", name="look", arguments_json='{"a": 1}')]),
    ]
    history.append(Message.tool([ToolResult(call_id="c", name="look", content="seen")]))
    request = ModelRequest(
        messages=history,
        tools=(LOOK,),
        system=(SystemBlock(text="Be kind."),),
        settings=Settings(max_tokens=9),
    )
    async with serving(*[stream(wire.speech, GOOD_DAY)] * 3) as server:
        await fold_stream(wire.model(server).stream(request))
        await fold_stream(wire.model(server).stream(request))
        await fold_stream(wire.model(server).stream(_over(request, History(history))))
    assert server.seen[0].body == server.seen[1].body == server.seen[2].body


def _over(request: ModelRequest, history: History) -> ModelRequest:
    return ModelRequest(
        messages=history, tools=request.tools, system=request.system, settings=request.settings
    )


async def test_what_other_providers_left_in_a_history_is_left_out_and_nothing_else_is(
    wire: Wire,
) -> None:
    foreign = (
        ReasoningPart(
            text="SECRET-THOUGHT",
            provider="elsewhere",
            provider_data='{"signature":"SECRET-SIGNATURE"}',
        ),
        ProviderPart(provider="elsewhere", data='{"type":"SECRET-BLOCK"}'),
        UnknownPart(type="hologram", raw='{"type":"SECRET-HOLOGRAM"}'),
        TextPart(
            text="KEPT-TEXT",
            provider="elsewhere",
            provider_data='{"citations":["SECRET-CITATION"]}',
        ),
        ToolCall(
            id="id|of:another",
            name="look",
            arguments_json='{"a":"KEPT-ARGUMENT"}',
            provider="elsewhere",
            provider_data='{"x":"SECRET-FIELD"}',
        ),
        ToolCall(id="", name="look.closer", arguments_json="KEPT{half"),
    )
    image = MediaPart(media_type="image/png", data="S0VQVA==")
    results = Message.tool(
        [
            ToolResult(
                call_id="id|of:another", name="look", content=(TextPart(text="KEPT-RESULT"), image)
            ),
            ToolResult(call_id="", name="look.closer", content="KEPT-FAILURE", is_error=True),
        ]
    )
    history = [
        Message.user([TextPart(text="KEPT-QUESTION"), image]),
        Message.assistant(foreign),
        results,
        Message.system("KEPT-WORD-BETWEEN"),
        Message.user("KEPT-STEERING"),
    ]
    async with serving(stream(wire.speech, GOOD_DAY)) as server:
        await fold_stream(
            wire.model(server).stream(
                ModelRequest(messages=history, tools=(LOOK,), settings=Settings(max_tokens=9))
            )
        )
    sent = json.dumps(server.seen[0].json)
    assert "SECRET" not in sent
    kept = (
        "TEXT",
        "ARGUMENT",
        "{half",
        "RESULT",
        "FAILURE",
        "QUESTION",
        "WORD-BETWEEN",
        "STEERING",
    )
    assert [
        word for word in kept if f"KEPT{'' if word == '{half' else '-'}{word}" not in sent
    ] == []


async def test_reasoning_of_its_own_goes_back_within_the_run_and_not_after(wire: Wire) -> None:
    first = await answered(
        wire, stream(wire.speech, reasoning("Hm."), call("look", "{}"), end=StopReason.TOOL_USE)
    )
    before = [
        Message.user("Hello"),
        Message.assistant(first.parts),
        Message.tool([ToolResult(call_id="call_1", name="look", content="seen")]),
    ]
    bodies = []
    for settled in (0, 3):
        history = History([*before, Message.assistant("Done."), Message.user("Again.")], settled)
        async with serving(stream(wire.speech, GOOD_DAY)) as server:
            await fold_stream(
                wire.model(server).stream(
                    ModelRequest(messages=history, tools=(LOOK,), settings=Settings(max_tokens=9))
                )
            )
        bodies.append(len(server.seen[0].body))
    assert bodies[0] > bodies[1]


async def test_tokens_are_counted(wire: Wire) -> None:
    request = ModelRequest(
        messages=[Message.user("Hello")],
        tools=(LOOK,),
        system=(SystemBlock(text="Be kind."),),
        settings=Settings(max_tokens=9),
    )
    counted = wire.speech.count(41)
    async with serving(*([document(counted)] if counted is not None else [])) as server:
        model = wire.model(server)
        tokens = await model.count_tokens(request)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]  every wire's own class has it
    assert tokens == 41 if counted is not None else 10 < tokens < 200


# ---------------------------------------------------------------- errors


STATUSES = {
    400: ErrorKind.INVALID,
    401: ErrorKind.AUTH,
    403: ErrorKind.AUTH,
    404: ErrorKind.INVALID,
    413: ErrorKind.CONTEXT_OVERFLOW,
    422: ErrorKind.INVALID,
    429: ErrorKind.RATE_LIMIT,
    500: ErrorKind.NETWORK,
    502: ErrorKind.NETWORK,
    503: ErrorKind.NETWORK,
    529: ErrorKind.RATE_LIMIT,
}


@pytest.mark.parametrize(("status", "kind"), STATUSES.items())
async def test_an_error_status_becomes_an_error_with_what_the_provider_said(
    wire: Wire, status: int, kind: ErrorKind
) -> None:
    error = await asked(
        wire, document(wire.speech.error(status, "Because of this."), status=status)
    )
    assert (error.kind, error.status) == (kind, status)
    assert "Because of this." in error.message


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({}, None),
    ],
)
async def test_a_429_says_how_long_to_wait(
    wire: Wire, headers: dict[str, str], wait_s: float | None
) -> None:
    error = await asked(
        wire, document(wire.speech.error(429, "Slow down."), status=429, headers=headers)
    )
    assert (error.kind, error.retry_after_s) == (ErrorKind.RATE_LIMIT, wait_s)


async def test_a_429_may_name_a_date(wire: Wire) -> None:
    error = await asked(
        wire,
        document(
            wire.speech.error(429, "Slow down."),
            status=429,
            headers={"retry-after": "Fri, 31 Dec 2100 23:59:59 GMT"},
        ),
    )
    assert error.retry_after_s is not None
    assert error.retry_after_s > 1e9


async def test_a_wrong_key_says_where_the_key_comes_from(wire: Wire) -> None:
    error = await asked(wire, document(wire.speech.error(401, "No."), status=401))
    assert "api_key" in error.message


async def test_a_wrong_key_of_the_configuration_is_told_by_its_place(wire: Wire) -> None:
    kind = wire_of(wire.speech.wire)
    async with serving(document(wire.speech.error(401, "No."), status=401)) as server:
        at = Endpoint(
            name="mine",
            type=wire.speech.wire,
            base_url=server.url,
            api_key=Secret(KEY),
            auth_token=None,
            key_origin="config.yaml:3",
            preamble="",
            timeout_s=10,
            headers={},
        )
        connection = connect_to(at)
        with anyio.fail_after(20), pytest.raises(AgentError) as raised:
            await fold_stream(kind.model_over(connection, at, MODEL, UNKNOWN).stream(HELLO))
        await connection.aclose()
    assert "Check the key of config.yaml:3" in raised.value.message


async def test_what_is_not_there_points_at_the_model_and_the_address(wire: Wire) -> None:
    error = await asked(wire, document(wire.speech.error(404, "No such thing."), status=404))
    assert "base_url" in error.message


async def test_the_provider_is_asked_once_whatever_it_says(wire: Wire) -> None:
    async with serving(
        document(wire.speech.error(529, "Overloaded"), status=529), stream(wire.speech, GOOD_DAY)
    ) as server:
        with pytest.raises(AgentError):
            await fold_stream(wire.model(server).stream(HELLO))
    assert len(server.seen) == 1


async def test_a_page_of_a_proxy_gives_a_short_clean_message(wire: Wire) -> None:
    page = (
        b"<html><head><title>502 Bad\x1b[31m Gateway</title></head><body>"
        + b"<p>nginx</p>" * 10_000
        + b"</body></html>"
    )
    error = await asked(wire, Answer(steps=(page,), status=502, type="text/html", chunked=False))
    assert error.kind is ErrorKind.NETWORK
    assert "502 Bad" in error.message
    assert len(error.message) < 300
    assert "<" not in error.message
    assert "\x1b" not in error.message


async def test_a_page_instead_of_an_answer_points_at_the_address(wire: Wire) -> None:
    error = await asked(
        wire, Answer(steps=(b"<html>Welcome</html>",), type="text/html", chunked=False)
    )
    assert error.kind is ErrorKind.INVALID
    assert "base_url" in error.message


@pytest.mark.parametrize(
    "label", ["text/plain", "text/event-stream", "application/json", "application/octet-stream"]
)
async def test_a_page_that_is_labelled_as_something_else_is_one_too(wire: Wire, label: str) -> None:
    error = await asked(
        wire, Answer(steps=(b"\n", b"<!DOCTYPE html><html><title>Sign in</title>"), type=label)
    )
    assert (error.kind, error.status) == (ErrorKind.INVALID, 200)
    assert "base_url" in error.message


async def test_a_place_that_takes_no_questions_points_at_the_address(wire: Wire) -> None:
    error = await asked(
        wire, Answer(steps=(b"Method Not Allowed",), status=405, type="text/plain", chunked=False)
    )
    assert error.kind is ErrorKind.INVALID
    assert "base_url" in error.message


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_refused_and_the_key_does_not_travel(wire: Wire, status: int) -> None:
    async with (
        serving(stream(wire.speech, GOOD_DAY)) as elsewhere,
        serving(
            Answer(
                status=status,
                headers={"location": f"{elsewhere.url}{wire.speech.target}"},
                chunked=False,
            )
        ) as server,
    ):
        with pytest.raises(AgentError) as raised:
            await fold_stream(wire.model(server).stream(HELLO))
        assert elsewhere.connections == 0
    assert raised.value.kind is ErrorKind.INVALID
    assert raised.value.status == status
    assert f"127.0.0.1:{elsewhere.port}" in raised.value.message


async def test_an_overload_inside_a_stream_is_told_after_what_came_before(wire: Wire) -> None:
    fold = Fold()

    async def read() -> None:
        async for delta in wire.model(server).stream(HELLO):
            fold.add(delta)

    async with serving(
        Answer(
            steps=(
                *wire.speech.frames(text("Partial"), end=None),
                wire.speech.broken_off("Overloaded"),
            )
        )
    ) as server:
        with pytest.raises(AgentError) as raised:
            await read()
    assert fold.partial() == (TextPart(text="Partial"),)
    assert (raised.value.kind, raised.value.status) == (ErrorKind.RATE_LIMIT, 200)


async def test_an_error_document_under_a_good_status_is_an_error(wire: Wire) -> None:
    assert (
        await asked(wire, document(wire.speech.error(529, "Overloaded")))
    ).kind is ErrorKind.RATE_LIMIT


@pytest.mark.parametrize("label", ["text/plain", "text/event-stream"])
async def test_an_error_document_under_another_label_is_of_its_kind(wire: Wire, label: str) -> None:
    body = json.dumps(wire.speech.error(529, "Overloaded")).encode()
    error = await asked(wire, Answer(steps=(body,), type=label))
    assert error.kind is ErrorKind.RATE_LIMIT
    assert "Overloaded" in error.message


async def test_a_document_that_is_no_answer_is_an_error(wire: Wire) -> None:
    for body in ({}, [], "Good day", {"greeting": "Good day"}):
        assert (await asked(wire, document(body))).kind is ErrorKind.NETWORK
    error = await asked(wire, Answer(steps=(b'{"half',), type="application/json", chunked=False))
    assert error.kind is ErrorKind.NETWORK


async def test_a_stream_that_is_cut_is_a_lost_connection(wire: Wire) -> None:
    error = await asked(wire, Answer(steps=(*begun(wire.speech), Step.CUT)))
    assert (error.kind, error.status) == (ErrorKind.NETWORK, 200)


async def test_a_plain_body_that_is_cut_is_a_lost_connection(wire: Wire) -> None:
    error = await asked(wire, Answer(steps=(b'{"id": [', Step.CUT), type="application/json"))
    assert (error.kind, error.status) == (ErrorKind.NETWORK, 200)


async def test_a_stream_that_ends_politely_but_early_is_a_lost_connection(wire: Wire) -> None:
    error = await asked(wire, Answer(steps=tuple(begun(wire.speech))))
    assert (error.kind, error.message) == (
        ErrorKind.NETWORK,
        "the response ended before it was complete",
    )
    assert (await asked(wire, Answer(steps=(b"\n",)))).kind is ErrorKind.NETWORK


@pytest.mark.parametrize(
    "garbage",
    [b"data: {half\n\n", b"data: \x1f\x8b\x08\xff\xfe\n\n", b"data: " + b"[" * 20_000 + b"\n\n"],
)
async def test_garbage_in_a_stream_is_a_lost_connection(wire: Wire, garbage: bytes) -> None:
    error = await asked(wire, Answer(steps=(*begun(wire.speech), garbage)))
    assert error.kind is ErrorKind.NETWORK


async def test_a_body_that_claims_to_be_compressed_and_is_not_is_a_lost_connection(
    wire: Wire,
) -> None:
    error = await asked(
        wire, Answer(steps=tuple(begun(wire.speech)), headers={"content-encoding": "gzip"})
    )
    assert error.kind is ErrorKind.NETWORK


async def test_a_stream_cut_at_any_place_is_whole_or_an_error(wire: Wire) -> None:
    whole = b"".join(
        wire.speech.frames(
            reasoning("Hm."), text("é"), call("look", '{"a":1}'), end=StopReason.TOOL_USE
        )
    )
    response = await answered(wire, Answer(steps=(whole,)))
    cuts = [*range(1, len(whole), len(whole) // 40), len(whole) - 2]
    async with serving(*(Answer(steps=(whole[:cut],)) for cut in cuts)) as server:
        model = wire.model(server)
        for _ in cuts:
            found = await _ended(model)
            assert found in (response.parts, ErrorKind.NETWORK)


async def _ended(model: Model) -> tuple[Part, ...] | ErrorKind:
    try:
        with anyio.fail_after(20):
            return (await fold_stream(model.stream(HELLO))).parts
    except AgentError as error:
        return error.kind


async def test_no_server_is_a_network_error_that_names_it(wire: Wire) -> None:
    async with serving() as server:
        url = server.url
    with anyio.fail_after(20), pytest.raises(AgentError) as raised:
        await fold_stream(wire.model(url).stream(HELLO))
    assert raised.value.kind is ErrorKind.NETWORK
    assert "127.0.0.1" in raised.value.message
    assert raised.value.status is None


async def test_a_server_that_hangs_up_on_a_new_connection_is_not_asked_again(wire: Wire) -> None:
    async with serving(SILENT_CUT, stream(wire.speech, GOOD_DAY)) as server:
        with anyio.fail_after(20), pytest.raises(AgentError) as raised:
            await fold_stream(wire.model(server).stream(HELLO))
    assert raised.value.kind is ErrorKind.NETWORK
    assert len(server.seen) == 1


# ---------------------------------------------------------------- waiting and going


@pytest.mark.parametrize("already", [False, True], ids=["before anything", "in the middle"])
async def test_a_server_that_only_shows_signs_of_life_times_out(wire: Wire, already: bool) -> None:
    steps = begun(wire.speech) if already else ()
    error = await asked(
        wire, Answer(steps=(*steps, Step.PINGS), ping=wire.speech.ping), timeout_s=0.3
    )
    assert error.kind is ErrorKind.TIMEOUT
    assert "0.3 s" in error.message


async def test_a_server_that_never_answers_times_out(wire: Wire) -> None:
    error = await asked(wire, Answer(steps=(Step.HANG,), status=0), timeout_s=0.3)
    assert error.kind is ErrorKind.TIMEOUT


@pytest.mark.parametrize("answers", [True, False], ids=["goes on and on", "says nothing"])
async def test_an_answer_that_takes_too_long_times_out_however_much_comes(
    wire: Wire, answers: bool
) -> None:
    """Text keeps coming, so the server is never silent; the whole of one call has a bound of its
    own.
    """
    steps = begun(wire.speech)
    answer = (
        Answer(steps=(*steps, Step.PINGS), ping=steps[-1])
        if answers
        else Answer(steps=(Step.HANG,), status=0)
    )
    async with serving(answer) as server:
        at = Endpoint(
            name="mine",
            type=wire.speech.wire,
            base_url=server.url,
            api_key=Secret(KEY),
            auth_token=None,
            key_origin="",
            preamble="",
            timeout_s=10,
            total_timeout_s=0.3,
            headers={},
        )
        connection = connect_to(at)
        with anyio.fail_after(20), pytest.raises(AgentError) as raised:
            await fold_stream(
                wire_of(wire.speech.wire).model_over(connection, at, MODEL, UNKNOWN).stream(HELLO)
            )
        await connection.aclose()
    assert raised.value.kind is ErrorKind.TIMEOUT
    assert "had not finished its response after 0.3 s" in raised.value.message
    assert raised.value.retryable


async def test_cancelling_closes_the_connection(wire: Wire) -> None:
    async with serving(Answer(steps=(begun(wire.speech)[0], Step.HANG))) as server:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(fold_stream, wire.model(server).stream(HELLO))
                await server.asked.wait()
                group.cancel_scope.cancel()
            await server.gone.wait()


async def test_cancelling_before_the_answer_closes_the_connection(wire: Wire) -> None:
    async with serving(Answer(steps=(Step.HANG,), status=0)) as server:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(fold_stream, wire.model(server).stream(HELLO))
                await server.asked.wait()
                group.cancel_scope.cancel()
            await server.gone.wait()
