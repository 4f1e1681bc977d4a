"""Parameters of a function, read at decoration without evaluating its annotations, and which of
them is the context.

schema.py makes the JSON Schema, decorator.py calls the function. Entry points: `Signature.of`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import UnionType
from typing import Any, Final, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from treadle._internal.signatures import signature_of
from treadle.errors import AgentError
from treadle.tools.tool import ToolContext

AnyFunction = Callable[..., Any]

_NAME: Final = re.compile(r"\s*(?:[\w.]*\bOptional\[)?\s*([A-Za-z_][\w.]*)")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*")
_MISSING: Final = object()


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """Position of the ToolContext among a function's parameters."""

    name: str
    first: bool
    """True: it is the first parameter, passed by position. False: passed by keyword."""


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters for the model, and how to resolve their types on first use."""

    label: str
    """`module.qualname`, for error messages."""
    parameters: tuple[inspect.Parameter, ...]
    """All parameters except the context. Each accepts a keyword argument."""
    context: Context | None
    returns_nothing: bool
    """True if the return annotation is None or missing. A result of None then means "done" rather
    than a value.
    """
    namespaces: tuple[Mapping[str, object], Mapping[str, object]]
    """Globals, and the local names that the annotations mention."""

    @classmethod
    def of(cls, function: AnyFunction, scope: Mapping[str, object] | None = None) -> Signature:
        """Read the signature of a function. `scope`: local names around the function; those that
        its annotations mention are kept.

        Raises AgentError(invalid) for a parameter that no model can fill in.
        """
        label = label_of(function)
        signature = _inspect(function, label)
        namespaces = (_globals_of(function), _mentioned(signature, scope or {}))
        context = _context(signature.parameters.values(), namespaces, label)
        not_asked = _fixed_by_partial(function) | frozenset([context.name] if context else ())
        wanted = [p for p in signature.parameters.values() if p.name not in not_asked]
        for parameter in wanted:
            _refuse_unnamed(parameter, label)
        return cls(
            label=label,
            parameters=tuple(wanted),
            context=context,
            returns_nothing=signature.return_annotation
            in (None, "None", type(None), inspect.Signature.empty),
            namespaces=namespaces,
        )

    def hints(self) -> dict[str, Any]:
        """Return the evaluated annotation of each parameter by name; `Any` if it has none.

        Raises AgentError(invalid), which names the parameter, if an annotation cannot be evaluated.
        """
        return {p.name: self._hint(p) for p in self.parameters}

    def _hint(self, parameter: inspect.Parameter) -> Any:
        if parameter.annotation is inspect.Parameter.empty:
            return Any

        def stub() -> None: ...

        stub.__annotations__ = {parameter.name: parameter.annotation}
        global_names, local_names = self.namespaces
        try:
            # one at a time: the context's annotation may name a type that only type checkers see
            return get_type_hints(stub, dict(global_names), dict(local_names), include_extras=True)[
                parameter.name
            ]
        except Exception as e:
            annotation = _text_of(parameter.annotation) or parameter.annotation
            raise AgentError(
                "invalid",
                f"{self.label}: the annotation {annotation!r} of parameter "
                f"{parameter.name!r} cannot be evaluated ({type(e).__name__}: {e}): "
                "import it at run time, not only under TYPE_CHECKING, or define it before the "
                "function's first use",
            ) from e


def label_of(function: AnyFunction) -> str:
    """Return `module.qualname`; for a partial, of the function that it wraps."""
    inner = _inner(function)
    named: Any = inner if hasattr(inner, "__qualname__") else cast("object", type(inner))
    return f"{getattr(named, '__module__', 'builtins')}.{named.__qualname__}"


def context_of(function: AnyFunction) -> Context | None:
    """Return the context parameter of a function whose schema is given separately, or None. Its
    other parameters are not checked.
    """
    try:
        signature = _inspect(function, label_of(function))
    except AgentError:
        return None
    return _context(signature.parameters.values(), (_globals_of(function), {}), label_of(function))


def _inspect(function: AnyFunction, label: str) -> inspect.Signature:
    try:
        return signature_of(function)
    except (TypeError, ValueError) as e:
        raise AgentError(
            "invalid",
            (
                f"the signature of {label} cannot be read ({e}): wrap it in a function with "
                "named, annotated parameters"
            ),
        ) from e


def docstring_of(function: AnyFunction) -> str | None:
    """Return the docstring: for a callable object, that of its `__call__`; for a partial, that of
    the function that it wraps.
    """
    inner = _inner(function)
    return inner.__doc__ if inspect.isroutine(inner) else type(inner).__call__.__doc__


def _mentioned(signature: inspect.Signature, scope: Mapping[str, object]) -> dict[str, object]:
    words = {
        word
        for p in signature.parameters.values()
        if isinstance(p.annotation, str)
        for word in _IDENTIFIER.findall(p.annotation)
    }
    return {word: scope[word] for word in words if word in scope}


def _inner(function: object) -> Any:
    """Return the function that partials and decorators wrap."""
    while isinstance(function, partial):
        function = cast("partial[object]", function).func
    return inspect.unwrap(cast("AnyFunction", function))


def _fixed_by_partial(function: AnyFunction) -> frozenset[str]:
    """Return the names of parameters that a partial fixes, which the model does not see."""
    return (
        frozenset(cast("partial[object]", function).keywords)
        if isinstance(function, partial)
        else frozenset()
    )


def _globals_of(function: AnyFunction) -> Mapping[str, object]:
    inner = _inner(function)
    if not inspect.isroutine(inner):
        inner = getattr(cast("type[object]", type(inner)), "__call__", inner)  # noqa: B004  for its annotations, not to test whether it can be called
    return getattr(getattr(inner, "__func__", inner), "__globals__", {})


def _refuse_unnamed(parameter: inspect.Parameter, label: str) -> None:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(
        parameter.kind, ""
    )
    if stars:
        raise AgentError(
            "invalid",
            (
                f"{label}: the parameter {stars + parameter.name!r} cannot be described to a "
                "model: name each parameter"
            ),
        )
    if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        raise AgentError(
            "invalid",
            (
                f"{label}: the parameter {parameter.name!r} is positional-only, and arguments are "
                "passed by name: remove the '/'"
            ),
        )


# ---------------------------------------------------------------- the context parameter

_Namespaces = tuple[Mapping[str, object], Mapping[str, object]]


def _context(
    parameters: Iterable[inspect.Parameter], namespaces: _Namespaces, label: str
) -> Context | None:
    found: Context | None = None
    for i, parameter in enumerate(parameters):
        if not _is_context(parameter, namespaces):
            continue
        if found is not None:
            raise AgentError(
                "invalid",
                f"{label} takes two contexts, {found.name!r} and {parameter.name!r}: remove one",
            )
        if i > 0 and parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise AgentError(
                "invalid",
                (
                    f"{label}: the context {parameter.name!r} is positional-only and not the first "
                    "parameter: put it first"
                ),
            )
        found = Context(
            name=parameter.name,
            first=i == 0 and parameter.kind is not inspect.Parameter.KEYWORD_ONLY,
        )
    return found


def _is_context(parameter: inspect.Parameter, namespaces: _Namespaces) -> bool:
    annotation = parameter.annotation
    if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        return False
    if annotation is inspect.Parameter.empty:
        return parameter.name == "ctx"
    text = _text_of(annotation)
    if text is not None:
        return any(_text_names_context(piece, namespaces) for piece in text.split("|"))
    if get_origin(annotation) in (Union, UnionType):
        return any(_is_context_type(part) for part in get_args(annotation))
    return _is_context_type(annotation)


def _text_of(annotation: object) -> str | None:
    """Return an annotation that was not evaluated; None for any other."""
    return (
        annotation if isinstance(annotation, str) else getattr(annotation, "__forward_arg__", None)
    )


def _is_context_type(annotation: object) -> bool:
    return (get_origin(annotation) or annotation) is ToolContext


def _text_names_context(text: str, namespaces: _Namespaces) -> bool:
    match = _NAME.match(text)
    if match is None:
        return False
    path = match[1].split(".")
    found = namespaces[1].get(path[0], namespaces[0].get(path[0], _MISSING))
    for attribute in path[1:]:
        found = getattr(found, attribute, _MISSING)
    # a type that is imported only for type checkers is known only by its name
    return path[-1] == "ToolContext" if found is _MISSING else _is_context_type(found)
