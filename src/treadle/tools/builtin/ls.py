"""The `ls` tool: lists the entries of one directory.

See also: deeper levels (glob.py). Entry point: `Ls`.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anyio import from_thread, to_thread
from typing_extensions import override

from treadle.tools.builtin import files
from treadle.tools.builtin.base import Arguments, Builtin, closed_object
from treadle.tools.builtin.file_errors import telling
from treadle.tools.builtin.folder import OpenFolder, kind_of
from treadle.tools.tool import ToolContext, ToolFailed, Touched

MAX_ENTRIES = 1_000
_HINT_CHARS = 200


class LsArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str = "."


class Ls(Builtin[LsArguments]):
    name = "ls"
    effect = "pure"
    arguments = LsArguments
    example = '{"path": "src"}'
    parameters = closed_object(
        {
            "path": {
                "type": "string",
                "description": (
                    "The directory: absolute, or relative to the working directory. Default: "
                    "the working directory."
                ),
            }
        },
        required=[],
    )

    @override
    def check(self, arguments: LsArguments) -> None:
        files.check_path(arguments.path)

    @override
    def touches(self, arguments: LsArguments, cwd: Path) -> Touched:
        return Touched(lists=(arguments.path,))

    @override
    async def execute(self, ctx: ToolContext[Any], arguments: LsArguments) -> str:
        """List the directory. Cancellation is checked between entries."""
        return await to_thread.run_sync(_ls, ctx, arguments.path, self.max_output)


def _ls(ctx: ToolContext[Any], path: str, max_chars: int) -> str:
    place = files.place_of(path, ctx)
    with telling("list", path, ctx.cwd), _opened(place, path) as folder:
        counter = _Counter()
        with folder.entries() as entries:
            first = heapq.nsmallest(MAX_ENTRIES, counter.counted(entries))
        lines = [_line(folder, name) for _, name in first]
    if not lines:
        return f"{path!r} is an empty directory."
    used, shown = 0, list[str]()
    for line in lines:
        used += len(line) + 1
        if used > max_chars - _HINT_CHARS:
            break
        shown.append(line)
    left = counter.total - len(shown)
    return "\n".join(
        [
            *shown,
            *(
                [
                    (
                        f"({left:,} more of {counter.total:,} entries are left out: use glob with "
                        "a pattern)"
                    )
                ]
                if left
                else []
            ),
        ]
    )


def _opened(place: Path, path: str) -> OpenFolder:
    """Open the directory. Raises OSError, ToolFailed for anything else."""
    try:
        return OpenFolder.at(os.fspath(place))
    except NotADirectoryError:
        # raised outside the handler, because it can fail for another reason
        with files.parent_of(place) as parent:
            kind = kind_of(parent.stat(place.name).st_mode)
        if kind in ("a directory", "a symbolic link"):
            raise  # it was swapped in the meantime
        hint = ": use read to see what is in it" if kind == "a file" else ""
        raise ToolFailed(f"{path!r} is {kind}, not a directory{hint}.") from None


class _Counter:
    def __init__(self) -> None:
        self.total = 0

    def counted(self, entries: Iterator[os.DirEntry[str]]) -> Iterator[tuple[bool, str]]:
        """Yield sort keys: directories first, then the name."""
        for entry in entries:
            if self.total % 1024 == 0:
                from_thread.check_cancelled()
            self.total += 1
            yield not entry.is_dir(follow_symlinks=False), entry.name


def _line(folder: OpenFolder, name: str) -> str:
    shown = files.printable(name)
    try:
        status = folder.stat(name)
        kind = kind_of(status.st_mode)
        if kind == "a symbolic link":
            return f"{shown} -> {files.printable(folder.link_target(name))}"
    except OSError:
        return f"{shown} (gone)"
    match kind:
        case "a directory":
            return f"{shown}/"
        case "a file":
            return f"{shown}  {status.st_size:,}"
        case _:
            return f"{shown} ({kind})"
