"""What a provider refuses does not end a session: an image leaves the conversation, and so does an
exchange after which everything is refused.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doubles import PlayedModel, Step, agent, end, gives, open_runtime, text, wishes
from treadle import MediaPart, Runtime, TextPart
from treadle.context.shortening import REFUSED
from treadle.errors import AgentError
from treadle.messages import events
from treadle.messages.message import Message
from treadle.types import Outcome, StopReason

PICTURE = MediaPart(media_type="image/png", data="aW1hZ2U=", name="p.png")
LINE = "[p.png (image/png) is not shown: the provider rejected it or a file sent with it.]"
BAD_IMAGE = AgentError(
    "invalid",
    "messages.2.content.0.image.source.base64.data: image exceeds 5 MB maximum",
    status=400,
    request_id="req_1",
)


def refuses() -> list[Step]:
    return [end(StopReason.REFUSAL, withdraws=True)]


def shown(messages: list[Message]) -> list[str]:
    results = {
        message.id: result.content for message in messages for result in message.tool_results
    }
    return [message.text or str(results.get(message.id, "")) for message in messages]


async def test_an_image_that_the_provider_refuses_leaves_the_conversation_and_the_run_goes_on(
    tmp_path: Path,
) -> None:
    model = PlayedModel(
        text("Nice."),
        wishes(("c1", "look", "{}")),
        [BAD_IMAGE],
        text("I cannot see it."),
        text("Hello."),
    )
    async with Runtime.open(f"sqlite:///{tmp_path}/runs.db") as runtime:
        session = runtime.session("s", agent=agent(model, gives("look", [PICTURE])))
        assert (await session.send([TextPart(text="Fine?"), PICTURE])).outcome is Outcome.COMPLETED
        async with session.stream("Look.") as stream:
            warnings = [event.text async for event in stream if isinstance(event, events.Warned)]
        assert stream.result.text == "I cannot see it."
        assert (await session.send("Hello?")).outcome is Outcome.COMPLETED
    assert warnings == [
        f"the provider refused an image or a document, so new ones are left out of the conversation from here on: {BAD_IMAGE.message}; request req_1",
    ]
    for history in model.histories[3:]:
        assert history[0].parts[1] == PICTURE, "the provider has taken it before"
        (result,) = history[4].tool_results
        assert result.content == (TextPart(text=LINE),)


async def test_older_images_leave_too_where_the_newest_are_not_what_is_refused() -> None:
    model = PlayedModel(text("Nice."), [BAD_IMAGE], [BAD_IMAGE], [BAD_IMAGE])
    async with open_runtime() as runtime:
        session = runtime.session("s", agent=agent(model))
        await session.send([TextPart(text="Fine?"), PICTURE])
        assert (await session.send([TextPart(text="And?"), PICTURE])).outcome is Outcome.ERROR
    pictures = [
        [message.parts[1] for message in history if message.role == "user"]
        for history in model.histories[1:]
    ]
    assert pictures == [
        [PICTURE, PICTURE],
        [PICTURE, TextPart(text=LINE)],
        [TextPart(text=LINE)] * 2,
    ]


@pytest.mark.parametrize("kept", [True, False])
async def test_a_refused_exchange_leaves_the_session_and_further_ones_leave_while_refusals_go_on(
    kept: bool, tmp_path: Path
) -> None:
    refused = PlayedModel(
        text("Yes."), wishes(("c1", "look", "{}")), refuses(), refuses(), text("Hello.")
    )
    async with Runtime.open(f"sqlite:///{tmp_path}/runs.db" if kept else "memory:") as runtime:
        session = runtime.session("s", agent=agent(refused, gives("look", "secrets")))
        await session.send("Ready?")
        async with session.stream("Look.") as stream:
            warnings = [event.text async for event in stream if isinstance(event, events.Warned)]
        assert stream.result.outcome is Outcome.REFUSED
        assert (await session.send("Go on.")).outcome is Outcome.REFUSED
        assert (await session.send("Hello?")).outcome is Outcome.COMPLETED
        assert [message.text for message in await session.history()][-2:] == ["Hello?", "Hello."]
    assert warnings == [
        "the provider would refuse all requests after its refusal, so 2 messages were removed from the conversation; the journal keeps them"
    ]
    assert [message.text for message in refused.histories[3]] == [
        "Ready?",
        "Yes.",
        "Look.",
        REFUSED,
        "Go on.",
    ]
    assert [message.text for message in refused.histories[4]] == [
        "Ready?",
        "Yes.",
        REFUSED,
        "Hello?",
    ]


async def test_a_refusal_that_ends_nothing_stays_in_the_session() -> None:
    model = PlayedModel([*text("I will not.")[:1], end(StopReason.REFUSAL)], text("Because."))
    async with open_runtime() as runtime:
        session = runtime.session("s", agent=agent(model))
        assert (await session.send("Do it.")).outcome is Outcome.REFUSED
        assert (await session.send("Why not?")).outcome is Outcome.COMPLETED
    assert [message.text for message in model.histories[1]] == ["Do it.", "I will not.", "Why not?"]
