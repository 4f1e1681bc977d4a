"""What can be imported from `treadle`, what cannot be yet, and that importing it costs next to
nothing.
"""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.types import TextContent

import treadle
from treadle.apps.mcp_server.answers import answer_of
from treadle.cli import render
from treadle.cli.exits import exit_code
from treadle.messages.events import RunEnd
from treadle.messages.metrics import RunMetrics, RunTotals
from treadle.messages.result import RunResult
from treadle.tui import ends
from treadle.types import now

PROMISED = [
    "Message TextPart ReasoningPart ToolCall ToolResult MediaPart ProviderPart UnknownPart Usage StopReason ModelRequest ModelResponse Settings Limits",
    "RunResult RunMetrics Model Tool Journal AgentError ToolRegistry SessionStore AgentRegistry Hook Approve Deny MAX_SESSION_MESSAGES Hub",
    "Agent Runtime ToolContext tool FunctionTool FallbackModel Callbacks Happened DidNotHappen run run_sync",
    "check_history repair_history",
]
BESIDE = "ApprovalRequest BatchPolicy CodeExecution ErrorKind Event FileSearch Handoff Input MessageStore Outcome PendingCall RunContext RunOptions RunStream RunTotals Session StoredSession SyncRuntime ToolDeferred ToolDefinition ToolDone ToolFailed Toolset WebSearch handoff"
"""What the promised names lead to in a user's annotations and excepts."""
NAMES = " ".join(PROMISED).split() + BESIDE.split()
HEAVY = {
    *(
        "anthropic",
        "httpx",
        "httpx2",
        "aiohttp",
        "pydantic",
        "pydantic_core",
        "yaml",
        "click",
        "jsonschema_rs",
        "pathspec",
        "pytest",
        "rich",
        "prompt_toolkit",
    ),
    *(
        "anyio",
        "asyncio",
        "ssl",
        "email",
        "http",
        "multiprocessing",
        "sqlite3",
        "importlib.metadata",
    ),
}
HEAVY_FOR_AN_AGENT = HEAVY


def loaded_after(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after running `code`."""
    program = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", program],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("name", NAMES)
def test_a_promised_name_can_be_imported(name: str) -> None:
    assert getattr(treadle, name) is not None
    assert name in treadle.__all__
    assert name in dir(treadle)


def test_there_are_no_other_names() -> None:
    assert set(treadle.__all__) == set(NAMES)
    assert sorted(treadle.__all__) == list(treadle.__all__)
    assert {*treadle.__all__, "__version__", "open"} == set(dir(treadle))


def test_the_task_assistant_has_its_names_in_a_module_of_its_own() -> None:
    tasks = importlib.import_module("treadle.apps.assistant")
    names = [
        "AgentContext",
        "AgentResult",
        "AgentRunner",
        "MCPToolServer",
        "MessageHistory",
        "ToolCallRecord",
    ]
    assert dir(tasks) == names
    assert [getattr(tasks, name).__name__ for name in names] == names


def test_a_misspelt_name_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Agnet'"):
        exec("from treadle import Agnet")


def test_checkers_see_the_same_names_from_the_same_modules_as_programs() -> None:
    tree = ast.parse(Path(treadle.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    shown = {
        alias.asname: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    assert shown.keys() == {*treadle.__all__, "open"}
    for name, module in shown.items():
        assert getattr(importlib.import_module(str(module)), name) is getattr(treadle, name)


def test_evaluation_is_a_module_of_the_package_and_imported_only_then() -> None:
    loaded = loaded_after("import treadle")
    assert "treadle.apps.evals" not in loaded
    assert treadle.evals is importlib.import_module("treadle.apps.evals")


def test_the_decorator_is_not_hidden_by_a_module() -> None:
    """Importing a submodule sets its name on the package."""
    loaded = loaded_after(
        "import treadle.runtime.runtime, treadle.tools.tool, treadle.tools.function\nfrom treadle import tool\n"
        "assert callable(tool), tool\nimport treadle\nassert treadle.tool is tool"
    )
    assert "treadle.tool" not in loaded
    modules = {path.stem for path in Path(treadle.__file__).parent.iterdir()}
    assert not modules & set(treadle.__all__)


def test_doubles_for_tests_of_others_are_public() -> None:
    testing = importlib.import_module("treadle.testing")
    for name in ("ScriptedModel", "MemoryJournal", "FakeClock", "collect"):
        assert getattr(testing, name)


def test_every_error_kind_of_the_promise_is_there() -> None:
    kinds = (
        "agent tool timeout rate_limit network invalid auth cancelled limit context_overflow busy"
    )
    assert {kind.value for kind in treadle.ErrorKind} == set(kinds.split())


def test_every_outcome_of_the_promise_is_there() -> None:
    outcomes = "completed turn_limit call_limit token_limit cost_limit timeout truncated looping refused invalid_output context_overflow approval_needed"
    assert {outcome.value for outcome in treadle.Outcome} == {
        *outcomes.split(),
        "cancelled",
        "error",
    }


@pytest.mark.parametrize("outcome", sorted({*treadle.Outcome} - {"completed", "error"}))
def test_every_front_end_has_words_for_an_outcome(outcome: treadle.Outcome) -> None:
    said: dict[str, Any] = {"outcome": outcome, "run_id": "run_1", "session_id": None, "text": ""}
    said |= {"output": None, "validated": False}
    end = RunEnd(
        **said,
        id="1.0",
        seq=1,
        at=now(),
        usage=treadle.Usage(),
        turns=1,
        tool_calls=1,
        duration_s=1.0,
        total=RunTotals(),
    )
    result: RunResult[Any] = RunResult(
        **said, error=None, messages=[], new_messages=[], metrics=RunMetrics(turns=1)
    )
    served = answer_of("helper", result, None, str).content[0]
    assert isinstance(served, TextContent)
    texts = [render.ended(end), ends.ended(end), served.text]
    bare = (outcome.value, f"The agent helper ended as {outcome.value}")
    assert [text for text in texts if text.startswith(bare)] == [], "write the words there"
    assert (exit_code(outcome, None) == 3) == (
        outcome.value.endswith("_limit") or outcome.value in ("timeout", "truncated", "looping")
    )


@pytest.mark.parametrize("kind", treadle.ErrorKind)
def test_an_error_says_by_its_kind_whether_asking_again_may_help(kind: treadle.ErrorKind) -> None:
    error = treadle.AgentError(
        kind.value, "what happened", status=500, request_id="req_1", retry_after_s=1.5
    )
    assert error.kind is kind
    assert error.retryable is (kind in {"rate_limit", "network", "timeout"})
    assert (str(error), error.message, error.status, error.request_id, error.retry_after_s) == (
        "what happened",
        "what happened",
        500,
        "req_1",
        1.5,
    )
    assert repr(error) == f"AgentError({kind.value!r}, 'what happened')"


def test_an_error_of_no_kind_is_a_bug() -> None:
    with pytest.raises(ValueError, match="bad luck"):
        treadle.AgentError("bad luck", "x")


# ---------------------------------------------------------------- what importing costs


def test_importing_it_loads_nothing_but_itself() -> None:
    loaded = loaded_after("import treadle")
    assert {name for name in loaded if name.startswith("treadle")} == {"treadle"}
    assert not loaded & {*HEAVY, "msgspec"}


def test_an_agent_with_a_tool_loads_no_heavy_library() -> None:
    loaded = loaded_after(
        "from treadle import Agent, Limits, Message, Settings, tool\n"
        "@tool(effect='pure')\n"
        "async def weather(city: str, days: int = 1) -> str:\n"
        "    'Forecast for a city.'\n"
        "    return city\n"
        "Agent(name='guide', instructions='Hi ${who}', tools=[weather], limits=Limits(turns=3), messages=[Message.user('x')])"
    )
    assert not loaded & HEAVY_FOR_AN_AGENT


def test_a_runtime_loads_no_heavy_library() -> None:
    loaded = loaded_after("from treadle import Runtime\nRuntime.open()")
    assert not loaded & (HEAVY - {"anyio", "asyncio", "ssl"})


def test_the_package_is_typed() -> None:
    assert (Path(treadle.__file__).parent / "py.typed").is_file()
