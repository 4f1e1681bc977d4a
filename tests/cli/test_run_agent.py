"""`treadle run --agent`: an agent of a file or a module, its inputs, its limits; and how its runs go on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Answer, Cli
from tests.cli.test_agents import HEAD, define, own

TYPED = """inputs:
  who: {type: string}
  days: {type: integer, default: 1}
  dry: {type: boolean, default: false}
  places: {type: array, default: [Oslo]}
---
"""


def started(cli: Cli, answer: Answer) -> dict[str, Any]:
    """The first entry of the newest run."""
    exported = cli("runs", "export", "last")
    return json.loads(exported.out.splitlines()[0])["entry"]


def test_an_agent_has_its_own_tools_and_its_name(cli: Cli):
    define(cli, "guide.md", f"{HEAD}tools: [ls]\n---\nYou look.\n")
    model = cli.script({"tool_calls": [{"name": "ls", "arguments": {"path": "."}}, {"name": "bash", "arguments": {"command": "ls"}}]}, {"text": "done"})
    events = cli("run", "go", "--agent", "guide", "--model", model, "--output", "stream-json").events
    assert events[0]["agent"] == "guide"
    results = {event["name"]: event for event in events if event["type"] == "tool_call_end"}
    assert not results["ls"]["is_error"]
    assert any("There is no tool named 'bash'" in json.dumps(event) for event in events)
    assert cli("runs", "list", "--json").json[0]["agent"] == "guide"


def test_inputs_are_of_the_types_that_are_declared(cli: Cli):
    define(cli, "guide.md", f"{HEAD}{TYPED}For ${{who}}.\n")
    given = ["--input", "who=a=b", "--input", "days=3", "--input", "dry=true", "--input", 'places=["Rome", "Oslo"]']
    answer = cli("run", "go", "--agent", "guide", *given, "--model", cli.script({"text": "ok"}))
    assert answer.code == 0, answer.err
    inputs = started(cli, answer)["inputs"]
    assert (json.loads(inputs) if isinstance(inputs, str) else inputs) == {"who": "a=b", "days": 3, "dry": True, "places": ["Rome", "Oslo"]}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--input", "whom=x"], "agent 'guide' has no input 'whom': did you mean 'who'?"),
        (["--input", "xyz=x"], "agent 'guide' has no input 'xyz': it has who, days, dry, places"),
        (["--input", "who"], "--input 'who' is no K=V: name the input and its value, like --input who=Ada"),
        (["--input", "who=a", "--input", "who=b"], "--input gives 'who' twice"),
        (["--input", "who=a", "--input", "days=many"], "the input 'days' must be an integer, not 'many'"),
        ([], "agent 'guide' needs the input(s) who"),
    ],
)
def test_a_wrong_input_is_refused_before_anything_is_asked(cli: Cli, given: list[str], said: str):
    define(cli, "guide.md", f"{HEAD}{TYPED}For ${{who}}.\n")
    answer = cli("run", "go", "--agent", "guide", *given, "--model", cli.script({"text": "ok"}))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"treadle: {said}")


def test_an_input_without_an_agent_is_wrong(cli: Cli):
    answer = cli("run", "go", "--input", "who=Ada", "--model", cli.script({"text": "ok"}))
    assert (answer.code, answer.err) == (2, "treadle: --input who=Ada belongs to an agent: name it with --agent\n")


def test_a_broken_agent_is_refused_with_file_and_line(cli: Cli):
    path = define(cli, "guide.md", f"{HEAD}tools: [reed]\n---\n")
    answer = cli("run", "go", "--agent", "guide", "--model", cli.script({"text": "ok"}))
    assert (answer.code, answer.err) == (2, f"treadle: {path}:3: tools: there is no tool 'reed': did you mean 'read'?\n")


def test_what_is_broken_elsewhere_stops_nothing(cli: Cli):
    define(cli, "guide.md", f"{HEAD}---\n")
    define(cli, "other.md", "nothing of the kind")
    assert cli("run", "go", "--agent", "guide", "--model", cli.script({"text": "ok"})).code == 0


def test_the_coding_assistant_has_a_name_too(cli: Cli):
    answer = cli("run", "go", "--agent", "treadle", "--model", cli.script({"text": "ok"}), "--output", "stream-json")
    assert answer.events[0]["agent"] == "treadle"


def test_an_option_goes_before_the_agents_limits_and_these_before_the_configuration(cli: Cli):
    look = {"tool_calls": [{"name": "ls", "arguments": {"path": "."}}]}
    own(cli, "agents/guide.md", f"{HEAD}tools: [ls]\nlimits: {{turns: 2}}\n---\n")
    own(cli, "config.yaml", "limits: {turns: 4}\n")
    entries = [look, look, look, look, look, {"text": "done"}]
    assert cli("run", "go", "--agent", "guide", "--model", cli.script(*entries), "--output", "json").json["turns"] == 2
    assert cli("run", "go", "--agent", "guide", "--model", cli.script(*entries), "--output", "json", "--max-turns", "3").json["turns"] == 3


def test_a_project_cannot_raise_a_limit_and_is_told_so(cli: Cli):
    path = define(cli, "guide.md", f"{HEAD}limits: {{turns: 400}}\n---\n")
    answer = cli("run", "go", "--agent", "guide", "--model", cli.script({"text": "ok"}))
    assert answer.code == 0
    assert f"! {path}:3: limits.turns is ignored: a workspace may only lower it, and it is 50 already" in answer.err


def test_a_run_of_a_files_agent_that_waits_goes_on_by_its_name(cli: Cli):
    define(cli, "guide.md", f"{HEAD}tools: [write]\ninputs:\n  who: {{type: string}}\n---\nFor ${{who}}.\n")
    model = cli.script({"tool_calls": [{"name": "write", "arguments": {"path": "a.txt", "content": "x"}, "id": "w1"}]}, {"text": "written"})
    waits = cli("run", "go", "--agent", "guide", "--input", "who=Ada", "--model", model, "--on-ask", "wait")
    assert waits.code == 4
    done = cli("runs", "resume", "last", "--approve", "w1")
    assert (done.code, done.out) == (0, "written\n"), done.err
    assert (cli.workspace / "a.txt").read_text() == "x"
    forked = cli("runs", "fork", "last", "--turn", "0", "--model", cli.script({"text": "again"}))
    assert (forked.code, forked.out) == (0, "again\n"), forked.err


def test_a_run_whose_agent_is_gone_says_so(cli: Cli):
    path = define(cli, "guide.md", f"{HEAD}tools: [write]\n---\n")
    model = cli.script({"tool_calls": [{"name": "write", "arguments": {"path": "a.txt", "content": "x"}, "id": "w1"}]})
    assert cli("run", "go", "--agent", "guide", "--model", model, "--on-ask", "wait").code == 4
    path.unlink()
    answer = cli("runs", "resume", "last", "--approve", "w1")
    assert answer.code == 2
    assert "the agent 'guide' of run" in answer.err
    assert "is not defined in" in answer.err


def test_an_agent_of_a_module_is_run_by_its_name(cli: Cli):
    modules = cli.home / "modules"
    modules.mkdir()
    (modules / "mine.py").write_text(
        "from treadle import Agent, tool\nprint('noise')\n\n\n"
        '@tool(effect="pure")\nasync def shout(text: str) -> str:\n    """Shouts."""\n    return text.upper()\n\n\n'
        "loud = Agent(name='loud', description='Is loud', tools=[shout])\n"
    )
    own(cli, "config.yaml", "agents: [mine]\n")
    model = cli.script({"tool_calls": [{"name": "shout", "arguments": {"text": "hi"}}]}, {"text": "done"})
    answer = cli("run", "go", "--agent", "loud", "--model", model, "--output", "json", PYTHONPATH=str(modules))
    assert answer.json["outcome"] == "completed", answer.err
    assert answer.json["tool_calls"] == 1


def test_a_project_that_nobody_trusts_brings_no_module(cli: Cli):
    (cli.workspace / "evil.py").write_text("import pathlib\npathlib.Path('pwned').touch()\n")
    (cli.workspace / ".treadle").mkdir()
    (cli.workspace / ".treadle" / "config.yaml").write_text("agents: [evil]\n")
    define(cli, "guide.md", f"{HEAD}---\n")
    answer = cli("run", "go", "--agent", "guide", "--model", cli.script({"text": "ok"}))
    assert answer.code == 0
    assert "agents is ignored" in answer.err
    assert not (cli.workspace / "pwned").exists()
