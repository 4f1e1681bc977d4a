"""Images and PDF documents on every wire: within the vendor's limits, and out of the conversation
once the vendor refuses one.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.models.providers.loopback import document
from tests.tools.builtin.test_read_documents import pdf
from tests.vendors.server import SPEECHES, VENDORS, Vendor, call, known_of, think, vendor
from treadle import Agent, MediaPart, Runtime, Settings, tool
from treadle.agents.agent import Agent as AgentOf
from treadle.config.model_profile import Abilities
from treadle.messages.events import Warned
from treadle.models.providers.images import TOO_MANY_IMAGES
from treadle.tools.builtin.coding import default_tools

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="
PICTURE = MediaPart(media_type="image/png", data=PIXEL, name="p.png")
WAV = MediaPart.from_bytes(b"RIFF\0\0\0\0WAVEfmt ", name="a.wav")
ZIP = MediaPart(media_type="application/zip", data="QUJD", name="a.zip")
PAGES = MediaPart(
    media_type="application/pdf", data=base64.b64encode(pdf("one")).decode(), name="p.pdf"
)
MODELS = {
    "anthropic": "claude-opus-5-5",
    "openai": "gpt-6-astra",
    "openai-chat": "gpt-6-sol",
    "gemini": "gemini-3.8-flash",
    "openrouter": "anthropic/claude-opus-5.5",
}
ROOM = Abilities(context_tokens=50_000_000)
"""More images than a vendor takes are more tokens than any window has."""
REFUSED = {
    "anthropic": "messages.2.content.0: Could not process image",
    "openai": "Invalid image data. The image may be corrupted.",
    "openai-chat": "You uploaded an unsupported image.",
    "gemini": "Unable to process input image. Please retry.",
}
REFUSED |= {"openrouter": REFUSED["anthropic"]}
REFUSED_PDF = {
    "anthropic": "messages.2.content.0.document.source.base64.data: The PDF specified was not valid.",
    "openai": "Invalid file data: 'input[2].output[0].file_data'.",
    "openai-chat": "Invalid 'messages[3].content[0].file.file_data'.",
    "gemini": "The document has no pages.",
    "openrouter": "Could not parse the PDF.",
}


def agent(made: Vendor, wire: str, *shown: MediaPart) -> AgentOf[None, str]:
    @tool(effect="pure")
    async def look() -> list[MediaPart]:
        """Look."""
        return [*shown]

    return Agent(
        name="clerk",
        tools=[look],
        model=made.model(wire, MODELS[wire], ROOM.over(known_of(wire, MODELS[wire]))),
        settings=Settings(max_tokens=1_000, compact_at_tokens=40_000_000),
    )


async def told(runtime: Runtime, who: Any, prompt: str = "Go.") -> tuple[Any, list[str]]:
    async with runtime.session("s", agent=who).stream(prompt) as run:
        warnings = [event.text async for event in run if isinstance(event, Warned)]
    return run.result, warnings


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("kind", ["image", "pdf"])
async def test_what_the_vendor_refuses_to_look_at_leaves_the_conversation(
    wire: str, kind: str
) -> None:
    part, messages = (PICTURE, REFUSED) if kind == "image" else (PAGES, REFUSED_PDF)
    refusal = document(SPEECHES[wire].error(400, messages[wire]), status=400)
    script = [[think(), call("look")], refusal, "Done.", "Again."]
    async with vendor(*script) as made, Runtime.open() as runtime:
        result, warnings = await told(runtime, agent(made, wire, part))
        again, _ = await told(runtime, agent(made, wire, part), "And?")
    assert (result.text, result.error, again.text) == ("Done.", None, "Again.")
    assert (made.refused, made.script) == ([], [])
    assert any(messages[wire] in text for text in warnings)
    assert part.data is not None
    assert [part.data in json.dumps(body) for body in made.bodies] == [False, True, False, False]


@pytest.mark.parametrize(
    ("wire", "most"),
    [("anthropic", 600), ("openai", 1_500), ("openai-chat", 1_500), ("gemini", 3_000)],
)
async def test_a_conversation_never_shows_more_images_than_the_vendor_takes(
    wire: str, most: int
) -> None:
    shown = [PICTURE] * (most + 1)
    async with vendor([call("look")], "Done.", "Again.") as made, Runtime.open() as runtime:
        who = agent(made, wire, *shown)
        result, warnings = await told(runtime, who)
        again, later = await told(runtime, who, "And?")
    assert (result.text, again.text, made.refused) == ("Done.", "Again.", [])
    assert (warnings.count(TOO_MANY_IMAGES), later.count(TOO_MANY_IMAGES)) == (1, 1), (
        "once in a run"
    )
    sent = [json.dumps(body).count(PIXEL) for body in made.bodies]
    assert sent == [0, most // 2, most // 2], "half, so that the next requests begin alike"


@pytest.mark.parametrize("wire", VENDORS)
async def test_a_pdf_that_is_read_is_sent_as_documents(wire: str, tmp_path: Path) -> None:
    pytest.importorskip("pypdf")
    (tmp_path / "a.pdf").write_bytes(pdf("one", "two", "three"))
    async with (
        vendor([call("read", path="a.pdf", pages="2-3")], "Done.") as made,
        Runtime.open() as runtime,
    ):
        model = made.model(wire, MODELS[wire])
        who = Agent(
            name="clerk", tools=default_tools(), model=model, settings=Settings(max_tokens=1_000)
        )
        result = await runtime.run(who, "Go.", cwd=tmp_path)
    assert (result.text, result.error, made.refused) == ("Done.", None, [])
    sent = json.dumps(made.bodies[-1])
    assert "a.pdf: pages 2-3 of 3, one document each" in sent
    assert sent.count("JVBERi0") == 2, "the beginning of a PDF in base64"


TAKES_SOUND = {"openai-chat", "openrouter", "gemini"}


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("part", [PICTURE, PAGES, WAV, ZIP], ids=lambda part: part.name)
async def test_media_are_sent_where_the_api_accepts_them_and_otherwise_replaced_with_a_warning(
    wire: str, part: MediaPart
) -> None:
    lenient = Settings(max_tokens=1_000, unsupported_media="warn")
    is_sent = part is not ZIP and (part is not WAV or wire in TAKES_SOUND)
    async with vendor("Done.") as made, Runtime.open() as runtime:
        who = agent(made, wire).with_(settings=lenient)
        run = runtime.stream(who, ["Look:", part])
        async with run:
            warnings = [event.text async for event in run if isinstance(event, Warned)]
    assert (run.result.text, made.refused) == ("Done.", [])
    sent = json.dumps(made.bodies[0])
    assert ((part.data or "") in sent, "not shown" in sent) == (is_sent, not is_sent)
    expected = f"'{part.name}' ({part.media_type}) is not sent to the model"
    assert sum(text.startswith(expected) for text in warnings) == (not is_sent)


@pytest.mark.parametrize("wire", MODELS)
async def test_by_default_media_that_cannot_be_sent_are_an_error_that_names_the_choice(
    wire: str,
) -> None:
    async with vendor() as made, Runtime.open() as runtime:
        result = await runtime.run(agent(made, wire), ["Look:", ZIP])
    assert (result.outcome, made.bodies) == ("error", [])
    assert result.error is not None
    assert "'a.zip' (application/zip) cannot be sent to the model" in result.error.message
    assert "unsupported_media='warn'" in result.error.message


@pytest.mark.parametrize("wire", MODELS)
async def test_media_in_a_result_that_cannot_be_sent_cause_a_warning(wire: str) -> None:
    script = ([call("look")], [call("look")], "Done.", "Again.")
    async with vendor(*script) as made, Runtime.open() as runtime:
        who = agent(made, wire, ZIP)
        result, warnings = await told(runtime, who)
        again, later = await told(runtime, who, "And?")
    assert (result.text, again.text, made.refused) == ("Done.", "Again.", [])
    about = "'a.zip' (application/zip) in the result of look is not sent to the model"
    assert sum(text.startswith(about) for text in warnings) == 2, "one for each result"
    assert not any(about in text for text in later)
