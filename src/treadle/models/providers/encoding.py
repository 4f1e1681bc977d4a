"""Shared encoding of requests: JSON that always encodes, valid ids, and replacement text for
content that cannot be sent.

Each wire builds its own bodies (request.py, messages.py). Entry points: `dumped`, `remembered`,
`with_theirs`, `identifier`, `arguments_of`.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import msgspec

from treadle._internal.json_text import is_deeper
from treadle.config.model_profile import Abilities
from treadle.errors import AgentError
from treadle.messages.history import History
from treadle.messages.message import (
    JsonText,
    MediaPart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)
from treadle.models.providers.surrogates import mended, mended_json
from treadle.types import Effort

T = TypeVar("T")

Fields: TypeAlias = dict[str, msgspec.Raw]
"""JSON object whose values are undecoded."""
Json: TypeAlias = dict[str, Any]
"""JSON object for a request body."""

HASH_CHARS = 8

_TEXTS = frozenset(
    {
        "application/json",
        "application/xml",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
    }
)
_EFFORT_UP_TO: tuple[tuple[int, Effort], ...] = (
    (4_000, "low"),
    (16_000, "medium"),
    (32_000, "high"),
)

_object = msgspec.json.Decoder(Fields)
_NOT_IN_IDENTIFIER = re.compile(r"[^a-zA-Z0-9_-]")


def dumped(value: object) -> bytes:
    """Encode as JSON. Raises TypeError or OverflowError for a value that JSON cannot represent."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_mended(value))


def _mended(value: object) -> object:
    if isinstance(value, str):
        return mended(value)
    if isinstance(value, dict):
        return {
            mended(str(name)): _mended(inner)
            for name, inner in cast("dict[object, object]", value).items()
        }
    if isinstance(value, list | tuple):
        return [_mended(inner) for inner in cast("list[object]", value)]
    return value


def raw(text: JsonText) -> msgspec.Raw:
    """Return JSON text as a raw value, unchanged except for lone surrogates."""
    try:
        return msgspec.Raw(text.encode())
    except UnicodeEncodeError:
        return msgspec.Raw(mended(text).encode())


def remembered(history: History, key: str, said: tuple[object, ...], make: Callable[[], T]) -> T:
    """Return the cached result of `make` for this conversation, and call it again only if `said`
    has changed.
    """
    before = history.memo.get(key)
    if before is not None and before[:-1] == said:
        return cast("T", before[-1])
    made = make()
    history.memo[key] = (*said, made)
    return made


def head(body: Json) -> bytes:
    """Encode the beginning of a body, to which more fields are appended.

    Raises AgentError(invalid) for a value that JSON cannot represent.
    """
    try:
        return dumped(body)[:-1]
    except (TypeError, OverflowError) as e:
        raise AgentError(
            "invalid", f"settings.extra, or a tool's schema, contains a value that is not JSON: {e}"
        ) from e


def with_extra(body: Json, extra: Json) -> Json:
    """Apply `settings.extra` to a body: objects are merged, other values are replaced."""
    merged = dict(body)
    for name, value in extra.items():
        ours = merged.get(name)
        merged[name] = (
            {**ours, **value} if isinstance(ours, dict) and isinstance(value, dict) else value
        )
    return merged


def effort_for(tokens: int) -> Effort:
    """Return the effort that corresponds to a thinking budget, for providers that take no
    number.
    """
    for most, effort in _EFFORT_UP_TO:
        if tokens <= most:
            return effort
    return "xhigh"


# ---------------------------------------------------------------- tools


def with_theirs(
    ours: list[Json],
    theirs: object,
    name_of: Callable[[Json], object] = lambda tool: tool.get("name"),
    join: Callable[[Json, Json], Json] = lambda a, b: a | b,
) -> list[Json]:
    """Combine our tool definitions with the `tools` of settings.extra: equal names are joined,
    others appended. Raises AgentError(invalid).
    """
    tools = [*ours]
    places = {name_of(tool): i for i, tool in enumerate(ours)}
    for tool in tools_in(theirs):
        if (i := places.get(name_of(tool))) is None:
            tools.append(tool)
        else:
            tools[i] = join(tools[i], tool)
    return tools


def tools_in(theirs: object) -> list[Json]:
    """Return the tools of settings.extra; None means none. Raises AgentError(invalid) unless it is
    a list of objects.
    """
    if theirs is None:
        return []
    if not isinstance(theirs, list | tuple) or not all(
        isinstance(tool, dict) for tool in cast("list[object]", theirs)
    ):
        raise AgentError(
            "invalid", f"settings.extra['tools'] must be a list of tool definitions, not {theirs!r}"
        )
    return [*cast("list[Json]", theirs)]


# ---------------------------------------------------------------- pieces of messages


def own_fields(part: TextPart | ReasoningPart | ToolCall | MediaPart, provider: str) -> Fields:
    """Return the fields that `provider` attached to this part, to be sent back. Data of other
    providers is excluded.
    """
    if part.provider != provider or part.provider_data is None:
        return {}
    try:
        return msgspec.json.decode(raw(part.provider_data), type=Fields)
    except (ValueError, RecursionError):  # written by other code
        return {}


def identifier(name: str, *, longest: int = 64) -> str:
    """Return an id or name of at most `longest` letters, digits, `_` and `-`, which every provider
    accepts.

    A history may contain anything else, from another provider or a model's mistake. Distinct names
    stay distinct.
    """
    if name and len(name) <= longest and not _NOT_IN_IDENTIFIER.search(name):
        return name
    kept = _NOT_IN_IDENTIFIER.sub("_", name)[: longest - HASH_CHARS - 1]
    return (
        f"{kept}_{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:HASH_CHARS]}"
    )


def arguments_of(text: JsonText) -> JsonText:
    """Return the model's own text if it is a JSON object of at most 200 levels, or else a JSON
    object that quotes it.
    """
    if not is_deeper(text):  # it depends on the version of Python how deep a text `is_object` reads
        if is_object(text or "{}"):
            return text or "{}"
        if is_object(mended_text := mended_json(text)):
            return mended_text
    return dumped({"INVALID_JSON": text}).decode()


def is_object(text: JsonText) -> bool:
    try:
        _object.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def wire_for(wire: str, abilities: Abilities) -> str:
    """Return the key under which a history caches the encoding for a model, which differs if it
    accepts no images.
    """
    return wire if abilities.images is not False else f"{wire}, without images"


def shown(message: Message, abilities: Abilities) -> Message:
    """Return the message in a form that the model accepts. Without image support, a line of text
    replaces each image, in tool results too.
    """
    if abilities.images is not False:
        return message
    parts = [_without_images(part) for part in message.parts]
    return message if parts == [*message.parts] else message.with_parts(parts)


def _without_images(part: Part) -> Part:
    if isinstance(part, ToolResult) and not isinstance(part.content, str):
        return msgspec.structs.replace(
            part, content=tuple([_described_image(inner) for inner in part.content])
        )
    return _described_image(part) if isinstance(part, MediaPart) else part


def _described_image(part: TextPart | MediaPart) -> TextPart | MediaPart:
    if isinstance(part, MediaPart) and part.is_image:
        return TextPart(text=described(part))
    return part


UNSENT = "leave it out, convert it, or choose another model"
"""Advice about media of a type that an API does not accept."""


class MediaCheck(NamedTuple):
    """Check of the media in the messages of one request."""

    model_id: str
    abilities: Abilities
    is_lenient: bool
    """True: media in a prompt are replaced, with a warning, instead of raising an error."""
    warn: Callable[[str], None]

    def wrap(
        self, encode: Callable[[Message, bool], bytes], unsent: Callable[[MediaPart], str]
    ) -> Callable[[Message, bool], bytes]:
        """Wrap `encode` to raise AgentError(invalid) for media in the run's own prompt that the
        model does not accept, or to warn of them.

        Media in tool results cause a warning. In earlier runs with other models, a line of text
        replaces them silently. `unsent`: returns advice about a part that the API does not accept;
        "" for others.
        """

        def check_and_encode(message: Message, settled: bool) -> bytes:
            if not settled and message.role != "assistant":
                for part in message.parts:
                    if isinstance(part, MediaPart) and message.role == "user":
                        self._check(part, unsent)
                    elif isinstance(part, ToolResult) and not isinstance(part.content, str):
                        self._check_result(part, unsent)
            return encode(message, settled)

        return check_and_encode

    def _check(self, part: MediaPart, unsent: Callable[[MediaPart], str]) -> None:
        if advice := self._advice(part, unsent):
            if not self.is_lenient:
                raise AgentError(
                    "invalid",
                    f"{_named(part)} cannot be sent to the model {self.model_id!r}: {advice}. With "
                    "unsupported_media='warn', the model sees a line of text instead",
                )
            self.warn(
                f"{_named(part)} is not sent to the model {self.model_id!r}, which sees a line of "
                f"text instead: {advice}"
            )

    def _check_result(self, result: ToolResult, unsent: Callable[[MediaPart], str]) -> None:
        for part in result.content:
            if isinstance(part, MediaPart) and (advice := self._advice(part, unsent)):
                self.warn(
                    f"{_named(part)} in the result of {result.name} is not sent to the model "
                    f"{self.model_id!r}, which sees a line of text instead: {advice}"
                )

    def _advice(self, part: MediaPart, unsent: Callable[[MediaPart], str]) -> str:
        is_taken = self.abilities.images is not False or not part.is_image
        return unsent(part) if is_taken else UNSENT


def _named(part: MediaPart) -> str:
    kind = part.media_type
    return f"{part.name[:100]!r} ({kind})" if part.name else f"a part of type {kind}"


def text_in(part: MediaPart) -> str | None:
    """Return the content of a text file; None for other files and invalid data."""
    if part.data is None or not (part.media_type.startswith("text/") or part.media_type in _TEXTS):
        return None
    try:
        return base64.b64decode(part.data).decode("utf-8", "replace")
    except ValueError:
        return None


def described(part: MediaPart) -> str:
    """Return the text that replaces a file that a provider does not accept."""
    where = f" at {part.url}" if part.url is not None else ""
    return (
        f"[{part.name or 'a file'} ({part.media_type}){where}: not shown, since it cannot be "
        "sent to this model]"
    )
