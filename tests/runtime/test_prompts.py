"""Prompts of texts, files and media: what the model receives, and what is refused."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import agent, asks, call, open_runtime, says
from treadle import AgentError, MediaPart, TextPart, ToolContext, tool

PNG = b"\x89PNG\r\n\x1a\n" + b"loom"


async def test_texts_files_and_media_are_one_prompt(tmp_path: Path) -> None:
    for name, content in (("loom.png", PNG), ("notes.txt", b"Old."), ("data.pdf", b"%PDF-1.4")):
        (tmp_path / name).write_bytes(content)
    prompt = [
        "Look:",
        tmp_path / "loom.png",
        tmp_path / "notes.txt",
        tmp_path / "data.pdf",
        TextPart(text="Well?"),
        MediaPart.from_bytes(PNG, name="other.png"),
    ]
    result = await open_runtime().run(agent([says("A loom.")]), prompt)
    first, image, notes, document, last, other = result.messages[0].parts
    assert (first, last) == (TextPart(text="Look:"), TextPart(text="Well?"))
    assert image == MediaPart.from_file(tmp_path / "loom.png")
    assert notes == TextPart(text=f"<file path={str(tmp_path / 'notes.txt')!r}>\nOld.\n</file>")
    assert isinstance(document, MediaPart)
    assert (document.media_type, document.name) == ("application/pdf", "data.pdf")
    assert other == MediaPart(
        media_type="image/png", data=base64.b64encode(PNG).decode(), name="other.png"
    )


async def test_a_sound_is_a_part_of_a_prompt_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "talk.wav").write_bytes(b"RIFF\0\0\0\0WAVE")
    result = await open_runtime().run(agent([says("Hello.")]), [tmp_path / "talk.wav"])
    assert result.messages[0].parts == (MediaPart.from_file(tmp_path / "talk.wav"),)


def test_a_part_is_saved_as_a_file(tmp_path: Path) -> None:
    MediaPart.from_bytes(PNG).save(tmp_path / "loom.png")
    assert (tmp_path / "loom.png").read_bytes() == PNG
    with pytest.raises(AgentError, match=r"no content to save to 'a.png': download https://x/a"):
        MediaPart(media_type="image/png", url="https://x/a").save("a.png")
    with pytest.raises(AgentError, match="is not base64"):
        MediaPart(media_type="image/png", data="a").save(tmp_path / "b.png")
    with pytest.raises(AgentError, match=r"no/b.png' cannot be written: No such file"):
        MediaPart.from_bytes(PNG).save(tmp_path / "no" / "b.png")


async def test_a_string_is_text_and_never_a_path(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    result = await open_runtime().run(agent([says("Hm.")]), [str(tmp_path / "secret.txt")])
    assert result.messages[0].parts == (TextPart(text=str(tmp_path / "secret.txt")),)


async def test_a_child_is_asked_in_the_same_way(tmp_path: Path) -> None:
    (tmp_path / "loom.png").write_bytes(PNG)
    child = agent([says("A loom.")])

    @tool(effect="idempotent")
    async def ask(ctx: ToolContext[Any]) -> str:
        return (await ctx.spawn(child, ["Look:", tmp_path / "loom.png"])).text

    result = await open_runtime().run(agent([asks(call("ask")), says("Done.")], ask), "go")
    assert result.text == "Done."
    assert any("A loom." in str(part) for message in result.messages for part in message.parts)


@pytest.mark.parametrize(
    ("prompt", "says_what"),
    [
        ([Path("nowhere.png")], "'nowhere.png' does not exist"),
        ([Path("noise.bin")], "'noise.bin' is neither an image, a PDF, audio nor UTF-8 text"),
        ([3], "a prompt consists of text, paths and media (str, Path, MediaPart), not"),
        ([""], "the prompt is empty"),
    ],
)
async def test_a_prompt_that_cannot_be_sent_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prompt: Any, says_what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("noise.bin").write_bytes(b"\xff\xfe\x00")
    rt = open_runtime()
    with pytest.raises(AgentError) as caught:
        await rt.run(agent([says("Hm.")]), prompt)
    assert says_what in caught.value.message
    assert await rt.journal.runs() == []


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"%PDF-1.7", "application/pdf"),
        (b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
        (b"ID3\4", "audio/mpeg"),
        (b"fLaC", "audio/flac"),
        (b"OggS", "audio/ogg"),
    ],
)
def test_a_part_of_bytes_knows_its_media_type(data: bytes, kind: str) -> None:
    part = MediaPart.from_bytes(data)
    assert part.media_type == kind
    assert base64.b64decode(part.data or "") == data


def test_a_part_of_other_bytes_is_given_its_media_type(tmp_path: Path) -> None:
    sound = tmp_path / "talk.aac"
    sound.write_bytes(b"\xff\xf1")
    with pytest.raises(AgentError, match=r"talk.aac is not a PNG, .* give media_type="):
        MediaPart.from_file(sound)
    part = MediaPart.from_file(os.fspath(sound), "audio/aac")
    assert (part.media_type, part.name) == ("audio/aac", "talk.aac")
    with pytest.raises(AgentError, match=r"cannot read '.*nowhere.png': No such file"):
        MediaPart.from_file(tmp_path / "nowhere.png")
