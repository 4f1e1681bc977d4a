"""An answer of any family: made when it is first needed, read tolerantly and exactly, and told in
words what is wrong.

What a family does is its `Shape`. Entry: `StructuredAnswer`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, cast

import msgspec

from treadle._internal.json_text import JsonText, encode_json
from treadle.tools.schemas.problems import SchemaProblem, told, unknown
from treadle.tools.structured_output.beginning import beginning
from treadle.tools.structured_output.contract import AnswerType, OutOf, Unfit
from treadle.tools.structured_output.roots import RESULT, rooted, unwrapped
from treadle.tools.structured_output.shape import Shape
from treadle.tools.structured_output.words import NotJson, bare, check_sound, find

MAX_UNFIT_CHARS: Final = 1500
_ASKED_NAMES: Final = 10
_first_use: Final = threading.RLock()
"""Invariant: a shape is made once, also where two threads ask for it at the same time."""


class _Made(msgspec.Struct, frozen=True):
    shape: Shape
    schema: dict[str, object]
    """Schema for providers."""
    wrapped: bool
    """True if the schema asks for `{"result": value}`."""


class StructuredAnswer(Generic[OutOf]):
    """An `AnswerType`. Reading is safe in any thread."""

    def __init__(self, make: Callable[[], Shape]) -> None:
        """`make` raises AgentError(invalid) where there can be no such answer; so does whatever
        needs it.
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
        """The value; a code fence, a byte order mark and words around one object are looked past.

        Raises Unfit, and AgentError as `schema` does.
        """
        made, body = self._made, bare(text)
        try:
            return self._value(made, body)
        except Exception as e:  # noqa: BLE001  the code of a type is anybody's, and what it raises is about the model's words
            error = e
        try:
            found, document = find(body)
        except NotJson as e:
            raise _unfit(
                f"Your answer is no JSON that can be read: {e}.",
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
            f"Mend it, and answer again with {_asked(made.schema)}, and no other text.",
        ) from error

    def again(self, value: object) -> OutOf:
        """The value out of its plain data; the plain data itself where it does not fit any more."""
        try:
            return cast("OutOf", self._made.shape.again(value))
        except Exception:  # noqa: BLE001  as in read
            return cast("OutOf", value)

    def encoded(self, value: object) -> JsonText:
        """The value itself, also where the model's words wrapped it.

        What JSON has no word for is told by its `str`.
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
    """The type's own code said no."""
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
