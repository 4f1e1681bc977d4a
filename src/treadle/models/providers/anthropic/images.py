"""Limits of the API on the images of one request: the size of each, their number, and which are
omitted beyond that.

The loop omits images that the API rejects anyway. Entry points: `Images`, `ImageLimits`. Source:
platform.claude.com, "Vision", section "Image limits", and "Request size limits", read 2026-11-22.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import msgspec

from treadle.config.model_profile import Abilities
from treadle.errors import AgentError
from treadle.messages.images import SIDE_MAX, size_of
from treadle.messages.message import MediaPart, Message, Part, TextPart, ToolResult

MANY = 20
"""Number of images in a request above which no side may exceed `MANY_SIDE_MAX`."""
MANY_SIDE_MAX = 2_000
ALL_BYTES_MAX = 24_000_000
"""Maximum base64 size of all images. A request may have 32 MB, and the rest needs space."""
SMALL_WINDOW = 200_000
"""Context window up to which a model accepts 100 images (also if unknown); others accept 600."""


class ImageLimits(NamedTuple):
    each_bytes: int
    """Maximum base64 size of one image, in bytes."""
    most: int
    """Maximum number of images in a request."""

    @classmethod
    def of(cls, abilities: Abilities, *, is_vendor: bool) -> ImageLimits:
        """Return the limits of a model. `is_vendor`: False for clouds and gateways, which accept
        less.
        """
        is_large = (abilities.context_tokens or SMALL_WINDOW) > SMALL_WINDOW
        return cls(10_000_000 if is_vendor else 5_000_000, 600 if is_large else 100)

    def against(self, image: MediaPart) -> str:
        """Return why the API would reject this image in any request; "" if it would not, or if that
        is unknown.
        """
        if len(image.data or "") > self.each_bytes:
            return (
                f"it has {len(image.data or ''):,} bytes in base64, and {self.each_bytes:,} are "
                "the most"
            )
        width, height = size_of(image)
        return (
            f"it has {width:,} x {height:,} pixels, and {SIDE_MAX:,} are the most for a side"
            if max(width, height) > SIDE_MAX
            else ""
        )

    def check(self, image: MediaPart) -> None:
        """Raises AgentError(invalid) for an image in a prompt that the API would reject."""
        if image.is_image and (why := self.against(image)):
            raise AgentError(
                "invalid",
                (
                    f"{image.name or 'an image of the prompt'} cannot be sent to the model: {why}. "
                    "Scale it down"
                ),
            )


class OmittedImages(NamedTuple):
    """Images omitted from a request because of the limits on all images together."""

    oldest: int = 0
    """Number of omitted images at the beginning, in conversation order."""
    is_many: bool = False
    """True if images with a side above `MANY_SIDE_MAX` are omitted."""


class Images:
    """Tracks the images of one conversation in order.

    `wanted` depends only on them, so that every run gets the same result.
    """

    def __init__(self, limits: ImageLimits, left: OmittedImages = OmittedImages()) -> None:  # noqa: B008  an immutable value
        self._limits, self._left = limits, left
        self._seen = 0
        self._kept: deque[tuple[int, int, bool]] = deque()
        """Position, size in bytes, and whether a side is long, of each image in the request."""
        self.wanted = OmittedImages()
        """Required omissions so far. If they differ from `left`, the conversation must be encoded
        again.
        """

    def fit(self, message: Message) -> Message:
        """Return the message with a line of text in place of each omitted image."""
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
        if not part.is_image:
            return part
        place, is_long = self._seen, max(size_of(part)) > MANY_SIDE_MAX
        self._seen += 1
        if why := self._limits.against(part):
            return _line(part, why)
        self._count(place, len(part.data or ""), is_long)
        if place < self._left.oldest:
            return _line(
                part, "there are more images than fit into a request, and this is one of the oldest"
            )
        if self._left.is_many and is_long:
            return _line(
                part,
                (
                    f"with more than {MANY} images, none may have a side of more than "
                    f"{MANY_SIDE_MAX:,} pixels: make a smaller copy"
                ),
            )
        return part

    def _count(self, place: int, size_bytes: int, is_long: bool) -> None:
        oldest, is_many = self.wanted
        if not (is_many and is_long):
            self._kept.append((place, size_bytes, is_long))
        if not is_many and len(self._kept) > MANY and any(long for _, _, long in self._kept):
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
            and sum(size for _, size, _ in self._kept) <= ALL_BYTES_MAX // part
        )


def _line(image: MediaPart, why: str) -> TextPart:
    return TextPart(text=f"[{image.name or 'an image'} ({image.media_type}) is not shown: {why}]")
