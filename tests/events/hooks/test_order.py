"""Several hooks, and hooks that fail: who is asked when, who decides, and what becomes of the run."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.doubles import Seen, agent, asks, call, gives, hook, open_runtime, says, watch
from treadle import (
    Agent,
    AgentError,
    Approve,
    Deny,
    Hook,
    MediaPart,
    ModelResponse,
    TextPart,
    ToolCall,
    ToolResult,
    tool,
)
from treadle._internal.redaction import Secret
from treadle.config import Config
from treadle.events.hooks import Add, Answer, Ask, Hooks, Stop
from treadle.messages import events
from treadle.models.model import ModelRequest
from treadle.testing import ScriptedModel
from treadle.tools.approval import ApprovalRequest
from treadle.types import StopReason, Usage

KEY = "sk-ant-0123456789abcdef0123456789abcdef"


@tool(effect="pure")
def echo(word: str) -> str:
    """Says it again."""
    return word


SCRIPT = [asks(call("echo", "c", word="x")), says("done")]


async def run(
    hooks: list[Hook],
    *own: Hook,
    script: list[dict[str, Any]] = SCRIPT,
    config: Config | None = None,
    **options: Any,
) -> Seen:
    return await watch(
        script,
        echo,
        gives("ok"),
        runtime=open_runtime(hooks=[*hooks, *own], config=config or Config()),
        **options,
    )


# ---------------------------------------------------------------- order


async def test_those_of_the_runtime_come_before_those_of_the_agent_and_after_them_at_the_end() -> (
    None
):
    order: list[str] = []

    def noting(name: str) -> Hook:
        points = (
            "before_run",
            "before_model",
            "after_model",
            "before_tool",
            "after_tool",
            "after_run",
        )

        def note(point: str) -> Any:
            return lambda *told: order.append(f"{point} {name}")

        return hook(**{point: note(point) for point in points})

    one = agent([asks(call("echo", "c", word="x")), says("done")], echo, hooks=[noting("own")])
    await open_runtime(hooks=[noting("all")]).run(one, "go")
    before, after = ["all", "own"], ["own", "all"]
    turn = [
        *(f"before_model {name}" for name in before),
        *(f"after_model {name}" for name in after),
    ]
    tools = [*(f"before_tool {name}" for name in before), *(f"after_tool {name}" for name in after)]
    assert order == [
        *(f"before_run {n}" for n in before),
        *turn,
        *tools,
        *turn,
        *(f"after_run {n}" for n in after),
    ]


async def test_what_several_add_is_all_there() -> None:
    model = ScriptedModel([says("ok")])
    await open_runtime(hooks=[hook(before_model=Add("one")), hook(before_model=Add("two"))]).run(
        agent(model), "go"
    )
    assert model.requests[0].messages[-1].text == "one\n\ntwo"


async def test_who_adds_does_not_keep_the_next_from_stopping_the_run_or_answering() -> None:
    assert (
        await run([hook(before_model=Add("one")), hook(before_model=Stop("no"))])
    ).outcome == "refused"
    answer = ModelResponse(
        parts=(TextPart(text="known"),), usage=Usage(), stop_reason=StopReason.COMPLETE
    )
    seen = await run([hook(before_model=Add("one")), hook(before_model=answer)])
    assert [m.text for m in seen.result.messages] == ["go", "one", "known"]


async def test_the_next_sees_a_call_as_the_one_before_has_changed_it() -> None:
    told: list[Any] = []
    seen = await run(
        [
            hook(before_tool=Approve({"word": "y"})),
            hook(before_tool=lambda run, call: told.append(call.arguments)),
        ]
    )
    assert told == [{"word": "y"}]
    assert seen.results == ['[a hook changed the arguments to {"word":"y"}]\ny']


@pytest.mark.parametrize("first", [Approve(), Approve({"word": "y"}), Ask("look")])
async def test_who_changes_a_call_or_asks_about_it_does_not_keep_the_next_from_denying_it(
    first: Any,
) -> None:
    async def approver(request: ApprovalRequest) -> Approve | Deny:
        return Approve()

    seen = await run(
        [hook(before_tool=first)], hook(before_tool=Deny("never")), on_approval=approver
    )
    assert seen.results == ["Not run: never"]


async def test_of_several_that_deny_or_answer_the_first_counts_and_the_others_are_not_asked() -> (
    None
):
    asked: list[str] = []
    seen = await run(
        [hook(before_tool=Answer("mine")), hook(before_tool=lambda *told: asked.append("second"))]
    )
    assert (seen.results, asked) == (["mine"], [])


async def test_after_something_each_sees_what_those_before_it_made_of_it() -> None:
    def quoted(sign: str) -> Hook:
        return hook(after_tool=lambda run, call, result: f"{sign}{result.text}{sign}")

    def wrapped(sign: str) -> Hook:
        def after(run: Any, request: ModelRequest, said: ModelResponse) -> ModelResponse:
            parts = tuple(
                TextPart(text=f"{sign}{p.text}{sign}") if isinstance(p, TextPart) else p
                for p in said.parts
            )
            return ModelResponse(parts=parts, usage=Usage(), stop_reason=said.stop_reason)

        return hook(after_model=after)

    assert (await run([quoted("'"), quoted('"')])).results == ["'\"x\"'"]
    assert (await run([wrapped("("), wrapped("[")])).result.text == "([done[("


async def test_a_run_that_a_call_starts_is_told_to_the_hooks_of_the_runtime_and_of_its_own_agent() -> (
    None
):
    told: list[str] = []

    def noting(name: str) -> Hook:
        return hook(
            before_run=lambda run: told.append(
                f"{name}: {run.agent} of {run.parent_run_id is not None}"
            )
        )

    helper = Agent(name="helper", model=ScriptedModel([says("ok")]), hooks=[noting("helper's")])
    boss = Agent(
        name="boss",
        model=ScriptedModel([asks(call("helper", prompt="x")), says("done")]),
        tools=[helper],
        hooks=[noting("boss's")],
    )
    assert (await open_runtime(hooks=[noting("all")]).run(boss, "go")).success
    assert told == [
        "all: boss of False",
        "boss's: boss of False",
        "all: helper of True",
        "helper's: helper of True",
    ]


# ---------------------------------------------------------------- failures


def broken(point: str, error: BaseException | None = None) -> Hook:
    def breaks(*told: Any) -> None:
        raise error or RuntimeError(f"no disk, and the key is {KEY}")

    return hook("Broken", **{point: breaks})


def with_key() -> Config:
    return Config(known_secrets=frozenset({Secret(KEY)}))


@pytest.mark.parametrize("point", ["before_run", "before_model"])
async def test_one_that_fails_before_something_ends_the_run_in_an_error(point: str) -> None:
    seen = await run([broken(point)], config=with_key())
    assert seen.outcome == "error"
    assert seen.result.error is not None
    assert seen.result.error.message.startswith(
        f"the hook Broken.{point} failed: RuntimeError: no disk"
    )
    assert KEY not in repr(seen)


async def test_one_that_fails_before_a_call_denies_it() -> None:
    seen = await run([broken("before_tool")], config=with_key())
    assert (seen.outcome, seen.entries.count("tool.started:c")) == ("completed", 0)
    assert seen.results[0].startswith(
        "Not run: the hook Broken.before_tool failed: RuntimeError: no disk"
    )
    assert KEY not in repr(seen)


async def test_one_that_fails_after_a_response_ends_the_run_and_only_its_usage_is_kept() -> None:
    seen = await run([broken("after_model")], config=with_key())
    assert (seen.outcome, seen.results, seen.result.text) == ("error", [], "")
    assert "the hook Broken.after_model failed: RuntimeError: no disk" in str(seen.result.error)
    assert seen.entries[-2:] == ["model.responded", "run.finished"]
    assert seen.result.new_messages[1:] == []
    assert KEY not in repr(seen)


async def test_one_that_fails_after_a_call_withholds_its_result(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen = await run([broken("after_tool"), hook(after_tool=lambda *told: told[2].text + "!")])
    assert seen.results == ["The result is withheld: the hook Broken failed to check it"]
    assert (seen.outcome, seen.result.text) == ("completed", "done")
    (warning,) = [event.text for event in seen.of(events.Warned)]
    assert warning.startswith("the hook Broken.after_tool failed: RuntimeError: no disk")
    assert warning.endswith(". The result of echo is withheld from the model")


@pytest.mark.parametrize(
    "point", ["before_run", "before_model", "before_tool", "after_model", "after_tool", "on_event"]
)
async def test_an_observer_that_fails_is_told_and_the_run_goes_on(
    point: str, caplog: pytest.LogCaptureFixture
) -> None:
    observer = broken(point)
    type(observer).observes = (point,)
    with caplog.at_level(logging.ERROR, "treadle"):
        seen = await run([observer], config=with_key())
    assert (seen.outcome, seen.results, seen.result.text) == ("completed", ["x"], "done")
    warnings = [event.text for event in seen.of(events.Warned)]
    assert warnings
    assert all(
        w.startswith(f"the hook Broken.{point} failed: RuntimeError: no disk") for w in warnings
    )
    assert f"the hook Broken.{point} failed" in caplog.text
    assert KEY not in repr(seen) + caplog.text


async def test_an_observer_that_answers_is_told_and_changes_nothing() -> None:
    observer = hook("Looks", after_tool="something else")
    type(observer).observes = ("after_tool",)
    seen = await run([observer])
    assert (seen.outcome, seen.results) == ("completed", ["x"])
    assert [event.text for event in seen.of(events.Warned)] == [
        "the hook Looks.after_tool failed: TypeError: it returned 'something else'; it must return "
        "None. The run continues"
    ]


async def test_one_that_fails_on_every_event_is_told_once_and_goes_on_being_told() -> None:
    told: list[events.Event] = []

    def breaks(event: events.Event) -> None:
        told.append(event)
        raise RuntimeError("no")

    seen = await run([hook(on_event=breaks)])
    assert len(seen.of(events.Warned)) == 1
    assert len(told) == len(seen.events)


async def test_one_that_fails_on_the_last_event_is_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def breaks(event: events.Event) -> None:
        if isinstance(event, events.RunEnd):
            raise RuntimeError("no")

    with caplog.at_level(logging.ERROR, "treadle"):
        seen = await run([hook(on_event=breaks)])
    assert (seen.kinds[-1], seen.of(events.Warned)) == ("run_end", [])
    assert "the hook Says.on_event failed" in caplog.text


async def test_one_that_fails_after_the_run_is_only_logged_since_nothing_comes_after_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR, "treadle"):
        seen = await run([broken("after_run")], config=with_key())
    assert (seen.outcome, seen.kinds[-1], seen.of(events.Warned)) == ("completed", "run_end", [])
    assert "the hook Broken.after_run failed" in caplog.text
    assert KEY not in caplog.text


async def test_one_that_fails_after_something_keeps_nobody_else_from_being_told() -> None:
    told: list[str] = []
    await run(
        [hook(after_run=lambda *a: told.append("outer"))],
        broken("after_run"),
        hook(after_run=lambda *a: told.append("inner")),
    )
    assert told == ["inner", "outer"]


@pytest.mark.parametrize(
    ("point", "given", "expected"),
    [
        ("before_run", "no", "must return Stop or None"),
        ("before_model", "text", "must return ModelResponse, Add, Stop or None"),
        ("before_tool", False, "must return Approve, Deny, Ask, Answer, Stop or None"),
    ],
)
async def test_what_a_point_cannot_be_given_is_refused_with_what_it_can(
    point: str, given: Any, expected: str
) -> None:
    seen = await run([hook(**{point: given})])
    said = (
        seen.results[0] if seen.results else seen.result.error.message if seen.result.error else ""
    )
    assert f"the hook Says.{point} failed: TypeError: it returned {given!r}; it {expected}" in said


async def test_what_a_hook_denies_with_holds_no_key() -> None:
    for said in (Deny(f"because of {KEY}"), Answer(f"it is {KEY}"), Ask(f"is {KEY} yours?")):
        seen = await run([hook(before_tool=said)], config=with_key())
        assert KEY not in repr(seen)
    seen = await run([hook(after_tool=f"it is {KEY}")], config=with_key())
    assert KEY not in repr(seen)


async def test_the_text_of_a_hook_beside_an_image_has_no_secrets() -> None:
    @tool(effect="pure")
    async def look() -> list[TextPart | MediaPart]:
        """Look."""
        return [TextPart(text="a"), MediaPart(media_type="image/png", data="QUJD")]

    one = agent([asks(call("look")), says("ok")], look, hooks=[hook(after_tool=f"it is {KEY}")])
    result = await open_runtime(config=with_key()).run(one, "go")
    (seen,) = result.messages[2].parts
    assert isinstance(seen, ToolResult)
    assert len(seen.content) == 2
    assert KEY not in repr(seen)


def test_a_hook_that_is_made_wrong_is_refused_at_once() -> None:
    class Plain(Hook):
        def before_tool(self, run: Any, call: ToolCall) -> Any:
            return None

    class Awaited(Hook):
        async def on_event(self, event: Any) -> None: ...

    with pytest.raises(AgentError, match=r"the hook Plain.before_tool must be `async def`"):
        open_runtime(hooks=[Plain()])
    with pytest.raises(AgentError, match=r"the hook Awaited.on_event must be a plain `def`"):
        agent([], hooks=[Awaited()])


def test_hooks_that_override_nothing_are_as_none() -> None:
    assert not Hooks([Hook(), Hook()]).points
