"""The `apply_patch` tool: atomic changes to any number of files in one patch. Offered to models
that are trained on this format.

See also: parsing and locating a patch (patches.py), replacing one file (files.py), and whether a
patch was applied (patch_state.py). Entry point: `ApplyPatch`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from anyio import to_thread
from typing_extensions import override

from treadle._internal.units import count
from treadle.tools.builtin import files
from treadle.tools.builtin.base import Arguments, Builtin, closed_object, to_its_end
from treadle.tools.builtin.difference import short_difference
from treadle.tools.builtin.edit import decoded, encoded, existing
from treadle.tools.builtin.file_errors import telling
from treadle.tools.builtin.patch_format import PATCH, FileChange, Kind, parse_diff, parse_patch
from treadle.tools.builtin.patch_state import probe_patch
from treadle.tools.builtin.patches import patch
from treadle.tools.tool import (
    InvalidArguments,
    ProbeAnswer,
    ToolContext,
    ToolFailed,
    Touched,
)

_KINDS: dict[str, Kind] = {"create_file": "add", "update_file": "update", "delete_file": "delete"}


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """File operation in the format of the Responses API."""

    type: Literal["create_file", "update_file", "delete_file"]
    path: str
    diff: str = ""


class PatchArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    input: str = ""
    operation: Operation | None = None
    """Argument of the Responses API in place of `input`."""

    @property
    def changes(self) -> tuple[FileChange, ...]:
        """Return the changes by file. Raises InvalidArguments."""
        if self.operation is None:
            return parse_patch(self.input)
        return (parse_diff(_KINDS[self.operation.type], self.operation.path, self.operation.diff),)


class ApplyPatch(Builtin[PatchArguments]):
    name = PATCH
    effect = "once"
    arguments = PatchArguments
    ability = PATCH
    acts_as = ("edit", "write")
    example = (
        '{"input": "*** Begin Patch\\n*** Update File: src/app.py\\n@@ def run():\\n-    retries '
        '= 1\\n+    retries = 3\\n*** End Patch"}'
    )
    parameters = closed_object(
        {
            "input": {
                "type": "string",
                "description": "The whole patch, from '*** Begin Patch' to '*** End Patch'.",
            }
        },
        required=["input"],
    )

    @override
    def check(self, arguments: PatchArguments) -> None:
        paths = [path for change in arguments.changes for path in change.paths]
        for path in paths:
            files.check_path(path)
            if path.endswith("/"):
                raise InvalidArguments(
                    f"{path!r} names a directory; a patch changes files, and creates their "
                    "directories."
                )
        if twice := next((path for path in paths if paths.count(path) > 1), None):
            raise InvalidArguments(
                f"{twice!r} is named twice: put all changes of a file into one section."
            )

    @override
    def touches(self, arguments: PatchArguments, cwd: Path) -> Touched:
        return Touched(writes=tuple(path for change in arguments.changes for path in change.paths))

    @override
    async def execute(self, ctx: ToolContext[Any], arguments: PatchArguments) -> str:
        """Apply the patch. Cancellation does not interrupt it, so its outcome is always known."""
        return await to_its_end(_apply, ctx, arguments)

    @override
    async def probe(self, ctx: ToolContext[Any], arguments: PatchArguments) -> ProbeAnswer:
        """Compare all files with their states before and after the patch. None if they disagree or
        are ambiguous.
        """
        return await to_thread.run_sync(probe_patch, ctx, arguments.changes)


# ---------------------------------------------------------------- planning


class _Step(msgspec.Struct, frozen=True):
    """Planned change of one file."""

    place: Path
    name: str
    old: files.Loaded | None
    new: bytes | None
    """New content; None removes the file."""
    like: files.Loaded | None = None
    """Source file of a move."""


class _Planned(msgspec.Struct, frozen=True):
    steps: list[_Step]
    said: str
    """Result text for the model."""


def _apply(ctx: ToolContext[Any], arguments: PatchArguments) -> str:
    changes = arguments.changes
    places = {path: files.place_of(path, ctx) for change in changes for path in change.paths}
    if len(set(places.values())) < len(places):
        raise ToolFailed(
            "Two paths of the patch lead to the same file: put all changes of a file into one "
            "section. Nothing was changed."
        )
    with files.changing_all(places.values()):
        planned = [_planned(ctx, change, places) for change in changes]
        steps = [
            step
            for each in planned
            for step in each.steps
            if step.old is None or step.new != step.old.data
        ]
        if not steps:
            return "The files already have this content: nothing was changed."
        _do(ctx, steps)
    done = count(len(changes), "file")
    return "\n\n".join(
        [each.said for each in planned]
        if len(planned) == 1
        else [f"Patched {done}.", *(each.said for each in planned)]
    )


def _planned(ctx: ToolContext[Any], change: FileChange, places: dict[str, Path]) -> _Planned:
    """Plan the change of one file. Raises ToolFailed before anything is changed."""
    place = places[change.path]
    name = files.shown(place, ctx.cwd)
    try:
        with telling("write", change.path, ctx.cwd):
            if change.kind == "add":
                return _added(place, name, change)
            old = existing(place, change.path)
            files.must_be_seen(ctx, place, old.digest)
            if change.kind == "delete":
                return _Planned([_Step(place, name, old, None)], f"Deleted {name}.")
            return _updated(ctx, old, change, places)
    except ToolFailed as e:
        said = (
            e.message
            if name in e.message or repr(change.path) in e.message
            else f"{name}: {e.message}"
        )
        raise ToolFailed(f"{said} No file was changed.") from e


def _added(place: Path, name: str, change: FileChange) -> _Planned:
    if files.load(place) is not None:
        raise ToolFailed(
            f"{name} already exists: change it with '*** Update File: {change.path}', or "
            "delete it first."
        )
    new = _encoded(change)
    return _Planned(
        [_Step(place, name, None, new)],
        f"Added {name}: {count(change.content.count(chr(10)), 'line')}.",
    )


def _encoded(change: FileChange) -> bytes:
    try:
        return change.content.encode()
    except UnicodeEncodeError as e:
        raise ToolFailed(
            f"{change.path!r} would contain {e.object[e.start]!r}, half of a surrogate pair, which "
            "no file can contain."
        ) from e


def _updated(
    ctx: ToolContext[Any], old: files.Loaded, change: FileChange, places: dict[str, Path]
) -> _Planned:
    place = places[change.path]
    name = files.shown(place, ctx.cwd)
    encoding, document = decoded(old, name)
    before = document.text
    patch(document, change)
    new, shown = encoded(encoding, document, change.path), short_difference(before, document.text)
    if change.move_to is None:
        return _Planned(
            [_Step(place, name, old, new)],
            "\n".join([" ".join([f"Updated {name}.", *files.link_notes(old)]), shown]),
        )
    target = places[change.move_to]
    if files.load(target) is not None:
        raise ToolFailed(f"{name} cannot be moved to {change.move_to!r}, where a file is already.")
    there = files.shown(target, ctx.cwd)
    return _Planned(
        [_Step(target, there, None, new, like=old), _Step(place, name, old, None)],
        "\n".join([f"Moved {name} to {there}.", shown]).rstrip(),
    )


# ---------------------------------------------------------------- applying


def _do(ctx: ToolContext[Any], steps: Sequence[_Step]) -> None:
    """Apply all steps or none: on failure, undo the earlier ones. Raises ToolFailed."""
    done = list[_Step]()
    for step in steps:
        try:
            with telling("write", step.name, ctx.cwd):
                _one(ctx, step)
        except ToolFailed as e:
            if left := _taken_back(done):
                raise ToolFailed(
                    (
                        f"{e.message} These files stay changed, and could not be put back: "
                        f"{', '.join(left)}."
                    ),
                    happened=None,
                ) from e
            raise ToolFailed(f"{e.message} No file was changed.") from e
        done.append(step)
    for step in done:
        if step.new is None:
            ctx.seen_files.pop(os.fspath(step.place), None)
        else:
            ctx.seen_files[os.fspath(step.place)] = files.digest_of(step.new)


def _one(ctx: ToolContext[Any], step: _Step) -> None:
    if step.new is not None:
        files.save(
            step.place,
            step.new,
            step.old,
            ctx.before_change,
            like=step.like.status if step.like else None,
        )
    elif step.old is not None:
        files.remove(step.place, step.old, ctx.before_change)


def _taken_back(done: Sequence[_Step]) -> list[str]:
    """Restore the previous contents. Return the names of files that could not be restored."""
    left = list[str]()
    for step in reversed(done):
        try:
            now = files.load(step.place)
            if step.old is not None:
                files.save(step.place, step.old.data, now, like=step.old.status)
            elif now is not None:
                files.remove(step.place, now)
        except (OSError, ToolFailed):
            left.append(step.name)
    return left
