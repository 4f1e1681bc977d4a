"""Validation of hooks as soon as they are passed in. Otherwise, a hook with a misspelt point would
never be called, and one with a wrong signature would fail only during a run.

Entry point: `checked_hooks`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, cast

from treadle._internal.signatures import signature_of
from treadle.errors import AgentError
from treadle.events.hooks.hook import Hook

POINTS = tuple(
    name for name, value in vars(Hook).items() if callable(value) and not name.startswith("_")
)
_LIKE_A_POINT = re.compile(r"(?i:before|after|on)(?:_|(?=[A-Z]))")
_SAME = 0.8
"""Minimum difflib similarity of names without underscores: `beforetool` matches `before_tool`, and
`close` matches no point.
"""


def checked_hooks(hooks: object) -> tuple[Hook[Any], ...]:
    """Return the hooks as a tuple. Raises AgentError(invalid) for an object that is not a hook, and
    for a method that is misspelt or has the wrong signature.
    """
    if not isinstance(hooks, list | tuple) or not all(
        isinstance(hook, Hook) for hook in cast("Sequence[object]", hooks)
    ):
        raise AgentError(
            "invalid", "hooks= takes a list of Hook objects, like hooks=[Audit('audit.jsonl')]"
        )
    found = tuple(cast("Sequence[Hook[Any]]", hooks))
    for hook in found:
        if (wrong := next(_wrong(hook), None)) is not None:
            raise AgentError("invalid", wrong)
    return found


def _wrong(hook: Hook[Any]) -> Iterator[str]:
    name = type(hook).__name__
    for method in _misspelt(hook):
        yield (
            f"the hook {name} has no method {method!r}: write {_signatures(method)}, or begin the "
            "name with an underscore if it is not a hook method"
        )
    if (unknown := _not_points(hook.observes)) is not None:
        yield (
            f"the hook {name} observes {unknown!r}, which is not a point: write a tuple of names, "
            'like observes = ("after_model",)'
        )
    own = getattr(hook, "__dict__", {})
    for point in POINTS:
        if point in own:
            yield (
                f"the hook {name}.{point} is set on the object, where it is never called: define "
                f"{_signature(point)} in the class"
            )
        elif (
            fault := _fault(point, inspect.getattr_static(type(hook), point), getattr(hook, point))
        ) is not None:
            yield f"the hook {name}.{point} {fault}: write {_signature(point)}"


def _not_points(observed: object) -> object:
    """Return the first member that is not the name of a point, or the value itself if it is not a
    collection; None if all are.
    """
    if isinstance(observed, str) or not isinstance(observed, Collection):
        return observed
    names = cast("Collection[object]", observed)
    return next((name for name in names if name not in POINTS), None)


def _fault(point: str, written: object, bound: object) -> str | None:
    """Return the reason why a method cannot be called as this point; None if it can."""
    plain = point == "on_event"
    if not callable(bound) or isinstance(written, property):
        return "is not a method"
    if plain and any(
        check(bound)
        for check in (
            inspect.iscoroutinefunction,
            inspect.isgeneratorfunction,
            inspect.isasyncgenfunction,
        )
    ):
        return "must be a plain `def`, since it is called in the event loop"
    if not plain and not inspect.iscoroutinefunction(bound):
        return "must be `async def`"
    try:
        signature = signature_of(bound)
    except (TypeError, ValueError):  # a C callable, whose signature is unknown
        return None
    told = inspect.signature(getattr(Hook(), point)).parameters
    try:
        signature.bind(*told)
    except TypeError:
        return (
            f"takes {', '.join(signature.parameters) or 'nothing'}, and is called with "
            f"{', '.join(told)}"
        )
    return None


def _misspelt(hook: Hook[Any]) -> Iterator[str]:
    """Yield names of public methods that resemble a point but are not one, of the class, its bases
    and the object.
    """
    spaces = [vars(kind) for kind in type(hook).__mro__ if kind not in Hook.__mro__]
    for space in (*spaces, getattr(hook, "__dict__", {})):
        for name, value in list(space.items()):
            if name.startswith("_") or name in POINTS or not _is_method(value):
                continue
            if _LIKE_A_POINT.match(name) or _meant(name):
                yield name


def _is_method(value: object) -> bool:
    """Return True for a method, also one that becomes a method on access: `staticmethod`,
    `functools.partialmethod`.
    """
    return callable(value) or (hasattr(value, "__get__") and not isinstance(value, property))


def _meant(name: str) -> str | None:
    import difflib  # noqa: PLC0415  needed only for hooks with further methods

    folded = {point.replace("_", ""): point for point in POINTS}
    near = difflib.get_close_matches(
        name.replace("_", "").casefold()[:64], folded, n=1, cutoff=_SAME
    )
    return folded[near[0]] if near else None


def _signatures(name: str) -> str:
    meant = _meant(name)
    return _signature(meant) if meant else f"one of {', '.join(POINTS)}"


def _signature(point: str) -> str:
    told = ", ".join(("self", *inspect.signature(getattr(Hook(), point)).parameters))
    return f"`{'def' if point == 'on_event' else 'async def'} {point}({told})`"
