"""Answers that fit a schema, in each of the three ways, over every wire; and what models do instead
of what they were asked.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.providers.conftest import Wire
from tests.models.providers.loopback import serving
from tests.models.providers.speech import call, stream, text
from treadle.config.model_profile import Abilities, StructuredOutput
from treadle.errors import AgentError
from treadle.messages.message import Message, TextPart
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    Model,
    ModelNotice,
    ModelRequest,
    ModelResponse,
    PartEnd,
    ReasoningDelta,
    ResponseEnd,
    Restart,
    TextDelta,
    TextStart,
    ToolCallStart,
    ToolDefinition,
    complete,
    fold_stream,
)
from treadle.models.providers.structured import ANSWER_TOOL, mode_for, structured
from treadle.types import Settings, StopReason, SystemBlock, Usage

CITY: dict[str, object] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
LOOK = ToolDefinition(
    name="look", description="Looks.", parameters={"type": "object", "properties": {}}
)
PARIS = '{"city": "Paris"}'
TOOL, PROMPT = Abilities(structured_output="tool"), Abilities(structured_output="prompt")


def asked(
    *tools: ToolDefinition, schema: dict[str, object] = CITY, **settings: Any
) -> ModelRequest:
    return ModelRequest(
        messages=[Message.user("Where?")],
        tools=tools,
        settings=Settings(max_tokens=100, output_schema=schema, **settings),
    )


async def completed(model: Model, request: ModelRequest) -> ModelResponse:
    with anyio.fail_after(20):
        return await complete(model, request)


def answer_of(response: ModelResponse) -> str:
    return [part.text for part in response.parts if isinstance(part, TextPart)][-1]


# ---------------------------------------------------------------- over every wire


@pytest.mark.parametrize("tools", [(), (LOOK,)], ids=["alone", "with a tool"])
async def test_an_answer_that_the_provider_fits_comes_as_text(
    wire: Wire, tools: tuple[ToolDefinition, ...]
):
    async with serving(stream(wire.speech, text(PARIS))) as server:
        response = await completed(
            wire.model(
                server, abilities=Abilities(structured_output="native", structured_with_tools=True)
            ),
            asked(*tools),
        )
    assert (answer_of(response), response.stop_reason) == (PARIS, StopReason.COMPLETE)
    assert '"city"' in server.seen[0].body.decode()
    assert ANSWER_TOOL not in server.seen[0].body.decode()


@pytest.mark.parametrize("tools", [(), (LOOK,)], ids=["alone", "with a tool"])
async def test_an_answer_by_a_tool_comes_as_text(wire: Wire, tools: tuple[ToolDefinition, ...]):
    said = stream(wire.speech, text("So: "), call(ANSWER_TOOL, PARIS), end=StopReason.TOOL_USE)
    async with serving(said) as server:
        response = await completed(wire.model(server, abilities=TOOL), asked(*tools))
    assert (json.loads(answer_of(response)), response.stop_reason, response.tool_calls) == (
        {"city": "Paris"},
        StopReason.COMPLETE,
        (),
    )
    body = server.seen[0].body.decode()
    assert ANSWER_TOOL in body
    assert body.count('"city"') >= 1


async def test_an_answer_that_the_prompt_asks_for_comes_without_its_fence(wire: Wire):
    said = stream(wire.speech, text("```json\n", PARIS, "\n``", "`\n"))
    async with serving(said) as server:
        response = await completed(wire.model(server, abilities=PROMPT), asked(LOOK))
    assert response.text == PARIS
    body = server.seen[0].body.decode()
    assert "fits this JSON Schema" in body
    assert ANSWER_TOOL not in body


async def test_a_model_that_calls_and_answers_at_once_has_its_call_kept(wire: Wire):
    said = stream(
        wire.speech,
        call("look", "{}", id="a"),
        call(ANSWER_TOOL, PARIS, id="b"),
        end=StopReason.TOOL_USE,
    )
    async with serving(said) as server:
        response = await completed(wire.model(server, abilities=TOOL), asked(LOOK))
    assert ([c.name for c in response.tool_calls], response.stop_reason) == (
        ["look"],
        StopReason.TOOL_USE,
    )
    assert json.loads(answer_of(response)) == {"city": "Paris"}


async def test_an_answer_that_is_cut_is_an_error_like_any_other(wire: Wire):
    broken = stream(wire.speech, call(ANSWER_TOOL, PARIS), end=None)  # pyright: ignore[reportArgumentType]  an answer that breaks off
    async with serving(broken) as server:
        with pytest.raises(AgentError, match="before it was complete"):
            await completed(wire.model(server, abilities=TOOL), asked())


async def test_the_same_question_is_the_same_bytes(wire: Wire):
    async with serving(*[stream(wire.speech, text(PARIS))] * 2) as server:
        model = wire.model(server, abilities=TOOL)
        await completed(model, asked(LOOK))
        await completed(model, asked(LOOK))
    assert server.seen[0].body == server.seen[1].body


# ---------------------------------------------------------------- what is asked


def sent(request: ModelRequest, abilities: Abilities) -> ModelRequest:
    """What reaches the wire."""
    seen = list[ModelRequest]()

    async def wire(given: ModelRequest) -> AsyncGenerator[Delta, None]:
        seen.append(given)
        yield ResponseEnd(stop_reason=StopReason.COMPLETE, usage=Usage())

    async def ask() -> None:
        await fold_stream(structured(wire, request, abilities))

    anyio.run(ask)
    return seen[0]


@pytest.mark.parametrize(
    ("tools", "choice", "wanted"),
    [
        ((), None, ANSWER_TOOL),
        ((), "none", ANSWER_TOOL),
        ((LOOK,), None, "any"),
        ((LOOK,), "auto", "any"),
        ((LOOK,), "any", "any"),
        ((LOOK,), "look", "look"),
        ((LOOK,), "none", ANSWER_TOOL),
    ],
)
def test_a_call_is_forced_which_is_the_answers_where_nothing_else_may_be_called(
    tools: tuple[ToolDefinition, ...], choice: str | None, wanted: str
):
    reached = sent(asked(*tools, tool_choice=choice), TOOL)
    assert reached.settings.tool_choice == wanted
    assert [tool.name for tool in reached.tools] == [*(tool.name for tool in tools), ANSWER_TOOL]
    assert (reached.settings.output_schema, reached.system) == (None, ())


@pytest.mark.parametrize(("forced_tools", "thinking"), [(False, None), (None, 2048)])
def test_a_model_that_cannot_be_forced_is_told(forced_tools: bool | None, thinking: int | None):
    abilities = Abilities(structured_output="tool", forced_tools=forced_tools)
    reached = sent(asked(LOOK, thinking=thinking), abilities)
    assert reached.settings.tool_choice is None
    assert [tool.name for tool in reached.tools] == ["look", ANSWER_TOOL]
    assert "by calling the tool 'final_answer'" in reached.system[-1].text


def test_where_no_tool_may_be_called_and_none_can_be_forced_the_prompt_asks():
    reached = sent(
        asked(LOOK, tool_choice="none"), Abilities(structured_output="tool", forced_tools=False)
    )
    assert (reached.tools, reached.settings.tool_choice) == ((LOOK,), "none")
    assert "fits this JSON Schema" in reached.system[-1].text


def test_a_tool_of_that_name_is_not_mistaken_for_the_answer():
    mine = ToolDefinition(name=ANSWER_TOOL, description="Mine.", parameters={})
    reached = sent(asked(mine), TOOL)
    assert [tool.name for tool in reached.tools] == [ANSWER_TOOL, f"{ANSWER_TOOL}_2"]
    response = played(
        [ToolCallStart("a", ANSWER_TOOL), ArgumentsDelta("{}"), PartEnd(), END], TOOL, asked(mine)
    )
    assert [made.name for made in response.tool_calls] == [ANSWER_TOOL]


def test_what_the_prompt_asks_follows_the_system_blocks_which_stay_as_they_are():
    system = (SystemBlock(text="Be brief.", cache=True),)
    request = ModelRequest(
        messages=[Message.user("Where?")], system=system, settings=Settings(output_schema=CITY)
    )
    reached = sent(request, PROMPT)
    assert reached.system[:1] == system
    assert json.loads(reached.system[1].text.partition("\n")[2]) == CITY


@pytest.mark.parametrize(
    ("schema", "mode"),
    [
        (CITY, "tool"),
        ({"properties": {"x": {}}}, "tool"),
        ({"type": "array", "items": {"type": "string"}}, "prompt"),
        ({"type": ["object", "null"]}, "prompt"),
        ({"anyOf": [CITY, {"type": "null"}]}, "prompt"),
        ({}, "prompt"),
    ],
)
def test_only_an_object_can_be_the_arguments_of_a_call(
    schema: dict[str, object], mode: StructuredOutput
):
    assert mode_for(asked(schema=schema), TOOL) == mode
    assert (
        mode_for(
            asked(LOOK, schema=schema),
            Abilities(structured_output="native", structured_with_tools=False),
        )
        == mode
    )


@pytest.mark.parametrize(
    ("abilities", "tools", "mode"),
    [
        (Abilities(), (), "native"),
        (Abilities(structured_output="native", structured_with_tools=False), (), "native"),
        (Abilities(structured_output="native", structured_with_tools=False), (LOOK,), "tool"),
        (
            Abilities(structured_output="native", structured_with_tools=False, tools=False),
            (LOOK,),
            "prompt",
        ),
        (Abilities(structured_output="tool", tools=False), (), "prompt"),
        (PROMPT, (LOOK,), "prompt"),
    ],
)
def test_the_way_depends_on_what_the_model_can_do(
    abilities: Abilities, tools: tuple[ToolDefinition, ...], mode: StructuredOutput
):
    assert mode_for(asked(*tools), abilities) == mode


# ---------------------------------------------------------------- what comes back


END = ResponseEnd(stop_reason=StopReason.TOOL_USE, usage=Usage(), raw_stop_reason="tool_use")
ENDED = ResponseEnd(stop_reason=StopReason.COMPLETE, usage=Usage())


def played(
    deltas: Sequence[Delta], abilities: Abilities = TOOL, request: ModelRequest | None = None
) -> ModelResponse:
    async def wire(given: ModelRequest) -> AsyncGenerator[Delta, None]:
        for delta in deltas:
            yield delta

    async def ask() -> ModelResponse:
        return await fold_stream(structured(wire, request or asked(LOOK), abilities))

    return anyio.run(ask)


def answers(*pieces: str) -> list[Delta]:
    return [ToolCallStart("x", ANSWER_TOOL), *map(ArgumentsDelta, pieces), PartEnd()]


def test_text_before_the_answer_stays_and_the_answer_is_the_last_text():
    response = played([TextDelta("Let me see. "), *answers(PARIS), END])
    assert [part.text for part in response.parts if isinstance(part, TextPart)] == [
        "Let me see. ",
        PARIS,
    ]
    assert (response.stop_reason, response.raw_stop_reason) == (StopReason.COMPLETE, "tool_use")


@pytest.mark.parametrize(
    "after",
    [
        [TextDelta(" Done.")],
        [TextStart(), TextDelta("Done."), PartEnd()],
        [TextStart(), TextDelta("a"), TextStart(), TextDelta("b")],
    ],
)
def test_text_after_the_answer_is_left_out(after: list[Delta]):
    assert answer_of(played([*answers(PARIS), *after, END])) == PARIS
    assert (
        answer_of(played([ToolCallStart("x", ANSWER_TOOL), ArgumentsDelta(PARIS), *after, END]))
        == PARIS
    )


def test_a_second_answer_is_the_one_that_counts():
    assert answer_of(played([*answers('{"city": "Rome"}'), *answers(PARIS), END])) == PARIS


@pytest.mark.parametrize("tail", [[PartEnd(), END], [END], [ReasoningDelta("hm"), END]])
def test_an_answer_without_arguments_is_one_without_fields(tail: list[Delta]):
    assert answer_of(played([ToolCallStart("x", ANSWER_TOOL), *tail])) == "{}"


def test_a_call_after_the_answer_is_a_call():
    response = played(
        [
            *answers(PARIS),
            ToolCallStart("y", "look"),
            ArgumentsDelta("{}"),
            PartEnd(),
            ReasoningDelta("hm"),
            END,
        ]
    )
    assert [made.name for made in response.tool_calls] == ["look"]
    assert (response.stop_reason, answer_of(response)) == (StopReason.TOOL_USE, PARIS)


def test_an_answer_that_is_cut_by_its_length_says_so():
    response = played(
        [
            ToolCallStart("x", ANSWER_TOOL),
            ArgumentsDelta('{"ci'),
            ResponseEnd(stop_reason=StopReason.MAX_TOKENS, usage=Usage()),
        ]
    )
    assert (answer_of(response), response.stop_reason) == ('{"ci', StopReason.MAX_TOKENS)


def test_an_answer_that_is_begun_anew_is_only_what_came_then():
    response = played(
        [*answers('{"city": "Rome"}'), ToolCallStart("y", "look"), Restart(), *answers(PARIS), END]
    )
    assert (response.text, response.tool_calls, response.stop_reason) == (
        PARIS,
        (),
        StopReason.COMPLETE,
    )


def test_a_model_that_answers_in_words_all_the_same_is_taken_at_its_word():
    response = played([TextDelta(PARIS), ENDED])
    assert (response.text, response.stop_reason) == (PARIS, StopReason.COMPLETE)


def test_a_notice_in_the_middle_changes_nothing():
    assert (
        answer_of(
            played(
                [
                    ToolCallStart("x", ANSWER_TOOL),
                    ArgumentsDelta('{"city":'),
                    ModelNotice("slow"),
                    ArgumentsDelta(' "Paris"}'),
                    END,
                ]
            )
        )
        == PARIS
    )
    assert (
        played([TextDelta("```\n1"), ModelNotice("slow"), TextDelta("\n```"), ENDED], PROMPT).text
        == "1"
    )


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("```json\n[1]\n```", "[1]"),
        ("  \n```\n[1]\n```  \n", "[1]"),
        ("```JSON\r\n[1]\n```", "[1]"),
        ("[1]", "[1]"),
        ("", ""),
        (" 1", " 1"),
        ("``", "``"),
        ("`1`", "`1`"),
        ("```json", "```json"),
        ("```json\n[1", "[1"),
        ('```\n"a``` b"\n```', '"a``` b"'),
        ("Here:\n```json\n[1]\n```", "Here:\n```json\n[1]\n```"),
        ("```not json at all, but words\n1", "```not json at all, but words\n1"),
    ],
)
def test_a_fence_around_all_of_an_answer_is_taken_off(said: str, meant: str):
    assert played([TextDelta(said), ENDED], PROMPT).text == meant
    assert played([TextDelta(c) for c in said] + [ENDED], PROMPT).text == meant


@given(st.text(alphabet="`json \n{}1a", max_size=40), st.data())
def test_however_an_answer_is_cut_it_is_the_same(said: str, data: st.DataObject):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(said)), max_size=6)))
    pieces = [said[a:b] for a, b in zip([0, *cuts], [*cuts, len(said)], strict=True)]
    for abilities, around in (
        (PROMPT, lambda of: map(TextDelta, of)),
        (TOOL, lambda of: answers(*of)),
    ):
        whole = played([*around([said]), ENDED], abilities)
        assert played([*around(pieces), ENDED], abilities).text == whole.text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_json_in_a_fence_is_that_json(value: object):
    written = json.dumps(value, ensure_ascii=False)
    assert played([TextDelta(f"```json\n{written}\n```"), ENDED], PROMPT).text == written
    assert played([TextDelta(written), ENDED], PROMPT).text == written


async def test_closing_the_answer_closes_the_question():
    closed = anyio.Event()

    async def wire(given: ModelRequest) -> AsyncGenerator[Delta, None]:
        try:
            yield TextDelta("a")
            await anyio.sleep_forever()
        finally:
            closed.set()

    for abilities in (TOOL, PROMPT):
        closed = anyio.Event()
        deltas = structured(wire, asked(), abilities)
        await anext(deltas)
        await deltas.aclose()
        assert closed.is_set()
