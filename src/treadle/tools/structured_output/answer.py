"""Typed answers for every family of types, built on first use. Text around the JSON is tolerated,
the value is validated strictly, and problems are described for the model.

`Shape` is the part that differs between families. Entry point: `StructuredAnswer`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, cast

import msgspec

from treadle._internal.json_text import JsonText, encode_json
from treadle.tools.schemas.problems import SchemaProblem, told, unknown
from treadle.tools.structured_output.beginning import beginning, shortened
from treadle.tools.structured_output.contract import AnswerType, OutOf, Unfit
from treadle.tools.structured_output.roots import RESULT, rooted, unwrapped
from treadle.tools.structured_output.shape import Shape
from treadle.tools.structured_output.words import NotJson, bare, check_sound, find

MAX_UNFIT_CHARS: Final = 1500
_ASKED_NAMES: Final = 10
_first_use: Final = threading.RLock()
"""Invariant: each shape is built once, even if two threads request it at the same time."""


class _Made(msgspec.Struct, frozen=True):
    shape: Shape
    schema: dict[str, object]
    """Schema for providers."""
    wrapped: bool
    """True if the schema asks for `{"result": value}`."""


class StructuredAnswer(Generic[OutOf]):
    """`AnswerType` of any family. Thread-safe."""

    def __init__(self, make: Callable[[], Shape]) -> None:
        """Create a structured answer. `make` builds the shape on first use. It raises
        AgentError(invalid) if the type has no schema, and so does every method that needs the
        shape.
        """
        self._make: Final = make
        self._known: _Made | None = None

    @property
    def schema(self) -> dict[str, object]:
        """JSON Schema of an object; any other value is wrapped as its `result`. Raises
        AgentError(invalid) for a type that cannot be described.
        """
        return self._made.schema

    def read(self, text: JsonText) -> OutOf:
        """Return the value. Ignores a code fence, a byte order mark, and text around one object.

        Raises Unfit, and AgentError as `schema` does.
        """
        made, body = self._made, bare(text)
        try:
            return self._value(made, body)
        except Exception as e:  # noqa: BLE001  a type runs arbitrary code, and its exceptions are about the model's text
            error = e
        try:
            found, document = find(body)
        except NotJson as e:
            raise _unfit(
                f"Your answer is not valid JSON: {e}.",
                [],
                f"Answer again with {_asked(made.schema)}, and no other text.",
            ) from error
        if found != body:
            try:
                return self._value(made, found)
            except Exception as e:  # noqa: BLE001  as above
                error = e
        lines = told(_problems(made, found, document, error), "the answer", MAX_UNFIT_CHARS - 300)
        raise _unfit(
            "Your answer does not fit its schema:",
            lines,
            f"Correct it, and answer again with {_asked(made.schema)}, and no other text.",
        ) from error

    def again(self, value: object) -> OutOf:
        """Rebuild the value from plain data. Returns the plain data if it no longer fits the
        type.
        """
        try:
            return cast("OutOf", self._made.shape.again(value))
        except Exception:  # noqa: BLE001  as in read
            return cast("OutOf", value)

    def encoded(self, value: object) -> JsonText:
        """Encode the value, without the `result` wrapper.

        Values that JSON cannot express are encoded as their `str`.
        """
        try:
            return self._made.shape.encoded(value)
        except Exception:  # noqa: BLE001  as in read
            return json.dumps(
                json.loads(encode_json(msgspec.to_builtins(value, enc_hook=str, str_keys=True)))
            )

    def partial(self, text: str) -> object | None:
        """Parse an incomplete answer into plain data, without validation. Never raises."""
        value = beginning(text)
        if not self._made.wrapped or not isinstance(value, dict):
            return value
        fields = cast("dict[str, object]", value)
        return fields.get(RESULT) if not fields or RESULT in fields else fields

    def so_far(self, text: str) -> OutOf | None:
        """Return the longest valid prefix of a text, without trailing elements that are incomplete;
        None if there is none.

        Validates as `read` does, at most once for each level of nesting. Never raises.
        """
        plain = self.partial(text)
        for value in () if plain is None else (plain, *shortened(plain)):
            try:
                said = json.dumps(value)
                check_sound(said)
                return cast("OutOf", self._made.shape.read(said))
            except Exception:  # noqa: BLE001  as in read
                continue
        return None

    @property
    def _made(self) -> _Made:
        if self._known is None:
            with _first_use:
                if self._known is None:
                    shape = self._make()
                    self._known = _Made(shape, *rooted(shape.schema))
        return self._known

    def _value(self, made: _Made, text: JsonText) -> OutOf:
        check_sound(text)
        return cast("OutOf", made.shape.read(unwrapped(text) if made.wrapped else text))


def _problems(
    made: _Made, text: JsonText, document: object, error: Exception
) -> Sequence[SchemaProblem]:
    fields: Mapping[str, object] = {}
    if made.wrapped and isinstance(document, dict):
        fields = cast("dict[str, object]", document)
    if RESULT not in fields:
        return made.shape.problems(cast("object", document), error) or [_exploded(error)]
    if more := [unknown((name,), made.schema, "field") for name in fields if name != RESULT]:
        return more
    inner = made.shape.problems(fields[RESULT], error) or [_exploded(error)]
    return [SchemaProblem((RESULT, *problem.path), problem.text) for problem in inner]


def _exploded(error: Exception) -> SchemaProblem:
    """Return the problem for an exception that the type's own code raised."""
    return SchemaProblem((), f"{error}" or type(error).__name__)


def _asked(schema: Mapping[str, Any]) -> str:
    names = list(schema.get("properties", {}))
    fields = ", ".join(
        f"{json.dumps(name, ensure_ascii=False)}: …" for name in names[:_ASKED_NAMES]
    )[:200]
    return (
        f"the whole JSON object {{{fields}{', …' if len(names) > _ASKED_NAMES else ''}}}"
        if fields
        else "one whole JSON object"
    )


def _unfit(first: str, lines: Sequence[str], last: str) -> Unfit:
    text = "\n".join([first, *lines, last])
    return Unfit(text if len(text) <= MAX_UNFIT_CHARS else text[: MAX_UNFIT_CHARS - 1] + "…")


_: type[AnswerType[Any]] = StructuredAnswer[Any]
