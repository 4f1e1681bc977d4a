"""Edits of YAML text that leave the rest of it unchanged. Entry points: `edited`, `written`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from treadle.config.file import Broken

if TYPE_CHECKING:
    pass
from treadle.config.document import Node, Place, Plain, YamlDocument, parse

LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
BARE = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
NOT_BARE = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""Words that are strings here but that other YAML readers interpret differently."""


def edited(text: str, path: tuple[str, ...], value: Plain) -> str:
    """Return the text with one value set, replaced in place or added. Comments and order stay.

    Raises Broken if the text cannot be edited safely. The result is verified to differ only in that
    value.
    """
    root = parse(text).root
    wanted = _with(root.plain() if root else {}, path, value)
    new = _edit(text, root, path, value)
    try:
        done = parse(new)
    except Broken:
        done = YamlDocument(None)
    if done.root is None or done.duplicates or done.root.plain() != wanted:
        raise Broken(
            root.line if root else 1, f"cannot be edited safely: set {'.'.join(path)} in it by hand"
        )
    return new


def written(value: Plain) -> str:
    """Format a value as one line of YAML."""
    if isinstance(value, str) and BARE.fullmatch(value) and value.lower() not in NOT_BARE:
        return value
    if isinstance(value, dict):
        return "{" + ", ".join(f"{written(k)}: {written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _with(plain: Plain, path: tuple[str, ...], value: Plain) -> Plain:
    if not path:
        return value
    inside = plain if isinstance(plain, dict) else {}
    return {**inside, path[0]: _with(inside.get(path[0]), path[1:], value)}


def _nested(path: tuple[str, ...], value: Plain) -> Plain:
    return {path[0]: _nested(path[1:], value)} if path else value


def _edit(text: str, root: Node | None, path: tuple[str, ...], value: Plain) -> str:
    if root is None or root.value is None:
        return _append(text, len(text), 0, path, value)
    node, entry, rest = root, None, path
    while rest and isinstance(node.value, dict) and rest[0] in node.value:
        entry = node.value[rest[0]]
        node, rest = entry.node, rest[1:]
    breaks = [0, *(m.end() for m in LINE_BREAK.finditer(text))]
    if rest and isinstance(node.value, dict) and node.value:
        if node.inline:
            return _insert(text, _offset(breaks, node.end), rest, value)
        line = node.end[0] + (node.end[1] > 0)
        return _append(
            text, breaks[line] if line < len(breaks) else len(text), node.start[1], rest, value
        )
    if entry is None:
        if not isinstance(root.value, dict):
            raise Broken(root.line, "is not a mapping of keys to values")
        return (
            text[: _offset(breaks, root.start)]
            + written(_nested(rest, value))
            + text[_offset(breaks, root.end) :]
        )
    start, end = _offset(breaks, entry.key.end), _offset(breaks, node.end)
    if node.inline and node.start != node.end:
        start = _offset(breaks, node.start)
        return text[:start] + written(_nested(rest, value)) + text[end:]
    kept = len(text[start:end].rstrip(" \t\r\n"))
    return f"{text[:start]}: {written(_nested(rest, value))}{text[start + kept :]}"


def _offset(breaks: list[int], place: Place) -> int:
    return breaks[place[0]] + place[1]


def _append(text: str, at: int, column: int, path: tuple[str, ...], value: Plain) -> str:
    """Insert lines before offset `at`, the beginning of a line or the end of the text."""
    newline = "\r\n" if "\r\n" in text else "\n"
    head = text[:at]
    if head and not LINE_BREAK.fullmatch(head[-1]):
        head += newline
    indents = [" " * (column + 2 * i) for i in range(len(path))]
    above = "".join(
        f"{indent}{written(name)}:{newline}"
        for indent, name in zip(indents, path[:-1], strict=False)
    )
    return f"{head}{above}{indents[-1]}{written(path[-1])}: {written(value)}{newline}{text[at:]}"


def _insert(text: str, end: int, path: tuple[str, ...], value: Plain) -> str:
    """Insert before the closing brace of `{…}`, which ends at offset `end`."""
    head = text[: end - 1].rstrip(" \t\r\n")
    comma = "" if head.endswith((",", "{")) else ","
    return (
        f"{head}{comma} {written(path[0])}: "
        f"{written(_nested(path[1:], value))}{text[len(head) : end]}{text[end:]}"
    )
