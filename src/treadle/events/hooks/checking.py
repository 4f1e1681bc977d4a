"""Check hooks when they are passed in: a point that is misspelt, or cannot be called, would
otherwise never act, or fail in a run.

Entry: `checked_hooks`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from typing import cast

from treadle.errors import AgentError
from treadle.events.hooks.hook import Hook

POINTS = tuple(name for name in vars(Hook) if not name.startswith("_"))
_LIKE_A_POINT = re.compile(r"(?i:before|after|on)(?:_|(?=[A-Z]))")
_SAME = 0.8
"""Minimum similarity of names without underscores, by difflib: `beforetool` matches `before_tool`,
`close` matches nothing.
"""


def checked_hooks(hooks: object) -> tuple[Hook, ...]:
    """Raises AgentError(invalid), with hook, method and the right signature, for an object that is
    no hook, and for a hook that would not work.
    """
    if not isinstance(hooks, list | tuple) or not all(
        isinstance(hook, Hook) for hook in cast("Sequence[object]", hooks)
    ):
        raise AgentError(
            "invalid", "hooks= takes a list of Hook objects, like hooks=[Audit('audit.jsonl')]"
        )
    found = tuple(cast("Sequence[Hook]", hooks))
    for hook in found:
        if (wrong := next(_wrong(hook), None)) is not None:
            raise AgentError("invalid", wrong)
    return found


def _wrong(hook: Hook) -> Iterator[str]:
    name = type(hook).__name__
    for method in _misspelt(hook):
        yield (
            f"the hook {name} has no point {method!r}: write {_signatures(method)}, or begin the "
            "name with an underscore if it is no hook's"
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


def _fault(point: str, written: object, bound: object) -> str | None:
    """Why the method that stands there cannot be called as the point is; None where it can."""
    plain = point == "on_event"
    if not callable(bound) or isinstance(written, property):
        return "is no method"
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
        signature = inspect.signature(bound)
    except (TypeError, ValueError):  # a callable of C: it is tried when it is called
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


def _misspelt(hook: Hook) -> Iterator[str]:
    """Public methods that look like a point and are none, of the class, of its bases, and of the
    object.
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
    import difflib  # noqa: PLC0415  only where a hook has methods of its own

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
