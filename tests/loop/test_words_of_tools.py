"""What a tool and a model may say about the run: that it ends here, that pictures are no use."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doubles import PlainTool, agent, open_runtime
from treadle import AgentError, MediaPart, TextPart, ToolFailed
from treadle.testing import ScriptedModel
from treadle.types import Outcome

PICTURE = MediaPart(media_type="image/png", data="aGVsbG8=", name="cat.png")


class Blind(ScriptedModel):
    @property
    def refuses(self) -> frozenset[str]:
        return frozenset({"images"})


async def test_a_tool_can_end_the_run() -> None:
    async def gone(ctx: Any, arguments: Any) -> str:
        raise ToolFailed("the account is closed", ends_run=True)

    model = ScriptedModel([{"tool_calls": [{"name": "charge"}]}, {"text": "never asked for"}])
    async with open_runtime() as rt:
        result = await rt.run(agent(model, PlainTool(name="charge", does=gone)), "go")
    assert result.outcome is Outcome.ERROR
    assert result.error is not None
    assert (result.error.kind, result.error.message) == (
        "tool",
        "charge ended the run: the account is closed",
    )
    assert result.messages[-1].tool_results[0].text == "the account is closed"
    assert len(model.requests) == 1


async def test_a_model_without_image_input_is_told_what_was_there() -> None:
    async def look(ctx: Any, arguments: Any) -> list[Any]:
        return [TextPart(text="found:"), PICTURE]

    model = Blind([{"tool_calls": [{"name": "look"}]}, {"text": "ok"}])
    async with open_runtime() as rt:
        who = agent(model, PlainTool(name="look", does=look))
        with pytest.raises(AgentError, match=r"takes no images: leave out cat.png"):
            await rt.run(who, [PICTURE, TextPart(text="what is it?")])
        result = await rt.run(who, "what is it?")
    assert result.success
    told = "[cat.png, image/png, 6 bytes: not shown, because this model takes no images]"
    assert result.messages[2].tool_results[0].text == "found:\n" + told


async def test_a_model_without_image_input_still_gets_what_is_no_image() -> None:
    paper = MediaPart(media_type="application/pdf", data="aGVsbG8=", name="cat.pdf")

    async def look(ctx: Any, arguments: Any) -> list[Any]:
        return [paper]

    model = Blind([{"tool_calls": [{"name": "look"}]}, {"text": "ok"}])
    async with open_runtime() as rt:
        result = await rt.run(agent(model, PlainTool(name="look", does=look)), "what is it?")
    assert result.messages[2].tool_results[0].content == (paper,)


async def test_denied_again_and_again_needs_an_approval() -> None:
    async def done(ctx: Any, arguments: Any) -> str:
        return "done"

    call = {"tool_calls": [{"name": "charge"}]}
    async with open_runtime() as rt:
        result = await rt.run(
            agent([call] * 6, PlainTool(name="charge", does=done)), "go", mode="ask"
        )
    assert result.outcome is Outcome.APPROVAL_NEEDED


async def test_what_cannot_run_leaves_no_session_behind() -> None:
    async with open_runtime() as rt:
        try:
            await rt.run(agent("nope:x"), "go", session="ada")
        except Exception:
            assert rt.sessions.list() == []
        else:
            raise AssertionError("an unknown model must be refused")
