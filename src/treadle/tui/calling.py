"""Display name of a tool call: a verb and its target. Entry points: `Calling`, `calling`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, cast

from treadle._internal.terminal_text import one_line
from treadle.messages.todos import TOOL, progress, written
from treadle.tools.builtin.patch_format import PATCH, named_paths

TARGET_CHARS: Final = 400


class _Verb(NamedTuple):
    doing: str
    done: str
    about: str
    """Name of the argument that holds the target."""


_VERBS: Final[Mapping[str, _Verb]] = {
    "read": _Verb("Reading", "Read", "path"),
    "write": _Verb("Writing", "Wrote", "path"),
    "edit": _Verb("Editing", "Edited", "path"),
    "ls": _Verb("Listing", "Listed", "path"),
    "glob": _Verb("Finding", "Found", "pattern"),
    "grep": _Verb("Searching", "Searched", "pattern"),
    "fetch": _Verb("Fetching", "Fetched", "url"),
    "bash": _Verb("Running", "Ran", "command"),
    "bash_output": _Verb("Reading the output of", "Read the output of", "id"),
    "bash_kill": _Verb("Stopping", "Stopped", "id"),
    "agent": _Verb("Asking", "Asked", "name"),
    "complete": _Verb("Finishing", "Finished", ""),
}


class Calling(NamedTuple):
    doing: str
    """Verb while the call runs, for example "Running"."""
    done: str
    """Verb after the call, for example "Ran"."""
    target: str
    """Target as one sanitised line; may be empty."""


def calling(name: str, arguments: object) -> Calling:
    """Return the display name of a call. `arguments`: those of an event. A custom tool's verb is
    its own name.
    """
    if name == TOOL and (todos := written(arguments)) is not None:
        return Calling("Planning", "Planned", one_line(progress(todos), TARGET_CHARS))
    if name == PATCH and isinstance(arguments, dict):
        return Calling(
            "Patching",
            "Patched",
            one_line(", ".join(named_paths(cast("dict[str, object]", arguments))), TARGET_CHARS),
        )
    verb = _VERBS.get(name)
    if not isinstance(arguments, dict):
        return Calling(
            *((verb.doing, verb.done) if verb else (name, name)),
            one_line(str(arguments), TARGET_CHARS),
        )
    given = cast("dict[str, object]", arguments)
    if verb is None or verb.about not in given:
        values = " ".join(str(value) for value in given.values())
        name = one_line(name)
        return Calling(
            verb.doing if verb else name,
            verb.done if verb else name,
            one_line(values, TARGET_CHARS),
        )
    return Calling(verb.doing, verb.done, one_line(str(given[verb.about]), TARGET_CHARS))
