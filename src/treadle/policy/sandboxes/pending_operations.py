"""Unfinished git operations, and settings in them that make the next call of git run a program.
Entry point: `pending_settings`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping

from treadle.policy.sandboxes.git_contents import FREE_TEXT, PLAIN_OPTIONS
from treadle.policy.sandboxes.git_files import entries_of, read
from treadle.policy.sandboxes.plain_settings import BOOLEAN, settings_in

_OPTION_BOOLEANS = """
no-commit edit signoff record-origin allow-ff allow-empty allow-empty-message drop-redundant-commits keep-redundant-commits allow-rerere-auto
"""  # noqa: E501
_OPTIONS: Mapping[str, bytes] = {
    f"options.{name}": BOOLEAN for name in _OPTION_BOOLEANS.split()
} | {
    "options.mainline": rb"[0-9]+",
    "options.default-msg-cleanup": rb"[a-z]+",
    "options.strategy": rb"ort|recursive|resolve|octopus|ours|subtree",
}

_HARMLESS = re.compile(
    rb"[ \t\r]*(?:#.*|(?:pick|p|revert|edit|e|reword|r|fixup|f|squash|s|break|b|label|l|reset|t|merge|m|update-ref|u|drop|d|noop)(?:[ \t\r].*)?)?",  # noqa: E501
    re.DOTALL,
)
"""A line of a todo list.

`exec` runs a program, and so may a command of another git version.
"""
_AUTHOR = re.compile(rb"(?:GIT_AUTHOR_(?:NAME|EMAIL|DATE)='(?:[^']|'\\'')*'(?:\n|\Z))*")
"""Shell scripts of git before 2.20 executed this file."""
_STRATEGY = re.compile(rb"(?:ort|recursive|resolve|octopus|ours|subtree)?\n?")
"""Any other word names a program `git-merge-WORD`. If it contains a slash, git looks for it in the
working directory.
"""
_QUOTED = re.compile(rb"(?:[ \t]*'(?:[^']|'\\'')*')*[ \t]*\n?")
"""`git bisect visualize` before 2.35 executed this file's text in a shell."""


def pending_settings(folder: str, name: str) -> Iterator[tuple[str, frozenset[bytes]]]:
    place = os.path.join(folder, name)
    if name.casefold() == "bisect_names":
        yield from _unless(name, place, lambda text: _QUOTED.fullmatch(text) is not None)
        return
    if os.path.islink(place):
        yield name, frozenset({os.fsencode(os.readlink(place))})
        return
    for entry in entries_of(place):
        inner, lower = f"{name}/{entry.name}", entry.name.casefold()
        if name.casefold() in ("remotes", "branches"):
            yield from _unless(inner, entry.path, lambda text: b"::" not in text)
        elif lower in ("git-rebase-todo", "todo"):
            text = read(entry.path)
            lines = (
                {b"\0"}
                if text is None
                else {line for line in text.split(b"\n") if not _HARMLESS.fullmatch(line)}
            )
            if lines:
                yield inner, frozenset(lines)
        elif lower == "author-script":
            yield from _unless(inner, entry.path, lambda text: _AUTHOR.fullmatch(text) is not None)
        elif lower == "strategy":
            yield from _unless(
                inner, entry.path, lambda text: _STRATEGY.fullmatch(text) is not None
            )
        elif lower in PLAIN_OPTIONS:
            yield from _unless(
                inner,
                entry.path,
                lambda text, plain=PLAIN_OPTIONS[lower]: plain.fullmatch(text) is not None,
            )
        elif lower == "opts":
            yield from _unless(
                inner, entry.path, lambda text: settings_in(text, _OPTIONS) is not None
            )
        elif not entry.is_file(follow_symlinks=False) or not FREE_TEXT.fullmatch(lower):
            yield inner, frozenset({b"\0"})


def _unless(
    name: str, place: str, is_plain: Callable[[bytes], bool]
) -> Iterator[tuple[str, frozenset[bytes]]]:
    text = read(place)
    if text is None or not is_plain(text):
        yield name, frozenset({text if text is not None else b"\0"})
