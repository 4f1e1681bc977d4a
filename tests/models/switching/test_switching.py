"""Another provider takes over a conversation: it is valid there, nothing that can be told is lost,
and nothing of one provider goes to another.
"""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.switching.overheard import body_for
from tests.models.switching.sayings import MAKES, Talk, conversations, history_of
from tests.models.switching.targets import TARGETS, Target
from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.messages.history import History
from treadle.models.model import ModelRequest, ToolDefinition
from treadle.types import Settings, SystemBlock

LOOK = ToolDefinition(
    name="look",
    description="Looks.",
    parameters={"type": "object", "properties": {"n": {"type": "string"}}},
)
MARK = re.compile(r"(?:text|call|image)-\d+-mark")
BLIND = Abilities(images=False)


def told(target: Target, talk: Talk, abilities: Abilities = UNKNOWN) -> str:
    """The body for this target, which follows its rules.

    An image of a run's own prompt is refused, so a blind model is asked about ended runs.
    """
    history = (
        history_of(talk) if abilities is UNKNOWN else History(talk.messages, len(talk.messages))
    )
    request = ModelRequest(
        messages=history,
        tools=(LOOK,),
        system=(SystemBlock(text="Be brief."),),
        settings=Settings(max_tokens=100),
    )
    body = body_for(target.model(abilities), request)
    assert target.broken(json.loads(body)) == []
    return body.decode()


def assert_whole(body: str, talk: Talk, *, images: bool) -> None:
    """Everything is there once, in its order."""
    shown = [mark for mark in talk.said if not (images and mark.startswith("image"))]
    found = [mark for mark in MARK.findall(body) if not (images and mark.startswith("image"))]
    assert sorted(found) == sorted(shown)
    for kind in ("text", "call", "image"):
        assert [mark for mark in found if mark.startswith(kind)] == [
            mark for mark in shown if mark.startswith(kind)
        ]
    for data in talk.images:
        assert (data in body) == images


def assert_private(body: str, talk: Talk, wire: str) -> None:
    """What one provider keeps with its words goes back to it alone, and with its reasoning only
    within the run.
    """
    for owner, marks in talk.kept.items():
        for mark in marks:
            assert (mark in body) == (owner == wire), f"{mark} of {owner}"
    for owner, seals in talk.sealed.items():
        for place, seal in seals:
            assert owner == wire or seal not in body, f"a seal of {owner}"
            assert place >= talk.settled or seal not in body, "reasoning of a run that is over"
            if owner == wire and place >= talk.settled and talk.messages[place].tool_calls:
                assert seal in body, "reasoning before a call is wanted back"
    for owner, thoughts in talk.thought.items():
        assert owner == wire or not any(thought in body for thought in thoughts)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("source", MAKES)
@given(st.data())
@settings(max_examples=20)
def test_one_takes_over_from_another(source: str, name: str, data: st.DataObject) -> None:
    target, talk = (
        TARGETS[name],
        data.draw(conversations([source], goes_on=data.draw(st.booleans()))),
    )
    body = told(target, talk)
    assert_whole(body, talk, images=True)
    assert_private(body, talk, target.wire)


@pytest.mark.parametrize("name", TARGETS)
@given(st.data())
@settings(max_examples=20)
def test_several_take_turns(name: str, data: st.DataObject) -> None:
    wires = data.draw(st.lists(st.sampled_from(sorted(MAKES)), min_size=2, max_size=3))
    target, talk = TARGETS[name], data.draw(conversations(wires, goes_on=data.draw(st.booleans())))
    body = told(target, talk)
    assert_whole(body, talk, images=True)
    assert_private(body, talk, target.wire)


@pytest.mark.parametrize("name", TARGETS)
@given(st.data())
@settings(max_examples=20)
def test_one_that_takes_no_images_reads_what_was_there(name: str, data: st.DataObject) -> None:
    talk = data.draw(conversations([data.draw(st.sampled_from(sorted(MAKES)))], goes_on=False))
    assert_whole(told(TARGETS[name], talk, BLIND), talk, images=False)
