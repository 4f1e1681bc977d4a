"""Counts what docs/internals/walks.md says one has to read. Entry: `counted`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "treadle"
_ROW = re.compile(
    r"^\| (?P<words>.*?) ?\| `(?P<file>[\w/]+\.py)` \| (?P<names>`.*`) \| \d+ \|$", re.MULTILINE
)
_WALK = re.compile(r"^## (.*)\n(?s:(.*?))(?=^## |\Z)", re.MULTILINE)
_SUM = re.compile(r"(\|---\|---\|---\|---\|\n)(?:\|.*\n)*\Z")


def counted(page: str) -> str:
    """The page with the numbers of today. Raises KeyError for a function that is not there."""
    page = _ROW.sub(
        lambda m: (
            f"| {m['words'] + ' ' if m['words'] else ''}| `{m['file']}` | {m['names']} | {_lines(m['file'], m['names'])} |"
        ),
        page,
    )
    rows = "".join(
        _row(heading, list(_ROW.finditer(text)))
        for heading, text in _WALK.findall(page)
        if _ROW.search(text)
    )
    return _SUM.sub(lambda m: m[1] + rows, page)


def _row(heading: str, steps: list[re.Match[str]]) -> str:
    files = dict.fromkeys(step["file"] for step in steps)
    whole = sum(len((SOURCE / file).read_text(encoding="utf-8").splitlines()) for file in files)
    return f"| {heading} | {len(files)} | {sum(_lines(step['file'], step['names']) for step in steps):,} | {whole:,} |\n"


def _lines(file: str, names: str) -> int:
    known = _functions(file)
    return sum(known[name] for name in re.findall(r"`([\w.]+)`", names))


@lru_cache
def _functions(file: str) -> dict[str, int]:
    """`Class.method` and `function` -> lines; of those of one name the longest, which is not the
    overload.
    """
    found: dict[str, int] = {}
    for name, lines in _defined(ast.parse((SOURCE / file).read_text(encoding="utf-8")), ""):
        found[name] = max(lines, found.get(name, 0))
    return found


def _defined(node: ast.AST, inside: str) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
            yield f"{inside}{child.name}", (child.end_lineno or first) - first + 1
        elif isinstance(child, ast.ClassDef):
            yield from _defined(child, f"{inside}{child.name}.")
