"""Whole conversations with each vendor: nothing that Treadle does to a history, a tool or a setting
makes a vendor refuse a request.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.models.providers.speech import Call
from tests.vendors.rules import Json
from tests.vendors.server import Reply, Vendor, call, known_of, think, vendor
from treadle import Agent, Limits, Outcome, Runtime, Settings, tool
from treadle.config.model_profile import Abilities
from treadle.messages.message import MediaPart, TextPart
from treadle.models.providers.structured import ANSWER_TOOL
from treadle.types import Effort

MODELS = [
    ("anthropic", "claude-opus-5-5"),
    ("anthropic", "claude-sonnet-5-5"),
    ("anthropic", "claude-haiku-4-5"),
    ("openai", "gpt-6-astra"),
    ("openai-chat", "gpt-5.6"),
    ("openrouter", "anthropic/claude-opus-5.5"),
    ("openrouter", "anthropic/claude-haiku-4.5"),
    ("gemini", "gemini-3.8-flash"),
    ("gemini", "gemini-2.5-flash"),
]
RULES = "You look after parcels.\n" + "\n".join(
    f"Rule {i}: say what you do with parcel {i}." for i in range(200)
)
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


@tool(effect="pure")
async def look(at: str) -> str:
    """Look at a parcel."""
    return f"{at}: " + "seen " * 300


@tool(effect="pure")
async def feel(at: str) -> str:
    """Feel a parcel."""
    raise ValueError("it is too hot")


@tool(needs_approval=True)
async def burn(at: str) -> str:
    """Burn a parcel."""
    return "burnt"


@tool(effect="pure")
async def photograph(at: str) -> MediaPart:
    """Take a picture of a parcel."""
    return MediaPart(media_type="image/png", data=PIXEL, name="label.png")


@dataclass
class Found:
    place: str
    weights: list[float]
    note: str | None = None


@dataclass
class Story:
    """A model of one vendor, and everything that was refused."""

    server: Vendor
    wire: str
    model_id: str

    def agent(self, abilities: Abilities | None = None, **other: Any) -> Agent[Any, Any]:
        model = self.server.model(self.wire, self.model_id, abilities)
        return Agent(
            **{
                "name": "clerk",
                "instructions": RULES,
                "model": model,
                "tools": [look, feel],
                "settings": Settings(thinking=True),
                **other,
            }
        )

    def says(self, *script: Reply) -> None:
        self.server.script += script


def looks(*places: str) -> Reply:
    return [think(), *[call("look", at=place) for place in places]]


@pytest.fixture(params=MODELS, ids=[model_id for _, model_id in MODELS])
async def story(request: pytest.FixtureRequest) -> Any:
    async with vendor() as server:
        yield Story(server, *request.param)
        mended = {"reasoning_details"} if request.param[0] == "openrouter" else set[str]()
        assert [one for one in server.refused if one.rule not in mended] == []
        assert server.script == [], "more was to be said"


async def test_three_runs_of_a_session_with_parallel_and_failing_calls(story: Story) -> None:
    story.says(
        looks("a", "b", "c"),
        [think(), call("feel", at="a")],
        "One.",
        looks("d"),
        [think(), "Two."],
        "Three.",
    )
    async with Runtime.open() as runtime:
        session = runtime.session(agent=story.agent())
        for prompt in ("one", "two", "three"):
            result = await session.send(prompt)
            assert (result.outcome, result.error) == (Outcome.COMPLETED, None)
        usage = result.metrics.usage
    if known_of(story.wire, story.model_id).earlier_thinking:
        read = [
            bill.marked if story.wire == "anthropic" else bill.read for bill in story.server.bills
        ]
        assert [
            cached >= 0.95 * bill.could
            for cached, bill in zip(read, story.server.bills, strict=True)
        ] == [True] * 6
    assert usage.cache_read_tokens > 0
    assert (
        usage.cache_read_tokens
        == (
            story.server.bills[-1].marked
            if story.wire == "anthropic"
            else story.server.bills[-1].read
        )
        // 4
    )


async def test_forks_with_the_same_and_with_another_agent(story: Story) -> None:
    story.says(looks("a"), looks("b"), "One.", "Two.", "Three.", "Four.")
    async with Runtime.open() as runtime:
        first = await runtime.run(story.agent(), "go")
        for turn, other in ((1, {}), (2, {"instructions": "Be brief."}), (2, {"tools": [look]})):
            forked = await runtime.fork(first.run_id, turn=turn, agent=story.agent(**other))
            assert (forked.outcome, forked.error) == (Outcome.COMPLETED, None)


async def test_a_run_that_waits_is_resumed_with_a_changed_agent(story: Story) -> None:
    story.says(looks("a"), [think(), call("burn", "call_burn", at="a")], looks("b"), "Done.")
    async with Runtime.open() as runtime:
        waiting = await runtime.run(story.agent(tools=[look, burn]), "go", on_ask="wait")
        assert waiting.outcome is Outcome.APPROVAL_NEEDED
        changed = story.agent(tools=[look, burn, feel], instructions="Be quick.")
        (open_call,) = (await runtime.journal.load(waiting.run_id)).current.open_calls
        result = await runtime.resume(waiting.run_id, changed, approve=[open_call.id])
    assert (result.outcome, result.error) == (Outcome.COMPLETED, None)


async def test_a_conversation_that_is_compacted_goes_on(story: Story) -> None:
    small = Abilities(context_tokens=9_000).over(known_of(story.wire, story.model_id))
    story.says(
        *[looks(f"a{i}", f"b{i}") for i in range(4)],
        "One.",
        "A summary of what was done.",
        looks("z"),
        "Two.",
        looks("y"),
        "Three.",
    )
    async with Runtime.open() as runtime:
        session = runtime.session(agent=story.agent(small, limits=Limits(turns=20)))
        assert (
            await session.send("one", settings=Settings(max_tokens=2_000, thinking=True))
        ).outcome is Outcome.COMPLETED
        session.compact()
        for prompt in ("two", "three"):
            result = await session.send(prompt, settings=Settings(max_tokens=2_000, thinking=True))
            assert (result.outcome, result.error) == (Outcome.COMPLETED, None)


def finds(body: Json) -> list[Call | str]:
    """The answer in the form for which the request asks."""
    answer = {"place": "shelf", "weights": [1.5, 2], "note": None}
    return (
        [call(ANSWER_TOOL, **answer)]
        if ANSWER_TOOL in json.dumps(body.get("tools", []))
        else [json.dumps(answer)]
    )


@pytest.mark.parametrize("tools", [(), (look,)], ids=["no tools", "a tool"])
async def test_a_structured_answer(story: Story, tools: Sequence[Any]) -> None:
    story.says(*([looks("a")] if tools else []), finds)
    async with Runtime.open() as runtime:
        result = await runtime.run(story.agent(output=Found, tools=tools), "Where is it?")
    assert (result.outcome, result.output) == (Outcome.COMPLETED, Found("shelf", [1.5, 2.0]))


async def test_agents_that_call_agents(story: Story) -> None:
    helper = story.agent(name="helper", description="Helps.", tools=[look])
    story.says(
        [think(), call("helper", prompt="Look at a.")],
        looks("a"),
        [think(), "It is there."],
        [think(), call("helper", prompt="b")],
        "No.",
        "Done.",
    )
    async with Runtime.open() as runtime:
        result = await runtime.run(story.agent(tools=[helper]), "go")
    assert (result.outcome, result.text) == (Outcome.COMPLETED, "Done.")


async def test_pictures_in_prompts_and_results(story: Story) -> None:
    story.says([think(), call("photograph", at="a"), call("look", at="a")], "Seen.", "Again.")
    prompt = [
        TextPart(text="What is this?"),
        MediaPart(media_type="image/png", data=PIXEL),
        MediaPart(media_type="text/plain", data=TEXT, name="a.txt"),
    ]
    async with Runtime.open() as runtime:
        session = runtime.session(agent=story.agent(tools=[photograph, look]))
        for given in (prompt, "and now?"):
            result = await session.send(given)
            assert (result.outcome, result.error) == (Outcome.COMPLETED, None)


TEXT = base64.b64encode(b"parcel a").decode()


async def test_every_setting_of_thinking_in_one_session(story: Story) -> None:
    settings: list[Settings] = [
        *[Settings(thinking=thinking) for thinking in (False, True, 4_000, "between_tools")],
        *[
            Settings(thinking=thinking, effort=effort)
            for thinking in (None, False)
            for effort in EFFORTS
        ],
    ]
    story.says(*[reply for _ in settings for reply in (looks("a"), [think(), "Done."])])
    async with Runtime.open() as runtime:
        for given in settings:
            agent = story.agent(settings=given.over(Settings(temperature=0.5, tool_choice="any")))
            result = await runtime.session("s", agent=agent).send("go")
            assert (result.outcome, result.error) == (Outcome.COMPLETED, None), given


EFFORTS: tuple[Effort, ...] = ("low", "xhigh", "max")


async def test_a_person_and_a_hook_speak_up_and_the_last_turn_has_no_tools(story: Story) -> None:
    @tool(effect="pure")
    async def wait(at: str) -> str:
        """Wait for a parcel."""
        stream.steer("Mind the rain.")
        return "It came."

    story.says(
        [think(), call("wait", at="a"), call("look", at="a")], [think()], looks("b"), "That is all."
    )
    async with (
        Runtime.open() as runtime,
        runtime.stream(story.agent(tools=[wait, look]), "go", limits=Limits(turns=4)) as stream,
    ):
        async for _ in stream:
            pass
    assert (stream.result.text, stream.result.error) == ("That is all.", None)
