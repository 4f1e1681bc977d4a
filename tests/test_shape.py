"""The shape of the code holds its line: what may be longer or wider is named here, with its reason.

What is usual stands in docs/quality.md.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "treadle"

LINES_MOST = 360
LONG_FILES = {
    "loop/toolbox.py": 370,  # one call, from its arguments to its result
    "budget/ledger.py": 366,  # one ledger; its arithmetic stands in budget/tree.py
    "runtime/assembly.py": 374,  # where each field of a plan comes from
    "context/compaction.py": 372,  # one view of a history, and each way to make it smaller
    "config/readers.py": 376,  # a function for each kind of value
    "config/keys.py": 420,  # the list of keys
    "policy/guarded_paths.py": 490,  # one noun: which files are guarded; most of it is the list
    "tools/truncate.py": 370,
    "_internal/redaction.py": 440,
    "journal/run_state.py": 446,  # one fold; its other half is how a fork begins one
    "runtime/runtime.py": 490,  # every way to start, queue, follow and end a run
    "runtime/runs.py": 478,  # one life of a run; each way to begin one needs the same private state
    "policy/sandboxes/bubblewrap.py": 410,  # one program and its arguments, and one command of it
    "policy/secret_places.py": 680,  # the list of places
    "policy/sandboxes/escapes.py": 460,  # the list of escapes that are tried
    "policy/shell/syntax.py": 425,  # one grammar
    "journal/sqlite/writer.py": 370,  # one thread and its one connection
}
FUNCTION_LINES_MOST = 46
LONG_FUNCTIONS = {
    "runtime/assembly.py:_plan": 51,  # a line for each thing that a run is made of
    "journal/run_state.py:__init__": 94,  # the list of what a run is
    "tools/function/decorator.py:tool": 55,  # a signature with a docstring for each option
}
PARAMETERS_MOST = 7
WIDE = {
    "runtime/runtime.py:wake": 8,  # all that can be said to a run that waits
    "tools/function/decorator.py:tool": 10,  # the options of a public decorator
    "tools/function/decorator.py:__init__": 10,  # what it hands on
    "runtime/assembly.py:_plan": 8,
    "context/compaction.py:__init__": 8,  # what one run's compactor is given, by name
    # the columns that not every beginning fills alike, by name
    "journal/tables/beginning.py:make_run": 8,
    "runtime/toolbox_factory.py:__init__": 8,
    "workers/worker/worker.py:__init__": 11,  # what one says of a worker, each with a default
    "service/state.py:__init__": 8,  # what an application hands in
    "journal/sqlite/driving.py:__init__": 8,  # the columns of a row, by name
}


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(SOURCE).as_posix()}:{node.name}", node


def over(measured: Iterator[tuple[str, int]], most: int, named: dict[str, int]) -> list[str]:
    return [f"{name}: {size}" for name, size in measured if size > named.get(name, most)]


def test_files_are_no_longer_than_they_need_to_be() -> None:
    sizes = (
        (path.relative_to(SOURCE).as_posix(), len(path.read_text().splitlines()))
        for path in sorted(SOURCE.rglob("*.py"))
    )
    assert over(sizes, LINES_MOST, LONG_FILES) == []


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
