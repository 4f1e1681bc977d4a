"""The coding assistant as it reaches a model: blocks in their order, the same bytes from every
process, and those of its beginning when it goes on.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.agents.coding.conftest import Place
from tests.doubles import PlayedModel, open_runtime, wishes
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import Settings
from treadle.agents.agent import Agent
from treadle.agents.coding import coding_agent
from treadle.messages.message import Message
from treadle.models.model import ModelRequest
from treadle.models.providers.anthropic.request import RequestEncoder
from treadle.tools.builtin.coding import default_tools

BODY = """
import sys; from pathlib import Path
from tests.agents.coding.test_agent import body_of
from treadle.agents.coding import coding_agent
from treadle.config import load
print(body_of(coding_agent(load({"HOME": sys.argv[1]}, cwd=sys.argv[2]), Path(sys.argv[2])).agent))
"""


def body_of(agent: Agent[object, str]) -> str:
    """A hash of the bytes that Claude would be sent."""
    request = ModelRequest(
        messages=[Message.user("hi")],
        tools=tuple(tool.definition for tool in agent.tools),
        system=agent.system(agent.values({})),
        settings=Settings(max_tokens=100),
    )
    return hashlib.sha256(RequestEncoder("claude-x").encode(request).body).hexdigest()


def test_every_tool_is_there_and_spoken_of() -> None:
    agent = coding_agent_of_nowhere()
    assert [tool.name for tool in agent.tools] == [tool.name for tool in default_tools()]
    lines = agent.instructions.splitlines()
    assert 130 <= len(lines) <= 180
    for name in ("read", "write", "edit", "glob", "grep", "ls", "bash", "todo_write"):
        assert f"`{name}`" in agent.instructions


def coding_agent_of_nowhere() -> Agent[object, str]:
    from treadle.config import load

    return coding_agent(load({}, files=False), Path("/")).agent


def test_what_changes_goes_last_and_only_that_is_passing(place: Place) -> None:
    place.mine("AGENTS.md", "I like tests.")
    agent = place.assistant().agent
    instructions, guidance, whereabouts = agent.system(agent.values({}))
    assert instructions.text.startswith("You are Treadle")
    assert "I like tests." in guidance.text
    assert f"Working directory: {place.here}" in whereabouts.text
    assert (instructions.passing, guidance.passing, whereabouts.passing) == (False, False, True)


def test_two_processes_send_the_same_bytes(place: Place) -> None:
    place.mine("AGENTS.md", "I like tests.")
    for name in ("b", "a", "c"):
        place.mine(
            f"skills/{name}/SKILL.md", f"---\nname: {name}\ndescription: About {name}.\n---\n"
        )
    place.says("AGENTS.md", "Use tabs.")
    place.trust()
    arguments = [sys.executable, "-c", BODY, str(place.home), str(place.here)]
    root = Path(__file__).resolve().parents[3]
    bodies = [
        subprocess.run(
            arguments,
            env={"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": seed, "HOME": str(place.home)},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        )
        for seed in ("1", "2")
    ]
    assert len({body.stdout for body in bodies}) == 1


@pytest.mark.usefixtures("store")
async def test_a_run_that_goes_on_is_told_what_it_was_told_when_it_began(place: Place) -> None:
    def asking(call: str) -> PlayedModel:
        return PlayedModel(wishes((call, "bash", '{"command": "rm x"}')))

    def told(model: PlayedModel) -> list[str]:
        return [block.text for block in model.requests[0].system]

    place.mine("AGENTS.md", "I like tests.")
    (place.root / ".git" / "HEAD").write_text("ref: refs/heads/before\n")
    first, second, third = asking("c1"), asking("c2"), asking("c3")
    async with open_runtime() as rt:
        waiting = await rt.run(
            replace(place.assistant().agent, model=first),
            "go",
            mode="ask",
            on_ask="wait",
            cwd=place.here,
        )
        (place.root / ".git" / "HEAD").write_text("ref: refs/heads/after\n")
        place.mine("AGENTS.md", "I like beer.")
        await rt.resume(
            waiting.run_id,
            replace(place.assistant().agent, model=second),
            deny={"c1": "no"},
            on_ask="wait",
        )
        await rt.resume(
            waiting.run_id,
            replace(place.assistant(moved=True).agent, model=third),
            deny={"c2": "no"},
            on_ask="wait",
        )
    assert told(second) == told(first)
    assert "branch before" in told(first)[2]
    assert ("branch after" in told(third)[2], "I like beer." in told(third)[1]) == (True, True)


def test_the_fingerprint_does_not_change_with_the_day_or_the_place(place: Place) -> None:
    before = place.assistant().agent.fingerprint
    (place.root / ".git" / "HEAD").write_text("ref: refs/heads/other\n")
    place.mine("AGENTS.md", "I like tests.")
    assert place.assistant(cwd=place.root).agent.fingerprint == before


def test_the_blocks_of_a_request_to_claude(place: Place) -> None:
    place.mine("AGENTS.md", "I like tests.")
    agent = place.assistant().agent
    request = ModelRequest(
        messages=[Message.user("hi")],
        tools=tuple(t.definition for t in agent.tools),
        system=agent.system(agent.values({})),
        settings=Settings(max_tokens=9),
    )
    body = msgspec.json.decode(RequestEncoder("claude-x").encode(request).body)
    assert [block["text"].splitlines()[0][:20] for block in body["system"]] == [
        "You are Treadle, a s",
        "# How to work here",
        "# Environment at the",
    ]
    assert body["system"][-1]["cache_control"] == {"type": "ephemeral"}


def test_it_is_told_how_a_pull_request_is_made() -> None:
    told = "\n".join(
        block.text
        for block in coding_agent_of_nowhere().system(coding_agent_of_nowhere().values({}))
    )
    for practice in (
        "git diff base...HEAD",
        "one change that can be reviewed",
        "how it was tested",
        "never the default branch",
        "The person merges",
    ):
        assert practice in told
