"""The coding assistant in a program: its tools on real files, its approvals, and the settings that
it reads or leaves alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.projects import ProjectPlace, written
from treadle import (
    Agent,
    AgentError,
    ApprovalRequest,
    Approve,
    Deny,
    Limits,
    Outcome,
    ToolResult,
    tool,
)
from treadle.coding import CodingAgent
from treadle.config import Permissions
from treadle.models.providers.scripted import ScriptedModel

WRITE = {
    "text": "",
    "tool_calls": [{"name": "write", "arguments": {"path": "b.txt", "content": "b"}}],
}
DONE = {"text": "Done."}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectPlace:
    place = ProjectPlace(tmp_path)
    monkeypatch.setenv("HOME", str(place.home))
    monkeypatch.setenv("TREADLE_HOME", str(place.own))
    return place


async def test_it_changes_files_after_approval(place: ProjectPlace) -> None:
    asked: list[tuple[str, object]] = []

    async def approve(request: ApprovalRequest) -> Approve:
        asked.append((request.name, request.arguments))
        return Approve()

    async with CodingAgent(
        place.here, model=ScriptedModel([WRITE, DONE]), on_approval=approve
    ) as coder:
        result = await coder.run("Write b.")
    assert result.unwrap() == "Done."
    assert asked == [("write", {"path": "b.txt", "content": "b"})]
    assert (place.here / "b.txt").read_text() == "b"


async def test_without_an_approver_a_call_that_needs_one_is_denied(place: ProjectPlace) -> None:
    async with CodingAgent(place.here, model=ScriptedModel([WRITE, DONE])) as coder:
        result = await coder.run("Write b.")
    assert result.outcome is Outcome.APPROVAL_NEEDED
    assert not (place.here / "b.txt").exists()


async def test_a_mode_and_rules_decide_without_asking(place: ProjectPlace) -> None:
    model = ScriptedModel([WRITE, DONE, WRITE, DONE])
    async with CodingAgent(place.here, model=model, mode="accept-edits") as coder:
        await coder.run("Write b.")
        assert (place.here / "b.txt").exists()
        (place.here / "b.txt").unlink()
        await coder.run("Write b.", mode="ask")
    assert not (place.here / "b.txt").exists()
    denies = Permissions(deny=("write(b.txt)",))
    model = ScriptedModel([WRITE, DONE])
    async with CodingAgent(place.here, model=model, mode="full", permissions=denies) as coder:
        await coder.run("Write b.")
    assert not (place.here / "b.txt").exists()


async def test_it_has_further_tools_and_instructions(place: ProjectPlace) -> None:
    @tool(effect="pure")
    def ticket(number: int) -> str:
        """Read a ticket."""
        return f"ticket {number}: costs $5"

    helper = Agent(name="helper", model=ScriptedModel([{"text": "helped"}]))
    calls = [
        {"name": "ticket", "arguments": {"number": 7}},
        {"name": "helper", "arguments": {"prompt": "Help."}},
    ]
    async with CodingAgent(
        place.here,
        model=ScriptedModel([{"text": "", "tool_calls": calls}, DONE]),
        mode="full",
        tools=[ticket, helper],
        instructions="Each ticket costs $5.",
    ) as coder:
        result = await coder.run("Read ticket 7.")
        last = coder.agent.system(coder.agent.values({}))[-1]
    assert last.text == "Each ticket costs $5."
    found = [part.text for part in result.messages[2].parts if isinstance(part, ToolResult)]
    assert found == ["ticket 7: costs $5", "helped"]


async def test_settings_are_read_only_if_asked_for(place: ProjectPlace) -> None:
    written(place.own / "config.yaml", "limits: {turns: 7}\ndefaults: {mode: accept-edits}\n")
    place.says("AGENTS.md", "Use tabs.")
    place.trust()

    def texts(coder: CodingAgent) -> str:
        return " ".join(block.text for block in coder.agent.system(coder.agent.values({})))

    alone = CodingAgent(place.here, model=ScriptedModel([DONE]))
    assert "Use tabs." not in texts(alone)
    with_settings = CodingAgent(place.here, model=ScriptedModel([WRITE, DONE]), settings=True)
    assert "Use tabs." in texts(with_settings)
    async with with_settings as coder:
        result = await coder.run("Write b.")
        state = await coder.runtime.journal.load(result.run_id)
    assert (place.here / "b.txt").exists()
    assert state.limits.turns == 7


async def test_one_conversation_goes_on_in_the_same_session(place: ProjectPlace) -> None:
    model = ScriptedModel([{"text": "One."}, {"text": "Two."}])
    async with CodingAgent(place.here, model=model, limits=Limits(turns=3)) as coder:
        await coder.run("First.", session="work")
        async with coder.stream("Second.", session="work") as run:
            async for _ in run:
                pass
        assert run.result.unwrap() == "Two."
        said = [
            message.text
            for message in await coder.runtime.session("work", agent=coder.agent).history()
        ]
    assert said == ["First.", "One.", "Second.", "Two."]


async def test_a_run_that_waits_goes_on_in_another_object(place: ProjectPlace) -> None:
    journal = f"sqlite:///{place.home / 'runs.db'}"
    script = [WRITE, DONE]
    async with CodingAgent(place.here, model=ScriptedModel(script), journal=journal) as coder:
        waiting = await coder.run("Write b.", on_ask="wait")
    assert waiting.outcome is Outcome.APPROVAL_NEEDED

    async def approve(_: ApprovalRequest) -> Deny:
        return Deny("not now")

    async with CodingAgent(
        place.here, model=ScriptedModel(script), journal=journal, on_approval=approve
    ) as coder:
        result = await coder.resume(waiting.run_id)
    assert result.unwrap() == "Done."
    assert not (place.here / "b.txt").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"permission_mode": "acceptEdits"}, "has no option 'permission_mode': use mode="),
        ({"max_turns": 3}, "use limits=Limits(turns=…)"),
        ({"jurnal": "memory:"}, "did you mean 'journal'?"),
        ({"mode": "acceptEdits"}, "is not one of: ask, accept-edits, plan, full"),
        ({"sandbox": "maybe"}, "sandbox='maybe' is not one of: auto, on, off"),
        ({"permissions": Permissions(allow=("(",))}, "is not a rule"),
        ({"journal": "here.db"}, "use 'sqlite:///here.db'"),
    ],
)
def test_a_wrong_option_is_named_with_what_to_do(
    place: ProjectPlace, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(AgentError) as raised:
        CodingAgent(place.here, **options)
    assert says in raised.value.message


def test_a_directory_must_exist(place: ProjectPlace) -> None:
    with pytest.raises(AgentError, match="is not a directory"):
        CodingAgent(place.here / "missing")
