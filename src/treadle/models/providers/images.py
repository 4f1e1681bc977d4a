"""Limits of vendors on the images and PDF documents of one request: the size of each, their number,
and which are omitted beyond that.

The loop omits images that a provider rejects anyway. Entry points: `ImageLimits`, `Images`,
`encoded_within`, `media_check`, `with_notice`. Sources: platform.claude.com, "Vision", "PDF
support" and "Request size limits"; developers.openai.com, "Images and vision" and "File inputs";
ai.google.dev, "Image understanding" and "File input methods"; read 2026-11-22.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final, NamedTuple, TypeVar, cast

import msgspec

from treadle.config.model_profile import Abilities
from treadle.messages.history import History
from treadle.messages.images import SIDE_MAX, size_of
from treadle.messages.message import PDF, MediaPart, Message, Part, TextPart, ToolResult
from treadle.models.model import Delta, ModelNotice
from treadle.models.providers.encoding import MediaCheck
from treadle.types import Settings

E = TypeVar("E")

MANY_SIDE_MAX: Final = 2_000
"""Pixels of the longer side, with more images than `ImageLimits.many`."""
SMALL_WINDOW: Final = 200_000
"""Context window up to which Claude accepts 100 images (also if unknown), else 600."""
TOO_MANY_IMAGES: Final = (
    "the conversation has more, or larger, images than a request may contain: from here on some "
    "are left out, and the model sees a note instead"
)
_NOTICES = "notices"


class ImageLimits(NamedTuple):
    each_bytes: int
    """Maximum base64 size of one image, in bytes."""
    most: int
    """Maximum number of images and documents in a request."""
    all_bytes: int
    """Maximum base64 size of all of them, in bytes."""
    many: int | None = None
    """Number in a request above which no side may exceed `MANY_SIDE_MAX`. None: any."""
    side_max: int | None = None
    """Maximum length of the longer side of an image, in pixels. None: any."""

    def against(self, part: MediaPart) -> str:
        """Return the reason why a provider would reject this part in every request; "" if there is
        none, or if it is unknown.
        """
        most = self.each_bytes if part.is_image else self.all_bytes
        if len(part.data or "") > most:
            return f"it has {len(part.data or ''):,} bytes in base64, and {most:,} is the maximum"
        if self.side_max is None or not part.is_image:
            return ""
        width, height = size_of(part)
        return (
            f"it has {width:,} x {height:,} pixels; the maximum is {self.side_max:,} per side"
            if max(width, height) > self.side_max
            else ""
        )


def claude_limits(abilities: Abilities, *, is_vendor: bool) -> ImageLimits:
    """Return the limits of a Claude. `is_vendor`: False for clouds and gateways, which accept less.

    A request may have 32 MB, and its other content needs space.
    """
    is_large = (abilities.context_tokens or SMALL_WINDOW) > SMALL_WINDOW
    return ImageLimits(
        each_bytes=10_000_000 if is_vendor else 5_000_000,
        most=600 if is_large else 100,
        all_bytes=24_000_000,
        many=20,
        side_max=SIDE_MAX,
    )


OPENAI_LIMITS: Final = ImageLimits(each_bytes=48_000_000, most=1_500, all_bytes=48_000_000)
"""A request may have 1,500 images and 512 MB, but only 50 MB of files."""
GEMINI_LIMITS: Final = ImageLimits(each_bytes=72_000_000, most=3_000, all_bytes=72_000_000)
"""A request may have 100 MB; 3,600 images, and 3,000 with PDF documents on Vertex AI."""
NO_LIMITS: Final = ImageLimits(each_bytes=1 << 62, most=1 << 62, all_bytes=1 << 62)
"""Limits of a server whose limits are unknown."""


class OmittedImages(NamedTuple):
    """Images omitted from a request because of the limits on all images together."""

    oldest: int = 0
    """Number of omitted images at the beginning, in conversation order."""
    is_many: bool = False
    """True if images with a side above `MANY_SIDE_MAX` are omitted."""


NONE_OMITTED: Final = OmittedImages()


class Images:
    """Tracker of one conversation's images, in order.

    `wanted` depends only on them, so that every run gets the same result.
    """

    def __init__(self, limits: ImageLimits, left: OmittedImages = NONE_OMITTED) -> None:
        self._limits, self._left = limits, left
        self._seen = 0
        self._kept: deque[tuple[int, int, bool]] = deque()
        """Position, size in bytes, and whether a side is long, of each image in the request."""
        self.wanted = NONE_OMITTED
        """Required omissions so far. If they differ from `left`, the conversation must be encoded
        again.
        """

    def fit(self, message: Message) -> Message:
        """Return the message with a line of text in place of each omitted image."""
        if not any(map(_may_show, message.parts)):
            return message
        parts = [self._fit_part(part) for part in message.parts]
        return message if parts == [*message.parts] else message.with_parts(parts)

    def _fit_part(self, part: Part) -> Part:
        if isinstance(part, ToolResult) and not isinstance(part.content, str):
            content = tuple(
                [
                    self._fit_image(inner) if isinstance(inner, MediaPart) else inner
                    for inner in part.content
                ]
            )
            return (
                part if content == part.content else msgspec.structs.replace(part, content=content)
            )
        return self._fit_image(part) if isinstance(part, MediaPart) else part

    def _fit_image(self, part: MediaPart) -> MediaPart | TextPart:
        if not part.is_image and part.media_type != PDF:
            return part
        place = self._seen
        is_long = (
            self._limits.many is not None and part.is_image and max(size_of(part)) > MANY_SIDE_MAX
        )
        self._seen += 1
        if why := self._limits.against(part):
            return _line(part, why)
        self._count(place, len(part.data or ""), is_long)
        if place < self._left.oldest:
            return _line(
                part,
                "there are more images and documents than fit into a request, and this is one of "
                "the oldest",
            )
        if self._left.is_many and is_long:
            return _line(
                part,
                (
                    f"with more than {self._limits.many} images, none may have a side of more than "
                    f"{MANY_SIDE_MAX:,} pixels: make a smaller copy"
                ),
            )
        return part

    def _count(self, place: int, size_bytes: int, is_long: bool) -> None:
        oldest, is_many = self.wanted
        if not (is_many and is_long):
            self._kept.append((place, size_bytes, is_long))
        many = self._limits.many
        if (
            many is not None
            and not is_many
            and len(self._kept) > many
            and any(long for _, _, long in self._kept)
        ):
            is_many = True
            self._kept = deque(one for one in self._kept if not one[2])
        if not self._fits(1):
            # down to half of the limits, so that the next requests begin with the same bytes
            while len(self._kept) > 1 and not self._fits(2):
                oldest = self._kept.popleft()[0] + 1
        self.wanted = OmittedImages(oldest, is_many)

    def _fits(self, part: int) -> bool:
        return (
            len(self._kept) <= self._limits.most // part
            and sum(size for _, size, _ in self._kept) <= self._limits.all_bytes // part
        )


def _line(image: MediaPart, why: str) -> TextPart:
    named = image.name or ("an image" if image.is_image else "a document")
    return TextPart(text=f"[{named} ({image.media_type}) is not shown: {why}]")


def _may_show(part: Part) -> bool:
    return isinstance(part, MediaPart) or (
        isinstance(part, ToolResult) and not isinstance(part.content, str)
    )


# ---------------------------------------------------------------- a whole conversation


def omitted_before(history: History, key: str) -> OmittedImages:
    """Return the images that earlier requests of the conversation had to omit."""
    known = history.memo.get(key)
    return known[0] if known and isinstance(known[0], OmittedImages) else NONE_OMITTED


def encoded_within(
    history: History,
    wire: str,
    limits: ImageLimits,
    make: Callable[[], E],
    encode: Callable[[E], Callable[[Message, bool], bytes]],
) -> tuple[E, bytearray]:
    """Return the encoder of a conversation, and its messages within `limits`. They are encoded
    again if there are more images now than a request may hold.

    `wire`: the name under which the history keeps the bytes. `make`: an encoder for a conversation
    from its beginning. `encode`: its function for one message.
    """
    key = f"{wire} images"
    left = omitted_before(history, key)
    while True:
        place = f"{wire} {left}" if left != NONE_OMITTED else wire
        kept = history.memo.get(place)
        if kept is None:
            kept = history.memo[place] = (make(), Images(limits, left))
        encoder, images = cast("tuple[E, Images]", kept)
        messages = history.encoded(place, _fitting(images, encode(encoder)))
        if images.wanted == left:
            return encoder, messages
        left = images.wanted
        history.memo[key] = (left,)
        note(history, TOO_MANY_IMAGES)


def _fitting(
    images: Images, encode: Callable[[Message, bool], bytes]
) -> Callable[[Message, bool], bytes]:
    def fit_and_encode(message: Message, settled: bool) -> bytes:
        return encode(message if message.role == "assistant" else images.fit(message), settled)

    return fit_and_encode


def with_notice(
    messages: Sequence[Message], deltas: AsyncGenerator[Delta, None]
) -> AsyncGenerator[Delta, None]:
    """Yield `deltas`, after notices about media that this request omits."""
    if isinstance(messages, History) and _NOTICES in messages.memo:
        return noted(notes_of(messages), deltas)
    return deltas


def note(history: History, text: str) -> None:
    """Add a notice to the response to the request that is being encoded."""
    history.memo[_NOTICES] = (*history.memo.get(_NOTICES, ()), text)


def notes_of(history: History) -> tuple[str, ...]:
    """Return and remove the notices."""
    return tuple(map(str, history.memo.pop(_NOTICES, ())))


def media_check(
    history: History, model_id: str, abilities: Abilities, settings: Settings
) -> MediaCheck:
    """Return the check of the media in a conversation."""
    is_lenient = settings.unsupported_media == "warn"
    return MediaCheck(model_id, abilities, is_lenient, partial(note, history))


async def noted(
    notes: Sequence[str], deltas: AsyncGenerator[Delta, None]
) -> AsyncGenerator[Delta, None]:
    """Yield `notes` as notices for people, then `deltas`."""
    for note in notes:
        yield ModelNotice(note)
    async with aclosing(deltas):
        async for delta in deltas:
            yield delta
