"""Git settings that name no program: a small, strictly parsed subset of git's syntax.

Entry points: `plain_settings`, `is_plain_setting`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from treadle.policy.sandboxes.git_files import read

MAX_LINE = 4_096
"""Maximum length of a line in bytes. Every expression here takes time proportional to it."""

_ANY = (
    rb"(?!-)(?![A-Za-z0-9+.-]*::)[\x21-\x7e\x80-\xff](?:[\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?"
)
"""A value that is neither an option nor the address of a helper program.

The expression for lines excludes text that git would not read literally.
"""
BOOLEAN = rb"(?i:true|false|yes|no|on|off|[01])"
_WORD = rb"[A-Za-z0-9][A-Za-z0-9_.:-]*"
_BOOLEANS = """
core.filemode core.bare core.logallrefupdates core.ignorecase core.precomposeunicode core.symlinks core.quotepath core.longpaths
core.sparsecheckout core.sparsecheckoutcone extensions.worktreeconfig extensions.noop pull.rebase push.autosetupremote
remote*.promisor branch*.rebase submodule*.active
"""  # noqa: E501
_PLAIN: Mapping[str, bytes] = dict.fromkeys(_BOOLEANS.split(), BOOLEAN) | {
    "core.repositoryformatversion": rb"[01]",
    "core.autocrlf": rb"(?i:true|false|input)",
    "core.eol": rb"lf|crlf|native",
    "core.safecrlf": rb"true|false|warn",
    "core.worktree": _ANY,
    "extensions.objectformat": rb"sha1|sha256",
    "extensions.refstorage": rb"files|reftable",
    "extensions.partialclone": _WORD,
    "user.name": _ANY,
    "user.email": _ANY,
    "init.defaultbranch": _ANY,
    "pull.ff": rb"true|false|only",
    "push.default": _WORD,
    "color.ui": rb"auto|always|never|true|false",
    "commit.gpgsign": rb"(?i:false|no|off|0)",
    "tag.gpgsign": rb"(?i:false|no|off|0)",
    "gc.auto": rb"[0-9]+",
    "lfs.repositoryformatversion": rb"[01]",
    "lfs*.access": rb"basic|none|private",
    "remote*.url": _ANY,
    "remote*.fetch": _ANY,
    "remote*.tagopt": rb"--(?:no-)?tags",
    "remote*.partialclonefilter": rb"[a-z0-9:=]+",
    "branch*.remote": _ANY,
    "branch*.merge": _ANY,
    "submodule.active": _ANY,
    "submodule*.url": _ANY,
}
"""Harmless settings. A star represents a subsection.

Sources: git-config(1), git-lfs-config(5), 2026-11-22.
"""

_SECTION = re.compile(rb'\[([A-Za-z]+)(?: "([\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]+)")?\]')
_SETTING = re.compile(
    rb"([A-Za-z][A-Za-z0-9-]*)[ \t]*=([\x20\x21\x24-\x3a\x3c-\x5b\x5d-\x7e\x80-\xff\t]*)"
)
"""Without quotes, backslashes, comment signs and control characters, git reads every line as this
module does.
"""


def plain_settings(file: str) -> list[tuple[str, bytes]] | None:
    """Return the keys and values of a configuration; None if it is not plain."""
    text = read(file)
    return None if text is None else settings_in(text, _PLAIN)


def is_plain_setting(section: bytes, line: bytes) -> bool:
    """Return whether a line of a configuration, in the section of the given heading, names no
    program.
    """
    return settings_in(section + b"\n" + line, _PLAIN) is not None


def settings_in(text: bytes, table: Mapping[str, bytes]) -> list[tuple[str, bytes]] | None:
    """Return keys and values; None if a line is not in the table, or if git could read it
    differently.
    """
    found: list[tuple[str, bytes]] = []
    section = ""
    for line in text.split(b"\n"):
        line = line.strip(b" \t")
        if len(line) > MAX_LINE:
            return None
        if (head := _SECTION.fullmatch(line)) is not None:
            section = head[1].decode().lower() + ("*" if head[2] is not None else "")
        elif (setting := _SETTING.fullmatch(line)) is not None:
            key = f"{section}.{setting[1].decode().lower()}"
            value = setting[2].strip(b" \t")
            if key not in table or not re.fullmatch(table[key], value):
                return None
            found.append((key, value))
        elif line:
            return None
    return found
