"""Images that are too large for vendors are scaled down on every way into a conversation, or
refused with the limit and the way out.
"""

from __future__ import annotations

import base64
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import PlayedModel, agent, gives, open_runtime, text, watch, wishes
from treadle import MediaPart, TextPart
from treadle.errors import AgentError
from treadle.messages import events
from treadle.messages.images import PIXELS_MAX, SCALED_BASE64, fits, fitted, size_of
from treadle.tools.builtin.read import Read
from treadle.types import Outcome


def picture(
    width: int,
    height: int,
    form: str = "PNG",
    *,
    mode: str = "RGB",
    noise: bool = False,
    **options: Any,
) -> bytes:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    made = (
        image.effect_noise((width, height), 100).convert(mode)
        if noise
        else image.new(mode, (width, height))
    )
    file = BytesIO()
    made.save(file, form, **options)
    return file.getvalue()


def part(data: bytes, media_type: str = "image/png") -> MediaPart:
    return MediaPart(media_type=media_type, data=base64.b64encode(data).decode(), name="p.png")


def header(width: int, height: int) -> bytes:
    """The beginning of a PNG, which is all that says its size."""
    return (
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
        + width.to_bytes(4, "big")
        + height.to_bytes(4, "big")
        + b"\x08\x02\0\0\0"
    )


@pytest.fixture
def no_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)


# ---------------------------------------------------------------- one image


@pytest.mark.parametrize(
    ("form", "media_type", "mode", "becomes"),
    [
        ("PNG", "image/png", "RGB", "image/png"),
        ("PNG", "image/png", "RGBA", "image/png"),
        ("PNG", "image/png", "P", "image/png"),
        ("JPEG", "image/jpeg", "RGB", "image/jpeg"),
        ("JPEG", "image/jpeg", "CMYK", "image/jpeg"),
        ("GIF", "image/gif", "P", "image/png"),
        ("WEBP", "image/webp", "RGB", "image/jpeg"),
        ("WEBP", "image/webp", "RGBA", "image/png"),
    ],
)
def test_an_image_with_a_long_side_is_scaled_to_what_every_vendor_takes(
    form: str, media_type: str, mode: str, becomes: str
) -> None:
    image, note = fitted(part(picture(4_000, 1_000, form, mode=mode), media_type))
    assert (image.media_type, size_of(image), image.name) == (becomes, (2_000, 500), "p.png")
    assert note == "'p.png' was scaled from 4,000 x 1,000 to 2,000 x 500 pixels"
    assert fits(image)


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_an_image_with_too_many_bytes_becomes_one_with_fewer(mode: str) -> None:
    large = part(picture(2_000, 2_000, mode=mode, noise=True, compress_level=0))
    assert len(large.data or "") > SCALED_BASE64
    image, _ = fitted(large)
    assert len(image.data or "") <= SCALED_BASE64
    assert fits(image)


def test_an_image_is_turned_as_its_camera_was_held() -> None:
    data = picture(
        3_000,
        1_500,
        "JPEG",
        exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0",
    )
    assert size_of(fitted(part(data, "image/jpeg")).image) == (1_000, 2_000)


def test_an_image_that_fits_stays_byte_for_byte_with_its_true_type() -> None:
    small = part(b"\xff\xd8\xff\xe0 a JPEG that is named as a PNG", "image/png")
    image, note = fitted(small)
    assert (image.media_type, image.data, note) == ("image/jpeg", small.data, "")
    assert fitted(image).image is image


@pytest.mark.parametrize(
    ("image", "why"),
    [
        (
            part(header(50_000, 50_000)),
            f"not decoded, since it has more than {PIXELS_MAX:,} pixels",
        ),
        (part(header(9_000, 10)), "cannot be decoded"),
        (
            MediaPart(
                media_type="image/png",
                data=base64.b64encode(header(10, 10)).decode() + "?" * 11_000_000,
            ),
            "its data is not base64",
        ),
        (
            part(header(10, 10).ljust(21 << 20)),
            "not decoded, since it has more than 20,971,520 bytes",
        ),
    ],
)
def test_a_hostile_image_is_refused_without_being_decoded(image: MediaPart, why: str) -> None:
    pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    with pytest.raises(AgentError, match=why) as failed:
        fitted(image)
    assert (
        "at most 8,000 pixels a side and 10,000,000 bytes of base64 are possible"
        in failed.value.message
    )


@pytest.mark.usefixtures("no_pillow")
def test_without_pillow_an_image_stays_as_it_is_up_to_the_limit_and_is_refused_above_it() -> None:
    assert fitted(part(header(8_000, 10))).image == part(header(8_000, 10))
    with pytest.raises(
        AgentError,
        match=r"'p\.png' is too large for a model \(8,001 x 10 pixels.*at most 8,000 pixels.*pip install 'treadle\[files\]'",
    ):
        fitted(part(header(8_001, 10)))


# ---------------------------------------------------------------- every way in


async def test_an_image_of_a_prompt_is_scaled_and_people_are_told() -> None:
    model = PlayedModel(text("Nice."))
    seen = await watch(model, prompt=[TextPart(text="Look."), part(picture(9_000, 90))])
    assert seen.outcome == "completed"
    sent = model.histories[0][0].parts[1]
    assert isinstance(sent, MediaPart)
    assert size_of(sent) == (2_000, 20)
    assert "'p.png' was scaled from 9,000 x 90 to 2,000 x 20 pixels" in [
        warned.text for warned in seen.of(events.Warned)
    ]


@pytest.mark.usefixtures("no_pillow")
async def test_a_prompt_with_an_image_that_is_too_large_starts_no_run() -> None:
    async with open_runtime() as runtime:
        with pytest.raises(AgentError, match=r"treadle\[files\]"):
            await runtime.run(
                agent(PlayedModel()), [TextPart(text="Look."), part(header(9_000, 90))]
            )
        assert await runtime.journal.runs() == []


async def test_an_image_that_a_tool_gives_is_scaled() -> None:
    """Also one of an MCP server, whose results take the same way."""
    model = PlayedModel(wishes(("c1", "look", "{}")), text("Nice."))
    await watch(model, gives("look", [TextPart(text="See:"), part(picture(9_000, 90))]))
    (result,) = model.histories[1][-1].tool_results
    said, image, note = result.content
    assert isinstance(image, MediaPart)
    assert (said, size_of(image), note) == (
        TextPart(text="See:"),
        (2_000, 20),
        TextPart(text="['p.png' was scaled from 9,000 x 90 to 2,000 x 20 pixels]"),
    )


@pytest.mark.usefixtures("no_pillow")
async def test_an_image_that_a_tool_gives_and_that_is_too_large_is_a_line_and_the_run_goes_on() -> (
    None
):
    model = PlayedModel(wishes(("c1", "look", "{}")), text("Sad."))
    seen = await watch(model, gives("look", [part(header(9_000, 90))]))
    assert seen.outcome == "completed"
    (result,) = model.histories[1][-1].tool_results
    assert result.content[0].text.startswith("['p.png' is too large for a model (9,000 x 90 pixels")
    assert not result.is_error


async def test_read_scales_an_image_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "wide.png").write_bytes(data := picture(9_000, 90))
    model = PlayedModel(wishes(("c1", "read", '{"path": "wide.png"}')), text("Nice."))
    seen = await watch(model, Read(), cwd=tmp_path)
    assert seen.result.outcome is Outcome.COMPLETED
    (result,) = model.histories[1][-1].tool_results
    said, image = result.content
    assert said == TextPart(
        text=f"wide.png: image/png, {len(data):,} bytes ('wide.png' was scaled from 9,000 x 90 to 2,000 x 20 pixels)"
    )
    assert isinstance(image, MediaPart)
    assert size_of(image) == (2_000, 20)


@pytest.mark.usefixtures("no_pillow")
async def test_read_fails_for_an_image_that_no_model_takes(tmp_path: Path) -> None:
    (tmp_path / "wide.png").write_bytes(header(9_000, 90))
    model = PlayedModel(wishes(("c1", "read", '{"path": "wide.png"}')), text("Sad."))
    await watch(model, Read(), cwd=tmp_path)
    (result,) = model.histories[1][-1].tool_results
    assert result.is_error
    assert "at most 8,000 pixels" in result.text
    assert "pip install 'treadle[files]'" in result.text
