"""Checks of images against vendors' limits, and scaled copies of images that exceed them.

Each wire enforces its own limits on all images of a request. Entry points: `fitted`, `fits`,
`size_of`, `image_type`. Source: platform.claude.com, "Vision", section "Image limits", read
2026-11-22: 8,000 pixels a side, 2,000 with more than 20 images, 10 MB of base64 (5 MB on clouds).
OpenAI and Google document higher limits, and scale down images above 2,000 to 3,000 pixels.
"""

from __future__ import annotations

import base64
import binascii
import importlib
from collections.abc import Sequence
from io import BytesIO
from typing import Any, Final, NamedTuple

import msgspec
from anyio import CancelScope, to_thread

from treadle.errors import AgentError
from treadle.messages.message import MediaPart, Message, TextPart

SIDE_MAX: Final = 8_000
"""Longest side that Claude accepts, in pixels."""
BASE64_MAX: Final = 10_000_000
"""Largest image that Claude accepts, in bytes of base64."""
SCALED_SIDE: Final = 2_000
"""Longer side of a scaled copy, in pixels. Every vendor accepts it for any number of images."""
SCALED_BASE64: Final = 5_000_000
"""Largest scaled copy, in bytes of base64: the limit of clouds that serve Claude."""
PIXELS_MAX: Final = 80_000_000
"""Largest image that is decoded for scaling, in pixels. Decoding it takes 320 MB of memory."""
FILE_BYTES_MAX: Final = 20 * 1024 * 1024
"""Largest image file that is decoded, in bytes."""
EXTRA: Final = "pip install 'treadle[files]' makes smaller copies of images"

_HEAD_CHARS = 1 << 19
"""Base64 characters decoded to find an image's size. Very large metadata can exceed them."""
_SOF = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""JPEG markers of the segments that contain the image size."""
_TYPES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_DECODED = ("PNG", "JPEG", "GIF", "WEBP")
"""Formats that Pillow may decode, so that its other decoders never process untrusted bytes."""
_QUALITY = 85
_SHRINK = 0.75


def image_type(head: bytes) -> str | None:
    """Return the media type of an image from its first bytes; None if models do not accept it."""
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for magic, media_type in _TYPES if head.startswith(magic)), None)


class Fitted(NamedTuple):
    image: MediaPart
    note: str = ""
    """Description of the scaling, without a period; empty if the image was not scaled."""


def fits(image: MediaPart) -> bool:
    """Return True if every vendor accepts this image. Decodes at most its first 400 kB."""
    if not image.is_image or image.data is None:
        return True
    return (
        len(image.data) <= SCALED_BASE64
        and max(size_of(image)) <= SCALED_SIDE
        and _type_of(image) in (None, image.media_type)
    )


def fitted(image: MediaPart) -> Fitted:
    """Correct a wrong media type, and scale the image down to a size that every vendor accepts.

    Blocks for up to about a second. An image that cannot be scaled, for example without Pillow, is
    kept if it is within `SIDE_MAX` and `BASE64_MAX`, because most requests accept it. Otherwise
    raises AgentError(invalid).
    """
    if fits(image):
        return Fitted(image)
    image = msgspec.structs.replace(image, media_type=_type_of(image) or image.media_type)
    width, height = size_of(image)
    size = len(image.data or "")
    if size <= SCALED_BASE64 and max(width, height) <= SCALED_SIDE:
        return Fitted(image)
    try:
        return _scaled(image, _decoded(image, width, height), _pillow())
    except _NotScaled as e:
        if size <= BASE64_MAX and max(width, height) <= SIDE_MAX:
            return Fitted(image)
        raise AgentError(
            "invalid",
            f"{named(image)} is too large for a model ({_measured(width, height, size)}): {e}",
        ) from e


async def fitted_parts(parts: Sequence[TextPart | MediaPart]) -> list[TextPart | MediaPart]:
    """Scale the images of a tool's output. A text part follows each scaled image, and replaces each
    image that cannot be sent.

    Decodes in a thread. Finishes despite cancellation, because the tool's result must be kept.
    """
    fitting: list[TextPart | MediaPart] = []
    for part in parts:
        if isinstance(part, TextPart) or fits(part):
            fitting.append(part)
        else:
            with CancelScope(shield=True):
                fitting += await to_thread.run_sync(_fitted_or_said, part)
    return fitting


def _fitted_or_said(image: MediaPart) -> list[TextPart | MediaPart]:
    try:
        fitting, note = fitted(image)
    except AgentError as e:
        return [TextPart(text=f"[{e.message}]")]
    return [fitting, TextPart(text=f"[{note}]")] if note else [fitting]


async def fitted_message(message: Message) -> tuple[Message, tuple[str, ...]]:
    """Return a prompt with scaled images, and a description of each scaling.

    Decodes in a thread. Raises the errors of `fitted`.
    """
    if all(not isinstance(part, MediaPart) or fits(part) for part in message.parts):
        return message, ()
    found = [
        await to_thread.run_sync(fitted, part) if isinstance(part, MediaPart) else part
        for part in message.parts
    ]
    notes = tuple(part.note for part in found if isinstance(part, Fitted) and part.note)
    return message.with_parts(
        [part.image if isinstance(part, Fitted) else part for part in found]
    ), notes


def named(image: MediaPart) -> str:
    return repr(image.name[:100]) if image.name else "an image"


def _measured(width: int, height: int, size: int) -> str:
    limits = f"at most {SIDE_MAX:,} pixels a side and {BASE64_MAX:,} bytes of base64 are possible"
    return f"{width:,} x {height:,} pixels, {size:,} bytes of base64; {limits}"


def _type_of(image: MediaPart) -> str | None:
    try:
        return image_type(base64.b64decode((image.data or "")[:32]))
    except binascii.Error:
        return None


# ---------------------------------------------------------------- scaled copies


class _NotScaled(Exception):
    """Raised if an image cannot be scaled. The message gives the reason, and often a remedy."""


def _pillow() -> Any:
    """Import Pillow's `Image` module by name, since type checkers may not find this optional
    library.
    """
    try:
        return importlib.import_module("PIL.Image")
    except ImportError as e:
        raise _NotScaled(f"{EXTRA}, or make one yourself") from e


def _decoded(image: MediaPart, width: int, height: int) -> bytes:
    if width * height > PIXELS_MAX:
        raise _NotScaled(
            f"it is not decoded, since it has more than {PIXELS_MAX:,} pixels. Make a smaller copy"
        )
    if len(image.data or "") > FILE_BYTES_MAX * 4 // 3 + 4:
        raise _NotScaled(
            f"it is not decoded, since it has more than {FILE_BYTES_MAX:,} bytes. Make a smaller "
            "copy"
        )
    try:
        return base64.b64decode(image.data or "", validate=True)
    except binascii.Error as e:
        raise _NotScaled("its data is not base64") from e


def _scaled(image: MediaPart, data: bytes, pillow: Any) -> Fitted:
    try:
        with pillow.open(BytesIO(data), formats=_DECODED) as opened:
            before = opened.size
            if before[0] * before[1] > PIXELS_MAX:
                raise _NotScaled(
                    f"it is not decoded, since it has more than {PIXELS_MAX:,} pixels. Make a "
                    "smaller copy"
                )
            # decode a JPEG only at the resolution needed
            opened.draft("RGB", (SCALED_SIDE, SCALED_SIDE))
            copy = importlib.import_module("PIL.ImageOps").exif_transpose(opened)
            copy.thumbnail((SCALED_SIDE, SCALED_SIDE), pillow.Resampling.LANCZOS)
            media_type, encoded, after = _encoded(copy, image.media_type, pillow)
    except _NotScaled:
        raise
    except Exception as e:  # for broken files Pillow raises OSError, ValueError, SyntaxError, struct.error and others  # noqa: E501
        raise _NotScaled(f"it cannot be decoded ({type(e).__name__})") from e
    note = (
        f"{named(image)} was scaled from {before[0]:,} x {before[1]:,} to {after[0]:,} x "
        f"{after[1]:,} pixels"
    )
    return Fitted(
        msgspec.structs.replace(
            image, media_type=media_type, data=base64.b64encode(encoded).decode()
        ),
        note,
    )


def _encoded(copy: Any, media_type: str, pillow: Any) -> tuple[str, bytes, tuple[int, int]]:
    """Return the media type, the bytes and the size of an encoded copy. Photos, and images whose
    PNG is too large, become JPEG; others become PNG.
    """
    has_alpha = copy.mode in ("RGBA", "LA", "PA") or "transparency" in copy.info
    if media_type != "image/jpeg" and (has_alpha or media_type != "image/webp"):
        data = _saved(
            copy if copy.mode in ("RGB", "RGBA", "L", "LA", "P", "1") else copy.convert("RGBA"),
            "PNG",
        )
        if _base64_chars(data) <= SCALED_BASE64:
            return "image/png", data, copy.size
    flat = copy.convert("RGB")
    if has_alpha:
        flat = pillow.new("RGB", copy.size, "white")
        flat.paste(copy, mask=copy.convert("RGBA").getchannel("A"))
    while _base64_chars(data := _saved(flat, "JPEG", quality=_QUALITY)) > SCALED_BASE64:
        flat = flat.resize((max(int(flat.width * _SHRINK), 1), max(int(flat.height * _SHRINK), 1)))
    return "image/jpeg", data, flat.size


def _saved(copy: Any, form: str, **options: Any) -> bytes:
    file = BytesIO()
    copy.save(file, form, **options)
    return file.getvalue()


def _base64_chars(data: bytes) -> int:
    return -(-len(data) // 3) * 4


# ---------------------------------------------------------------- pixels


def size_of(image: MediaPart) -> tuple[int, int]:
    """Return the width and height in pixels, read from the start of the file; zeros if they are not
    found.
    """
    try:
        head = base64.b64decode((image.data or "")[:_HEAD_CHARS])
        return _size_in(head)
    except (ValueError, IndexError):
        return 0, 0


def _size_in(head: bytes) -> tuple[int, int]:
    if head.startswith(b"\x89PNG"):
        return _big(head[16:20]), _big(head[20:24])
    if head.startswith(b"GIF8"):
        return _little(head[6:8]), _little(head[8:10])
    if head.startswith(b"\xff\xd8"):
        return _size_in_jpeg(head)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _size_in_webp(head[12:16], head[20:])
    return 0, 0


def _size_in_jpeg(head: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(head):
        marker = head[at + 1]
        if marker in _SOF:
            return _big(head[at + 7 : at + 9]), _big(head[at + 5 : at + 7])
        at += 1 if marker == 0xFF else 2 + _big(head[at + 2 : at + 4])
    return 0, 0


def _size_in_webp(kind: bytes, data: bytes) -> tuple[int, int]:
    match kind:
        case b"VP8X":
            return _little(data[4:7]) + 1, _little(data[7:10]) + 1
        case b"VP8L":
            bits = _little(data[1:5])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return _little(data[6:8]) & 0x3FFF, _little(data[8:10]) & 0x3FFF
        case _:
            return 0, 0


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")
