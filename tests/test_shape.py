"""The shape of the code holds its line: what may be longer or wider is named here, with its reason.

What is usual stands in docs/quality.md.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "treadle"

LINES_MOST = 400
# Files and functions without a reason grew past the limit when lines became 100 columns long.
LONG_FILES = {
    "_internal/redaction.py": 527,
    "agents/agent.py": 463,
    "agents/definitions/catalog.py": 464,
    "apps/assistant/language/changing.py": 479,
    "apps/assistant/language/dates.py": 433,
    "apps/assistant/language/understanding.py": 548,
    "budget/ledger.py": 446,  # one ledger; its arithmetic stands in budget/tree.py
    "config/layers.py": 409,
    "config/readers.py": 415,  # a function for each kind of value
    "journal/entries.py": 464,
    "journal/journal.py": 423,
    "journal/memory/journal.py": 424,
    "journal/sessions.py": 446,
    "journal/tables/queue.py": 509,
    "loop/model_turn.py": 427,
    "loop/toolbox.py": 531,  # one call, from its arguments to its result
    "models/model.py": 402,
    "models/providers/anthropic/messages.py": 438,
    "models/providers/anthropic/request.py": 509,
    "models/providers/gemini/stream.py": 458,
    "policy/policy.py": 450,
    "policy/sandboxes/bubblewrap.py": 456,  # one program and its arguments, and one command of it
    "policy/sandboxes/escapes.py": 649,  # the list of escapes that are tried
    "policy/sandboxes/proxy.py": 407,
    "policy/sandboxes/repositories.py": 436,
    "policy/secret_places.py": 673,  # the list of places
    "policy/shell/judge.py": 621,
    "policy/shell/programs.py": 637,
    "policy/shell/simple.py": 438,
    "policy/shell/syntax.py": 540,  # one grammar
    "runtime/assembly.py": 500,  # where each field of a plan comes from
    "runtime/runs.py": 618,  # one life of a run; each way to begin one needs the same private state
    "runtime/runtime.py": 678,  # every way to start, queue, follow and end a run
    "tools/builtin/files.py": 421,
    "tools/function/decorator.py": 473,
    "tools/tool.py": 402,
    "tools/truncate.py": 409,
    "types.py": 440,
}
FUNCTION_LINES_MOST = 50
LONG_FUNCTIONS = {
    "agents/agent.py:__post_init__": 53,
    "agents/coding/agent.py:coding_agent": 53,
    "agents/definitions/format.py:definition_schema": 59,
    "apps/assistant/language/answers.py:_chosen": 57,
    "apps/assistant/language/changing.py:of_field": 51,
    "apps/assistant/language/questions.py:asked_for": 74,
    "apps/assistant/language/understanding.py:_add": 69,
    "apps/batch/workshop.py:workshop": 53,
    "cli/serve.py:_serve": 59,
    "journal/postgres/driving.py:take_over": 60,
    "journal/postgres/failures.py:unusable": 57,
    "journal/postgres/failures.py:translated": 75,
    "journal/projection.py:events_of": 63,
    "journal/sqlite/places.py:prepare": 56,
    "loop/toolbox.py:_result": 54,
    "policy/paths.py:write": 61,
    "policy/policy.py:decide": 60,
    "policy/sandboxes/bubblewrap.py:protections": 63,
    "policy/sandboxes/bubblewrap.py:__init__": 60,
    "policy/sandboxes/egress.py:isolated": 64,
    "policy/sandboxes/escapes.py:_ground": 53,
    "policy/sandboxes/seccomp.py:seccomp_filter": 51,
    "policy/shell/judge.py:_inside": 71,
    "runtime/assembly.py:resumed": 86,
    "runtime/assembly.py:_plan": 64,
    "runtime/runs.py:fork": 56,
    "service/conversation_store.py:ask": 53,
    "service/state.py:__init__": 51,  # what an application hands in
    "tools/builtin/files.py:save": 55,
    "tools/function/decorator.py:tool": 58,  # the options of a public decorator
}
PARAMETERS_MOST = 7
WIDE = {
    "tools/function/decorator.py:tool": 10,  # the options of a public decorator
    "tools/function/decorator.py:__init__": 10,  # what it hands on
    "runtime/assembly.py:_plan": 8,
    "context/compaction.py:__init__": 8,  # what one run's compactor is given, by name
    # the columns that not every beginning fills alike, by name
    "journal/tables/beginning.py:make_run": 8,
    "runtime/toolbox_factory.py:__init__": 8,
    "workers/worker/worker.py:__init__": 11,  # what one says of a worker, each with a default
    "service/state.py:__init__": 8,  # what an application hands in
}


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(SOURCE).as_posix()}:{node.name}", node


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
