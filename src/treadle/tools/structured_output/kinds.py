"""Families of output types, and rejection of values that are not types, checked when an agent is
defined and without imports.

Errors that only describing a type can detect are raised on first use. Entry points: `answer_type`.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from types import FrameType, UnionType
from typing import Any, Final, Literal, TypeVar, cast, get_args, get_origin, overload

import msgspec
import typing_extensions

from treadle.errors import AgentError
from treadle.tools.structured_output.answer import StructuredAnswer
from treadle.tools.structured_output.contract import AnswerType
from treadle.tools.structured_output.shape import Shape

Out = TypeVar("Out")

_HINT: Final = (
    "make it a dataclass, a pydantic model, a TypedDict or a msgspec.Struct, with fields that JSON "
    "can represent"
)
_OLD_TYPED_DICT: Final = (
    "before Python 3.12, import TypedDict from typing_extensions: typing's own forgets which keys "
    "are required"
)


@overload
def answer_type(kind: None) -> None: ...
@overload
def answer_type(kind: Mapping[str, object]) -> AnswerType[object]: ...
@overload
def answer_type(kind: typing_extensions.TypeForm[Out]) -> AnswerType[Out] | None: ...
def answer_type(kind: object) -> AnswerType[Any] | None:
    """Return the typed answer for this type or JSON Schema; None for `str` and None, whose answer
    is the text of the model.

    Raises AgentError(invalid) for a value that is obviously not a type, and for a schema that
    refers to a remote one. The type is described, and libraries are imported, on first use of the
    answer's `schema`, which raises AgentError(invalid) for a type that JSON cannot describe.
    """
    if kind is None or kind is str:
        return None
    if isinstance(kind, Mapping):
        return _given(cast("Mapping[str, object]", kind))
    if fault := next(_faults(kind), None):
        raise AgentError("invalid", fault)
    scope = _scope(kind)
    return StructuredAnswer(lambda: _described(kind, scope))


def _given(schema: Mapping[str, object]) -> AnswerType[object]:
    from treadle.tools.structured_output.given import Given  # noqa: PLC0415  only for agents with such an output

    return StructuredAnswer(Given(schema).ready)


def _described(kind: object, scope: Mapping[str, object]) -> Shape:
    """Describe the type by its own family, or by the other if that fails: a dataclass can contain
    Structs, which pydantic does not know.
    """
    first: Exception | None = None
    for family in (_structs, _typed) if _msgspecs_own(kind) else (_typed, _structs):
        try:
            return family(kind, scope)
        except Exception as e:  # noqa: BLE001  evaluating annotations runs arbitrary code, and the caller has to fix it
            first = first or e
            if getattr(e, "code", None) == "typed-dict-version":  # msgspec would accept it silently
                break
    assert first is not None
    raise AgentError(
        "invalid", f"output={_named(kind)} cannot be described as JSON ({_reason(first)}): {_HINT}"
    ) from first


def _typed(kind: object, scope: Mapping[str, object]) -> Shape:
    from treadle.tools.structured_output.typed import Typed  # noqa: PLC0415  imports pydantic, which takes 90 ms; only for agents with such an output

    return Typed(kind, scope)


def _structs(kind: object, scope: Mapping[str, object]) -> Shape:
    from treadle.tools.structured_output.structs import Structs  # noqa: PLC0415  only for agents with such an output

    return Structs(kind)


def _msgspecs_own(kind: object) -> bool:
    return any(
        hasattr(part, "__struct_config__") or hasattr(part, "__attrs_attrs__")
        for part in _parts(kind)
    )


def _parts(kind: object) -> Iterator[Any]:
    """Yield the classes of which an annotation consists."""
    origin = get_origin(kind)
    yield kind if origin is None else origin
    if origin is not None and origin is not Literal:
        for inner in get_args(kind)[: 1 if origin is typing.Annotated else None]:
            yield from _parts(inner)


# ---------------------------------------------------------------- values that are not output types


def _faults(kind: object) -> Iterator[str]:
    """Yield the errors that are detectable without describing the type."""
    for part in _parts(kind):
        if isinstance(part, type):
            if _is_plain(part):
                yield (
                    f"output={_named(kind)}: the fields of the class {part.__qualname__} are "
                    f"unknown: {_HINT}"
                )
            elif sys.version_info < (3, 12) and typing.is_typeddict(part):
                yield f"output={_named(kind)}: {_OLD_TYPED_DICT}"
        elif part is kind and not _is_form(kind):
            yield f"output= is {_instead(kind)}"


def _is_plain(kind: Any) -> bool:
    """Return True for a class whose fields neither pydantic nor msgspec can determine."""
    top = kind.__module__.partition(".")[0]
    if top in sys.stdlib_module_names and top != "__main__":
        return False
    known = (
        issubclass(kind, (Enum, msgspec.Struct))
        or dataclasses.is_dataclass(kind)
        or typing_extensions.is_typeddict(kind)
        or hasattr(kind, "_fields")
    )
    marks = (
        "__get_pydantic_core_schema__",
        "__pydantic_core_schema__",
        "__attrs_attrs__",
        "__get_validators__",
    )
    return not known and not any(hasattr(kind, mark) for mark in marks)


def _is_form(kind: object) -> bool:
    """Return True for typing constructs: unions, Any, aliases, NewType."""
    if isinstance(kind, TypeVar):
        return False
    made_of = type(kind)
    return (
        kind is Any
        or isinstance(kind, UnionType)
        or made_of.__module__ in ("typing", "typing_extensions")
        or hasattr(kind, "__supertype__")
    )


def _instead(kind: object) -> str:
    """Describe only the kind of the rejected value, because the value itself may be a secret."""
    if isinstance(kind, str):
        return "a text: pass the type itself, not its name"
    if isinstance(kind, (list, tuple)):
        return "a list: for many values, pass list[…]; for one of several types, A | B"
    if inspect.isroutine(kind):
        return "a function: pass the class of its argument or result"
    if isinstance(kind, TypeVar):
        return "a type variable: pass a class instead"
    return f"a value of the type {type(kind).__name__}: pass a class, or a JSON Schema as a dict"


def _named(kind: object) -> str:
    """Return a type as it is written in code."""
    return (
        kind.__qualname__
        if isinstance(kind, type) and get_origin(kind) is None
        else inspect.formatannotation(kind)
    )


def _reason(error: Exception) -> str:
    if getattr(error, "code", None) == "typed-dict-version":
        return _OLD_TYPED_DICT
    said = f"{error}".partition("\n")[0].partition(". ")[0]
    return f"{type(error).__name__}: {said}"[:300]


# ---------------------------------------------------------------- classes inside functions


def _scope(kind: object) -> dict[str, object]:
    """Return the local types of the function in which a class was defined. The annotations of the
    class may name them, and no module contains them.
    """
    homes = {
        part.__qualname__.rpartition(".<locals>.")[0]
        for part in _parts(kind)
        if isinstance(part, type) and ".<locals>." in part.__qualname__
    }
    found: dict[str, object] = {}
    for frame in _frames() if homes else ():
        if frame.f_code.co_qualname in homes:
            found = {
                **{
                    name: value
                    for name, value in frame.f_locals.items()
                    if isinstance(value, type) or get_origin(value)
                },
                **found,
            }
    return found


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  the only way to read a caller's names
    while frame is not None:
        yield frame
        frame = frame.f_back
