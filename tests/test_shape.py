"""The shape of the code holds its line: what may be longer or wider is named here, with its reason.

What is usual stands in docs/internals/quality.md.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "treadle"

LINES_MOST = 400
FUNCTION_LINES_MOST = 50
# Functions without a reason grew past the limit when lines became 100 columns long.
LONG_FUNCTIONS = {
    "agents/coding/agent.py:coding_agent": 52,
    "apps/batch/workshop.py:workshop": 53,
    "cli/serve.py:_serve": 59,
    "journal/sqlite/places.py:prepare": 56,
    "policy/policy.py:decide": 60,
    "policy/sandboxes/seccomp.py:seccomp_filter": 51,
    "runtime/assembly.py:plan_from": 55,
    "service/conversation_store.py:ask": 53,
    "tools/builtin/files.py:save": 55,
}
PARAMETERS_MOST = 7
WIDE = {
    "service/state.py:__init__": 8,  # what an application hands in
}


@cache
def functions() -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    return [
        (f"{path.relative_to(SOURCE).as_posix()}:{node.name}", node)
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def over(measured: Iterator[tuple[str, int]], most: int, named: dict[str, int]) -> list[str]:
    """What is above its limit, and limits of their own that could be lower: they only shrink."""
    sizes: dict[str, int] = {}
    for name, size in measured:
        sizes[name] = max(size, sizes.get(name, 0))
    return [f"{name}: {size}" for name, size in sizes.items() if size > named.get(name, most)] + [
        f"{name}: {most_here} could be {sizes.get(name, 0)}"
        for name, most_here in named.items()
        if sizes.get(name, 0) < most_here
    ]


def test_files_are_no_longer_than_they_need_to_be() -> None:
    sizes = (
        (path.relative_to(SOURCE).as_posix(), len(path.read_text().splitlines()))
        for path in sorted(SOURCE.rglob("*.py"))
    )
    found = over(sizes, LINES_MOST, {})
    assert found == [], f"at most {LINES_MOST} lines: move a part of the file elsewhere"


def test_functions_fit_a_screen() -> None:
    assert (
        over(
            (
                (name, (node.end_lineno or node.lineno) - node.lineno + 1)
                for name, node in functions()
            ),
            FUNCTION_LINES_MOST,
            LONG_FUNCTIONS,
        )
        == []
    )


def test_signatures_are_narrow() -> None:
    def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
        given = node.args
        return sum(
            one.arg not in ("self", "cls")
            for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)
        )

    assert (
        over(((name, parameters(node)) for name, node in functions()), PARAMETERS_MOST, WIDE) == []
    )


def test_no_check_is_switched_off_as_a_whole() -> None:
    """`# noqa: CODE  reason`; of several lines alike the first has the reason."""
    bare = re.compile(r"# noqa(?!: [A-Z]+\d+)|# type: ignore|pyright: ignore(?!\[)")
    found = [
        f"{path.name}:{number}"
        for path in sorted(SOURCE.rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if bare.search(line)
    ]
    assert found == []
