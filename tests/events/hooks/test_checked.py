"""A hook that would never act, or fail in each run, is refused where it is passed in; and a guard
that fails denies, however it fails.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pytest

from tests.doubles import agent, asks, call, gives, hook, open_runtime, says
from tests.for_checkers import defined
from treadle import AgentError, Approve, Hook
from treadle.events.hooks import Add, Answer, Ask, Guard, Rule, Stop


async def of_nothing(self: Any) -> None: ...
async def of_two(self: Any, run: Any, call: Any) -> None: ...
async def of_three(self: Any, run: Any, call: Any, result: Any) -> None: ...
async def with_more(
    self: Any, run: Any, call: Any, more: int = 1, *rest: Any, **named: Any
) -> None: ...
async def with_required(self: Any, run: Any, call: Any, *, needed: int) -> None: ...
async def yields(self: Any, *told: Any) -> Any:
    yield None


def plain(self: Any, *told: Any) -> None: ...
def generates(self: Any, event: Any) -> Any:
    yield event


def _as_it_is(method: Any) -> Any:
    return method


def test_annotations_may_name_types_that_only_type_checkers_see() -> None:
    names = defined(
        "from treadle import Hook\n"
        "class Fine(Hook):\n"
        "    async def before_tool(self, run: HookRun, call: ToolCall) -> Deny | None: ...\n"
        "class Wrong(Hook):\n"
        "    async def before_tool(self, run: HookRun) -> Deny | None: ..."
    )
    fine = names["Fine"]()
    assert agent([], hooks=[fine]).hooks == (fine,)
    assert "takes run, and is called with run, call" in refusal(names["Wrong"]())


def refusal(hook: Hook) -> str:
    with pytest.raises(AgentError) as of_agent:
        agent([], hooks=[hook])
    with pytest.raises(AgentError) as of_runtime:
        open_runtime(hooks=[hook])
    assert of_agent.value.kind == "invalid"
    assert of_agent.value.message == f"agent 'tester': {of_runtime.value.message}"
    return of_runtime.value.message


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("before_tol", "`async def before_tool(self, run, call)`"),
        ("after_tol", "`async def after_tool(self, run, call, result)`"),
        ("befor_tool", "`async def before_tool(self, run, call)`"),
        ("beforeTool", "`async def before_tool(self, run, call)`"),
        ("BEFORE_TOOL", "`async def before_tool(self, run, call)`"),
        ("before_tools", "`async def before_tool(self, run, call)`"),
        ("on_events", "`def on_event(self, event)`"),
        ("onEvent", "`def on_event(self, event)`"),
        ("after_compact", "`async def after_compaction(self, run, receipt)`"),
        ("before_everything", "one of before_run, after_run"),
        ("on_denied", "one of before_run, after_run"),
    ],
)
@pytest.mark.parametrize(
    "wrap", [_as_it_is, staticmethod, functools.partialmethod], ids=["plain", "static", "partial"]
)
def test_a_method_that_looks_like_a_point_is_refused_with_the_right_signature(
    name: str, meant: str, wrap: Callable[[Any], Any]
) -> None:
    said = refusal(type("Careful", (Hook,), {name: wrap(of_two)})())
    assert said.startswith(f"the hook Careful has no method {name!r}: write {meant}")


def test_a_misspelt_point_of_a_base_or_of_the_object_is_refused_too() -> None:
    base = type("Base", (Hook,), {"before_tol": of_two})
    assert "has no method 'before_tol'" in refusal(type("Careful", (base,), {})())
    mixin = type("Mixin", (), {"after_runs": of_two})
    assert "has no method 'after_runs'" in refusal(type("Careful", (mixin, Hook), {})())
    careful = Hook()
    careful.before_tol = of_two  # type: ignore[attr-defined]
    assert "has no method 'before_tol'" in refusal(careful)


@pytest.mark.parametrize(
    ("point", "method", "said"),
    [
        (
            "after_tool",
            of_two,
            "takes run, call, and is called with run, call, result: write `async def after_tool(self, run, call, result)`",
        ),
        (
            "before_tool",
            of_three,
            "takes run, call, result, and is called with run, call: write `async def before_tool(self, run, call)`",
        ),
        (
            "before_tool",
            of_nothing,
            "takes nothing, and is called with run, call: write `async def before_tool(self, run, call)`",
        ),
        (
            "before_tool",
            with_required,
            "takes run, call, needed, and is called with run, call: write `async def before_tool(self, run, call)`",
        ),
        (
            "before_tool",
            plain,
            "must be `async def`: write `async def before_tool(self, run, call)`",
        ),
        (
            "before_tool",
            yields,
            "must be `async def`: write `async def before_tool(self, run, call)`",
        ),
        ("before_run", None, "is not a method: write `async def before_run(self, run)`"),
        (
            "before_tool",
            property(lambda self: of_two),
            "is not a method: write `async def before_tool(self, run, call)`",
        ),
        (
            "on_event",
            of_two,
            "must be a plain `def`, since it is called in the event loop: write `def on_event(self, event)`",
        ),
        (
            "on_event",
            generates,
            "must be a plain `def`, since it is called in the event loop: write `def on_event(self, event)`",
        ),
        ("on_event", 5, "is not a method: write `def on_event(self, event)`"),
    ],
)
def test_a_point_that_cannot_be_called_is_refused_with_the_right_signature(
    point: str, method: Any, said: str
) -> None:
    assert (
        refusal(type("Careful", (Hook,), {point: method})()) == f"the hook Careful.{point} {said}"
    )


def test_a_point_that_is_set_on_the_object_is_refused() -> None:
    careful = Hook()
    careful.before_tool = of_two  # type: ignore[method-assign,assignment]
    assert (
        "before_tool is set on the object, where it is never called: define `async def before_tool(self, run, call)`"
        in refusal(careful)
    )


def test_hooks_with_methods_of_their_own_are_taken() -> None:
    own = {
        "before_tool": with_more,
        "report": plain,
        "close": of_nothing,
        "toolbox": 5,
        "_before_tol": of_two,
        "Onset": type("Onset", (), {}),
    }
    agent([], hooks=[type("Careful", (Hook,), own)(), Guard(Rule("x"))])


def test_a_predicate_that_would_not_be_awaited_is_refused() -> None:
    async def late(arguments: dict[str, Any]) -> bool:
        return False

    with pytest.raises(AgentError, match=r"the predicate of Rule\('wipe'\) must be a plain `def`"):
        Guard(Rule("wipe", when=late))  # type: ignore[arg-type]


def giving(said: Callable[[], Any]) -> Callable[..., Any]:
    def gives(*told: Any) -> Any:
        return said()

    return gives


def raising(error: BaseException) -> Callable[..., Any]:
    def raises(*told: Any) -> Any:
        raise error

    return raises


FAILING: dict[str, Hook] = {
    "an error": hook(before_tool=raising(ValueError("no"))),
    "an error without text": hook(
        before_tool=raising(type("Mute", (Exception,), {"__str__": raising(ValueError())})())
    ),
    "the end of an iteration": hook(before_tool=raising(StopAsyncIteration())),
    "several errors": hook(before_tool=raising(ExceptionGroup("several", [ValueError("no")]))),
    "a cancellation of its own": hook(before_tool=raising(asyncio.CancelledError())),
    "no memory": hook(before_tool=raising(MemoryError())),
    "too deep": hook(before_tool=raising(RecursionError())),
    "a yes of the wrong type": hook(before_tool=giving(lambda: True)),
    "a class": hook(before_tool=giving(lambda: Approve)),
    "arguments that are none": hook(before_tool=giving(lambda: Approve({"at": object()}))),
    "an answer that is no text": hook(before_tool=giving(lambda: Answer(5))),  # type: ignore[arg-type]
    "a question that is no text": hook(before_tool=giving(lambda: Ask(None))),  # type: ignore[arg-type]
    "a predicate": Guard(Rule("look", when=raising(KeyError("amount")))),
    "a predicate that asks": Guard(Rule("look", "ask", when=raising(KeyError("amount")))),
}


@pytest.mark.parametrize("failing", FAILING.values(), ids=FAILING)
@pytest.mark.parametrize("mode", ["ask", "full"])
async def test_a_guard_that_fails_denies_the_call_and_the_run_goes_on(
    failing: Hook, mode: Any
) -> None:
    one = gives("look", "LOOKED")
    result = await open_runtime(hooks=[failing]).run(
        agent([asks(call("look")), says("done")], one), "go", mode=mode
    )
    (answer,) = [each.text for message in result.messages for each in message.tool_results]
    assert answer.startswith("Not run: the hook ")
    assert result.text == "done"


def test_what_a_hook_says_is_text() -> None:
    for kind in (Add, Answer, Ask, Stop):
        with pytest.raises(AgentError, match=rf"{kind.__name__}\(5\): pass a string"):
            kind(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("observed", ["after_model", ("after_modle",), 1])
def test_what_a_hook_observes_are_names_of_points(observed: Any) -> None:
    wrong = type("Looks", (Hook,), {"observes": observed})()
    named = "after_modle" if isinstance(observed, tuple) else observed
    assert refusal(wrong) == (
        f"the hook Looks observes {named!r}, which is not a point: write a tuple of names, like "
        'observes = ("after_model",)'
    )
