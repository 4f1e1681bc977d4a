"""A hook that lets a model judge calls, and leaves those that it does not allow to a person."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doubles import asks, call, gives, hook, open_runtime, says
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import Agent, AgentError, Approve, Hook
from treadle.hooks import Ask, CallJudge
from treadle.testing import ScriptedModel
from treadle.tools.approval import ApprovalRequest
from treadle.types import Outcome

pytestmark = pytest.mark.usefixtures("store")

YES = says('{"reason": "small", "is_allowed": true}')
NO = says('{"reason": "too much", "is_allowed": false}')
UNJUDGED = [{"error": {"kind": "invalid"}}]


def bank(judge: ScriptedModel, *hooks: Hook, **more: Any) -> Agent[Any, Any]:
    script = [asks(call("look", "a"), call("pay", "b", amount=5)), says("Done.")]
    one = CallJudge("Payments up to 10 are fine.", model=judge, tools=["pa*"])
    tools = [gives("look"), gives("pay", "paid", **more)]
    return Agent(name="bank", model=ScriptedModel(script), tools=tools, hooks=[one, *hooks])


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([YES], ""),
        ([NO], "a model judges that the rules do not allow it: too much"),
        ([says("?")] * 3, "the model that judges calls gave no answer: "),
        (UNJUDGED, "the model that judges calls gave no answer: "),
    ],
)
async def test_a_person_decides_about_calls_that_the_model_does_not_allow(
    answers: list[dict[str, Any]], reason: str
) -> None:
    requests: list[ApprovalRequest] = []

    async def person(request: ApprovalRequest) -> Approve:
        requests.append(request)
        return Approve()

    judge = ScriptedModel(answers)
    result = await open_runtime().run(bank(judge), "Pay 5.", on_approval=person)
    assert result.unwrap() == "Done."
    assert [request.name for request in requests] == (["pay"] if reason else [])
    assert all(request.reason.startswith(reason) for request in requests)
    assert judge.requests[0].messages[0].text == (
        '{"rules": "Payments up to 10 are fine.", "tool": "pay", "arguments": "{\\"amount\\": 5}"}'
    )
    assert result.metrics.total.runs == 2


@pytest.mark.parametrize(
    ("hooks", "more"),
    [((), {"needs_approval": True}), ((hook(before_tool=Ask("I want to know")),), {})],
)
async def test_the_model_approves_nothing_that_a_person_must_decide(
    hooks: tuple[Hook, ...], more: dict[str, Any]
) -> None:
    rt = open_runtime()
    result = await rt.run(bank(ScriptedModel([YES]), *hooks, **more), "Pay 5.", on_ask="wait")
    assert result.outcome is Outcome.APPROVAL_NEEDED
    assert "pay" in [pending.name for pending in result.pending]


async def test_a_resume_finds_the_answer_of_the_model() -> None:
    judge = ScriptedModel([NO])
    one, rt = bank(judge), open_runtime()
    result = await rt.run(one, "Pay 5.", on_ask="wait")
    assert [pending.call_id for pending in result.pending] == ["b"]
    again = await rt.resume(result.run_id, one, approve={"b"})
    assert (again.unwrap(), len(judge.requests)) == ("Done.", 1)


async def test_rules_are_words() -> None:
    with pytest.raises(AgentError, match="pass the rules"):
        CallJudge(" ", model="script:x")
