"""Nothing that an untrusted project's files say reaches a request, and nothing of the user's is
replaced.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.agents.coding.conftest import Place
from tests.doubles import asks, call, open_runtime, says
from tests.projects import written
from treadle.agents.coding import coding_agent
from treadle.config import load
from treadle.models.model import ModelRequest
from treadle.testing import ScriptedModel
from treadle.tui.commands.own import own_commands
from treadle.types import Mode

CANARY = "CANARY_5d1f"
MINE = "Reviews as its owner wants."

CONTROL_FILES = {
    "AGENTS.md": f"{CANARY} in instructions",
    "src/AGENTS.md": f"{CANARY} in nested instructions",
    "src/web/AGENTS.md": f"{CANARY} where the run works",
    ".treadle/agents/reviewer.md": f"---\ndescription: {CANARY} replaces\ntools: [read]\n---\n{CANARY} replaces\n",
    f".treadle/agents/{CANARY}.md": f"---\ndescription: {CANARY} is new\n---\n{CANARY}\n",
    ".treadle/agents/helper.yaml": f"description: {CANARY} in YAML\ninstructions: {CANARY}\n",
    ".treadle/agents/read.md": f"---\ndescription: {CANARY} has a tool's name\n---\n",
    ".treadle/agents/treadle.md": f"---\ndescription: {CANARY} has the assistant's name\n---\n",
    f".treadle/agents/broken {CANARY}.md": f"no keys {CANARY}",
    "src/web/.treadle/agents/near.md": f"---\ndescription: {CANARY} is near\n---\n",
    ".treadle/skills/ship/SKILL.md": f"---\nname: ship\ndescription: {CANARY} replaces a skill\n---\n{CANARY}\n",
    f".treadle/skills/{CANARY}/SKILL.md": f"---\nname: {CANARY}\ndescription: {CANARY}\n---\n",
    ".treadle/commands/tidy.md": f"---\ndescription: {CANARY} replaces a command\n---\n{CANARY}\n",
    f".treadle/commands/{CANARY}.md": f"{CANARY}\n",
    ".treadle/config.yaml": f"""
agents: [{CANARY}_module]
mcp_servers: {{{CANARY}: {{command: ["false", {CANARY}], tools: [{CANARY}_tool]}}}}
permissions:
  deny: ["read(/{CANARY}/../**/secret/**)", "/{CANARY}/../rm", "tool(lx[{CANARY}]*)"]
  ask: ["write(./{CANARY}/../**)", "bash({CANARY}/touch)", "fetch(*.{CANARY})"]
schedules: {{{CANARY}: {{agent: reviewer, prompt: {CANARY}, cron: "* * * * *"}}}}
providers: {{anthropic: {{preamble: {CANARY}}}}}
service: {{agents: [{CANARY}]}}
hooks: {{before_tool: {CANARY}}}
environment: {{X: {CANARY}}}
""",
    ".mcp.json": json.dumps({"mcpServers": {CANARY: {"command": CANARY}}}),
    ".git/config": f"[user]\n\tname = {CANARY}\n[alias]\n\t{CANARY} = !{CANARY}\n",
    ".git/description": CANARY,
    ".env": f"X={CANARY}\n",
    **{
        name: CANARY
        for name in (
            "CLAUDE.md",
            "GEMINI.md",
            ".cursorrules",
            ".github/copilot-instructions.md",
            "README.md",
            "package.json",
            "Makefile",
        )
    },
}
"""What a project can bring, by its path."""


@pytest.fixture
def hostile(place: Place) -> Place:
    place.mine("agents/reviewer.md", f"---\ndescription: {MINE}\n---\nReview mine.\n")
    place.mine(
        "skills/ship/SKILL.md", "---\nname: ship\ndescription: Ships as its owner wants.\n---\n"
    )
    place.mine("commands/tidy.md", "Tidy as I do it.\n")
    for name, text in CONTROL_FILES.items():
        place.says(name, text)
    return place


CALLS = [
    call("read", path="../../secret/a.txt"),
    call("bash", command="rm a.txt"),
    call("bash", command="touch a.txt"),
    call("write", path="a.txt", content="x"),
    call("ls", path="."),
    call("agent", name="CANARY", prompt="Look."),
    call("agent", name="helper", prompt="Look."),
    call("read", path="skill:canary"),
    call("glob", pattern="*.nothing"),
    call("grep", pattern="nothing at all"),
]
"""Each makes an error or a denial that could quote what the project says."""


async def requests_of(place: Place, mode: Mode) -> list[ModelRequest]:
    config = load({"HOME": str(place.home)}, cwd=place.here)
    model = ScriptedModel([asks(*CALLS), says("done")])
    rt = open_runtime(config=config)
    await rt.run(
        replace(coding_agent(config, place.here).agent, model=model),
        "Go.",
        mode=mode,
        cwd=place.here,
    )
    return model.requests


def seen(requests: list[ModelRequest]) -> str:
    return "\n".join(map(repr, requests)) + "\n".join(
        repr(definition) for request in requests for definition in request.tools
    )


@pytest.mark.parametrize("mode", ["plan", "ask", "accept-edits", "full"])
async def test_no_request_holds_what_an_untrusted_project_says(hostile: Place, mode: Mode) -> None:
    text = seen(await requests_of(hostile, mode))
    assert CANARY not in text
    assert MINE in text
    assert "Ships as its owner wants." in text


async def test_a_trust_that_is_void_or_was_taken_back_admits_nothing(hostile: Place) -> None:
    (hostile.root / ".treadle" / "config.yaml").unlink()
    hostile.trust()
    assert CANARY in seen(await requests_of(hostile, "plan")), "the canary must be able to sing"
    hostile.says("AGENTS.md", f"{CANARY} changed")
    assert CANARY not in seen(await requests_of(hostile, "plan"))


def test_the_users_own_commands_stay(hostile: Place) -> None:
    own = own_commands(load({"HOME": str(hostile.home)}, cwd=hostile.here), hostile.here)
    assert [(one.name, one.summary) for one in own.commands] == [("tidy", "Tidy as I do it.")]


def test_a_person_is_told_what_is_left_out(hostile: Place) -> None:
    (warning,) = [
        one for one in hostile.assistant().warnings if one.startswith("not sent to the model")
    ]
    for name in (
        "AGENTS.md",
        ".treadle/agents/reviewer.md",
        ".treadle/skills/ship/SKILL.md",
        "src/web/.treadle/agents/near.md",
    ):
        assert name in warning
    assert f"treadle trust {hostile.root}" in warning


async def test_a_rule_of_an_untrusted_project_counts_and_is_not_quoted(hostile: Place) -> None:
    written(hostile.root / "secret" / "a.txt", "kept-5d1f")
    last = (await requests_of(hostile, "full"))[-1]
    results = [result.text for message in last.messages for result in message.tool_results]
    assert 'the rule "(one of this project\'s)" denies reading' in results[0]
    assert "kept-5d1f" not in repr(last)


async def test_ones_own_rule_is_quoted_though_the_project_has_it_too(place: Place) -> None:
    place.mine("config.yaml", 'permissions: {deny: ["read(secret.txt)"]}\n')
    place.says(".treadle/config.yaml", 'permissions: {deny: ["read(secret.txt)", "rm"]}\n')
    config = load({"HOME": str(place.home)}, cwd=place.here)
    assert config.withheld_rules == {"rm"}
