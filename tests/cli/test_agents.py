"""`treadle agents`, `tools list` and `init`: what is defined, what is wrong with it, and how one
begins.
"""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest

from tests.cli.conftest import Cli

HEAD = "---\ndescription: A guide\n"


def define(cli: Cli, name: str, text: str) -> Path:
    path = cli.workspace / ".treadle" / "agents" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def own(cli: Cli, name: str, text: str) -> Path:
    path = cli.home / ".treadle" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


# ---------------------------------------------------------------- list


def test_a_list_of_nothing_says_how_one_begins(cli: Cli):
    answer = cli("agents", "list")
    assert (answer.code, answer.out) == (0, "")
    assert "treadle init" in answer.err
    assert cli("agents", "list", "--json").json == []


def test_agents_are_listed_with_where_they_are_defined(cli: Cli):
    define(
        cli,
        "guide.md",
        f"{HEAD}model: small\ntools: [read]\nlimits: {{turns: 3}}\ninputs:\n  who: {{type: string}}\n---\nHello ${{who}}.\n",
    )
    own(cli, "agents/other.yaml", "description: Another\n")
    answer = cli("agents", "list")
    assert answer.code == 0
    assert answer.out.splitlines()[0].split() == ["NAME", "MODEL", "FROM", "DESCRIPTION"]
    assert answer.out.splitlines()[1].split() == [
        "guide",
        "small",
        ".treadle/agents/guide.md",
        "(not",
        "trusted)",
        "A",
        "guide",
    ]
    assert answer.out.splitlines()[2].split() == [
        "other",
        "~/.treadle/agents/other.yaml",
        "Another",
    ]
    first, second = json.loads(cli("agents", "list", "--json").out)
    assert first == {
        "name": "guide",
        "source": "project",
        "place": ".treadle/agents/guide.md",
        "trusted": False,
        "description": "A guide",
        "model": "small",
        "tools": ["read"],
        "handoffs": [],
        "limits": {"turns": 3},
        "inputs": {"who": {"type": "string", "required": True, "default": None, "description": ""}},
        "output": None,
        "problems": [],
    }
    assert (second["name"], second["source"]) == ("other", "own")


def test_a_list_says_which_of_two_counts_and_what_is_wrong(cli: Cli):
    own_file = own(cli, "agents/guide.md", f"{HEAD}tools: [reed]\n---\n")
    here = define(cli, "guide.md", f"{HEAD}---\n")
    answer = cli("agents", "list")
    assert answer.code == 0
    assert answer.err.splitlines() == [
        f"! guide: {own_file} replaces {here}, because your own takes precedence: rename one to use both",
        f"! {own_file}:3: tools: there is no tool 'reed': did you mean 'read'?",
    ]
    assert "(see above)" in answer.out


# ---------------------------------------------------------------- show


def test_show_tells_what_an_agent_is_told(cli: Cli):
    text = f"{HEAD}tools: [read, grep]\ninputs:\n  who: {{type: string, default: Ada, description: Who asks}}\n---\nYou advise ${{who}}.\n"
    define(cli, "guide.md", text)
    answer = cli("agents", "show", "guide")
    assert answer.code == 0
    for said in (
        "A guide",
        "read, grep",
        "input who",
        "string, default 'Ada': Who asks",
        "You advise ${who}.",
    ):
        assert said in answer.out
    assert cli("agents", "show", "guide", "--json").json["instructions"] == "You advise ${who}."


def test_show_of_an_agent_that_is_not_there_names_the_nearest(cli: Cli):
    define(cli, "guide.md", f"{HEAD}---\n")
    answer = cli("agents", "show", "gide")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "treadle: there is no agent 'gide': did you mean 'guide'?\n"


def test_show_of_a_broken_one_says_why(cli: Cli):
    path = define(cli, "guide.md", f"{HEAD}modle: x\n---\n")
    answer = cli("agents", "show", "guide")
    assert (answer.code, answer.out) == (1, "")
    assert f"{path}:3: unknown key 'modle'" in answer.err


# ---------------------------------------------------------------- check


def test_check_says_every_place_and_exits_with_1(cli: Cli):
    one = define(cli, "one.md", f"{HEAD}modle: x\nlimits:\n  turns: many\n---\n")
    two = define(cli, "two.yaml", "instructions: Hello\n")
    answer = cli("agents", "check")
    assert (answer.code, answer.out) == (1, "")
    assert [line.partition(": ")[0] for line in answer.err.splitlines()[:3]] == [
        f"{one}:3",
        f"{one}:5",
        f"{two}:1",
    ]
    assert answer.err.splitlines()[3] == "treadle: 3 problems to fix"
    assert cli("agents", "check", "two").err.count("\n") == 2


def test_check_of_what_is_right_says_so(cli: Cli):
    assert cli("agents", "check").out == "ok: no agents are defined here\n"
    define(cli, "guide.md", f"{HEAD}---\n")
    define(cli, "other.md", f"{HEAD}tools: [guide, complete]\n---\n")
    assert cli("agents", "check").out == "ok: guide, other\n"
    assert cli("agents", "check", "guide").out == "ok: guide\n"
    assert cli("agents", "check", ".treadle/agents/guide.md").out == "ok: guide\n"


def test_check_looks_at_a_file_anywhere(cli: Cli):
    path = cli.home / "draft.yaml"
    path.write_text("description: x\ntools: [reed]\n")
    answer = cli("agents", "check", str(path))
    assert answer.code == 1
    assert f"{path}:2: tools: there is no tool 'reed'" in answer.err
    assert cli("agents", "check", "nowhere.md").err == "treadle: 'nowhere.md' does not exist\n"
    assert cli("agents", "check", "nobody").code == 2


def test_what_an_editor_needs_is_printed(cli: Cli):
    schema = cli("agents", "schema").json
    assert jsonschema_rs.validator_for(schema).is_valid({"description": "x"})


# ---------------------------------------------------------------- tools


def test_tools_are_listed_with_their_effects(cli: Cli):
    rows = {row["name"]: row for row in json.loads(cli("tools", "list", "--json").out)}
    assert rows["read"]["effect"] == "pure"
    assert rows["bash"]["effect"] == "once"
    assert rows["complete"]["source"] == "completion"
    assert all(row["description"] for row in rows.values())
    table = cli("tools", "list").out.splitlines()
    assert table[0].split() == ["NAME", "EFFECT", "FROM", "DESCRIPTION"]
    assert all(len(line) <= 100 for line in table)


def test_tools_of_modules_and_of_servers_are_listed_too(cli: Cli):
    modules = cli.home / "modules"
    modules.mkdir()
    (modules / "mine.py").write_text(
        'from treadle import tool\n\n\n@tool(effect="pure")\nasync def shout(text: str) -> str:\n    """Shouts. Loudly."""\n    return text\n'
    )
    own(
        cli,
        "config.yaml",
        "agents: [mine]\nmcp_servers:\n  github: {command: [gh], tools: [search]}\n  wiki: {url: 'https://x.y'}\n",
    )
    rows = {
        row["name"]: row
        for row in json.loads(cli("tools", "list", "--json", PYTHONPATH=str(modules)).out)
    }
    assert (rows["shout"]["effect"], rows["shout"]["place"]) == ("pure", "mine")
    assert rows["github_search"]["source"] == rows["wiki_*"]["source"] == "mcp"
    missing = cli("tools", "list")
    assert missing.code == 0
    assert "config.yaml:1: agents names the module 'mine', and there is no 'mine'" in missing.err


# ---------------------------------------------------------------- init


def test_init_writes_what_works_at_once(cli: Cli):
    answer = cli("init")
    assert answer.code == 0
    assert [line.partition(":")[0] for line in answer.out.splitlines()[:2]] == [
        "written",
        "written",
    ]
    assert 'treadle run --agent reviewer "' in answer.out
    assert cli("agents", "check").out == "ok: reviewer\n"
    assert cli("config", "check").code == 0
    run = cli("run", "go", "--agent", "reviewer", "--model", cli.script({"text": "fine"}))
    assert (run.code, run.out) == (0, "fine\n")


def test_init_changes_nothing_that_is_there(cli: Cli):
    path = define(cli, "reviewer.md", "mine")
    answer = cli("init", "--", ".")
    assert "kept, already exists: .treadle/agents/reviewer.md" in answer.out
    assert path.read_text() == "mine"
    again = cli("init")
    assert again.out.count("kept") == 2


def test_init_of_another_folder_says_how_it_is_reached(cli: Cli):
    answer = cli("init", "new place")
    assert answer.code == 0
    assert (cli.workspace / "new place" / ".treadle" / "agents" / "reviewer.md").is_file()
    assert "treadle agents list --cwd 'new place'" in answer.out


def test_what_init_comments_out_is_right_when_it_counts(cli: Cli):
    cli("init")
    path = cli.workspace / ".treadle" / "config.yaml"
    lines = path.read_text().splitlines()
    said = [
        line.removeprefix("# ")
        for line in lines
        if line.startswith("# ")
        and (":" in line.partition("#")[2].partition("  #")[0])
        and "`" not in line
    ]
    path.write_text("\n".join(line for line in said if not line.startswith("These")) + "\n")
    checked = cli("config", "check")
    assert checked.code == 0, checked.err
    assert "limits:" in path.read_text()


@pytest.mark.parametrize("place", [".treadle", ".treadle/agents"])
def test_init_where_something_is_in_its_way_says_what(cli: Cli, place: str):
    (cli.workspace / place).parent.mkdir(exist_ok=True)
    (cli.workspace / place).write_text("a file")
    answer = cli("init")
    assert answer.code == 1
    assert "cannot be written" in answer.err


def test_an_agent_of_a_file_hands_its_run_over_to_another_file(cli: Cli):
    reason = {"reason": "an invoice"}
    triage = cli.script({"tool_calls": [{"name": "transfer_to_billing", "arguments": reason}]})
    own(cli, "agents/triage.md", f"{HEAD}model: {triage}\nhandoffs: [billing]\n---\nTriage.\n")
    billing = cli.script({"text": "It is paid."})
    own(cli, "agents/billing.md", f"{HEAD}model: {billing}\nhandoffs: [triage]\n---\nBill.\n")
    answer = cli("run", "Where is my invoice?", "--agent", "triage")
    assert (answer.code, answer.out) == (0, "It is paid.\n"), answer.err
    shown = json.loads(cli("agents", "show", "triage", "--json").out)
    assert shown["handoffs"] == ["billing"]
    assert json.loads(cli("runs", "list", "--json").out)[0]["agent"] == "billing"
