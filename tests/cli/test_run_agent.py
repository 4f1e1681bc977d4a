"""`treadle run --agent`: an agent of a file or a module, its inputs, its limits; and how its runs
go on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Answer, Cli
from tests.cli.test_agents import HEAD, define, own
from tests.fork_server import command

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
    model = cli.script(
        {
            "tool_calls": [
                {"name": "ls", "arguments": {"path": "."}},
                {"name": "bash", "arguments": {"command": "ls"}},
            ]
        },
        {"text": "done"},
    )
    events = cli(
        "run", "go", "--agent", "guide", "--model", model, "--output", "stream-json"
    ).events
    assert events[0]["agent"] == "guide"
    results = {event["name"]: event for event in events if event["type"] == "tool_call_end"}
    assert not results["ls"]["is_error"]
    assert any("There is no tool named 'bash'" in json.dumps(event) for event in events)
    assert cli("runs", "list", "--json").json[0]["agent"] == "guide"


def test_inputs_are_of_the_types_that_are_declared(cli: Cli):
    define(cli, "guide.md", f"{HEAD}{TYPED}For ${{who}}: ${{days}}, ${{dry}}, ${{places}}.\n")
    given = [
        "--input",
        "who=a=b",
        "--input",
        "days=3",
        "--input",
        "dry=true",
        "--input",
        'places=["Rome", "Oslo"]',
    ]
    answer = cli("run", "go", "--agent", "guide", *given, "--model", cli.script({"text": "ok"}))
    assert answer.code == 0, answer.err
    inputs = started(cli, answer)["inputs"]
    assert (json.loads(inputs) if isinstance(inputs, str) else inputs) == {
        "who": "a=b",
        "days": 3,
        "dry": True,
        "places": ["Rome", "Oslo"],
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--input", "whom=x"], "agent 'guide' has no input 'whom': did you mean 'who'?"),
        (["--input", "xyz=x"], "agent 'guide' has no input 'xyz': it has who, days, dry, places"),
        (
            ["--input", "who"],
            "--input 'who' is not K=V: name the input and its value, like --input who=Ada",
        ),
        (["--input", "who=a", "--input", "who=b"], "--input gives 'who' twice"),
        (
            ["--input", "who=a", "--input", "days=many"],
            "the input 'days' must be an integer, not 'many'",
        ),
        ([], "agent 'guide' needs the input 'who': give it with --input who=…"),
    ],
)
def test_a_wrong_input_is_refused_before_anything_is_asked(cli: Cli, given: list[str], said: str):
    define(cli, "guide.md", f"{HEAD}{TYPED}For ${{who}}: ${{days}}, ${{dry}}, ${{places}}.\n")
    answer = cli("run", "go", "--agent", "guide", *given, "--model", cli.script({"text": "ok"}))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"treadle: {said}")


def test_an_input_without_an_agent_is_wrong(cli: Cli):
    answer = cli("run", "go", "--input", "who=Ada", "--model", cli.script({"text": "ok"}))
    assert (answer.code, answer.err) == (
        2,
        "treadle: --input who=Ada belongs to an agent: name it with --agent\n",
    )


def test_a_broken_agent_is_refused_with_file_and_line(cli: Cli):
    path = define(cli, "guide.md", f"{HEAD}tools: [reed]\n---\n")
    answer = cli("run", "go", "--agent", "guide", "--model", cli.script({"text": "ok"}))
    assert (answer.code, answer.err) == (
        2,
        f"treadle: {path}:3: tools: there is no tool 'reed': did you mean 'read'?\n",
    )


def test_what_is_broken_elsewhere_stops_nothing(cli: Cli):
    define(cli, "guide.md", f"{HEAD}---\n")
    define(cli, "other.md", "nothing of the kind")
    assert cli("run", "go", "--agent", "guide", "--model", cli.script({"text": "ok"})).code == 0


def test_the_coding_assistant_has_a_name_too(cli: Cli):
    answer = cli(
        "run",
        "go",
        "--agent",
        "treadle",
        "--model",
        cli.script({"text": "ok"}),
        "--output",
        "stream-json",
    )
    assert answer.events[0]["agent"] == "treadle"


def test_an_option_goes_before_the_agents_limits_and_these_before_the_configuration(cli: Cli):
    look = {"tool_calls": [{"name": "ls", "arguments": {"path": "."}}]}
    own(cli, "agents/guide.md", f"{HEAD}tools: [ls]\nlimits: {{turns: 2}}\n---\n")
    own(cli, "config.yaml", "limits: {turns: 4}\n")
    entries = [look, look, look, look, look, {"text": "done"}]
    assert (
        cli(
            "run", "go", "--agent", "guide", "--model", cli.script(*entries), "--output", "json"
        ).json["turns"]
        == 2
    )
    assert (
        cli(
            "run",
            "go",
            "--agent",
            "guide",
            "--model",
            cli.script(*entries),
            "--output",
            "json",
            "--max-turns",
            "3",
        ).json["turns"]
        == 3
    )


def test_a_project_cannot_raise_a_limit_and_is_told_so(cli: Cli):
    path = define(cli, "guide.md", f"{HEAD}limits: {{turns: 400}}\n---\n")
    answer = cli("run", "go", "--agent", "guide", "--model", cli.script({"text": "ok"}))
    assert answer.code == 0
    assert (
        f"! {path}:3: limits.turns is ignored: a workspace may only lower it, and it is 50 already"
        in answer.err
    )


def test_a_run_of_a_files_agent_that_waits_goes_on_by_its_name(cli: Cli):
    define(
        cli,
        "guide.md",
        f"{HEAD}tools: [write]\ninputs:\n  who: {{type: string}}\n---\nFor ${{who}}.\n",
    )
    model = cli.script(
        {
            "tool_calls": [
                {"name": "write", "arguments": {"path": "a.txt", "content": "x"}, "id": "w1"}
            ]
        },
        {"text": "written"},
    )
    waits = cli(
        "run", "go", "--agent", "guide", "--input", "who=Ada", "--model", model, "--on-ask", "wait"
    )
    assert waits.code == 4
    done = cli("runs", "resume", "last", "--approve", "w1")
    assert (done.code, done.out) == (0, "written\n"), done.err
    assert (cli.workspace / "a.txt").read_text() == "x"
    forked = cli("runs", "fork", "last", "--turn", "0", "--model", cli.script({"text": "again"}))
    assert (forked.code, forked.out) == (0, "again\n"), forked.err


def test_a_run_whose_agent_is_gone_says_so(cli: Cli):
    path = define(cli, "guide.md", f"{HEAD}tools: [write]\n---\n")
    model = cli.script(
        {
            "tool_calls": [
                {"name": "write", "arguments": {"path": "a.txt", "content": "x"}, "id": "w1"}
            ]
        }
    )
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
    model = cli.script(
        {"tool_calls": [{"name": "shout", "arguments": {"text": "hi"}}]}, {"text": "done"}
    )
    answer = cli(
        "run",
        "go",
        "--agent",
        "loud",
        "--model",
        model,
        "--output",
        "json",
        PYTHONPATH=str(modules),
    )
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


def test_a_projects_agent_does_not_replace_the_users_own(cli: Cli):
    mine = own(cli, "agents/guide.md", f"{HEAD}---\nMine.\n")
    theirs = define(cli, "guide.md", f"{HEAD}---\nTheirs.\n")
    answer = cli("run", "go", "--agent", "guide", "--model", cli.script({"text": "ok"}))
    assert answer.code == 0
    assert f"! guide: {mine} replaces {theirs}, because your own takes precedence" in answer.err


# ---------------------------------------------------------------- agents among tools, answers, hooks


def test_an_agent_of_a_file_hands_work_to_another_one(cli: Cli):
    define(cli, "boss.md", f"{HEAD}tools: [helper]\n---\nYou hand out.\n")
    script = cli.script({"text": "helped"})
    own(cli, "agents/helper.md", f"---\ndescription: Helps\nmodel: {script}\n---\nYou help.\n")
    model = cli.script(
        {"tool_calls": [{"name": "helper", "arguments": {"prompt": "help"}}]}, {"text": "bossed"}
    )
    events = cli(
        "run",
        "go",
        "--agent",
        "boss",
        "--model",
        model,
        "--output",
        "stream-json",
        "--mode",
        "full",
    ).events
    assert events[-1]["text"] == "bossed"
    assert next(event for event in events if event["type"] == "child_start")["agent"] == "helper"
    assert next(event for event in events if event["type"] == "tool_call_end")["result"] == "helped"


def test_the_answer_is_that_of_the_run_and_lines_of_its_agents_bear_their_names(cli: Cli):
    look = {"tool_calls": [{"name": "ls", "arguments": {"path": "."}}]}
    own(
        cli,
        "agents/deep.md",
        f"---\ndescription: Deep\nmodel: {cli.script(look, {'text': 'deep'})}\ntools: [ls]\n---\n",
    )
    ask = {"tool_calls": [{"name": "deep", "arguments": {"prompt": "go on"}}]}
    own(
        cli,
        "agents/helper.md",
        f"---\ndescription: Helps\nmodel: {cli.script(ask, {'text': 'helped'})}\ntools: [deep]\n---\n",
    )
    own(cli, "agents/boss.md", f"{HEAD}tools: [helper]\n---\n")
    entries = [
        {"tool_calls": [{"name": "helper", "arguments": {"prompt": "help"}}]},
        {"text": "bossed"},
    ]
    answer = cli("run", "go", "--agent", "boss", "--model", cli.script(*entries), "--mode", "full")
    assert (answer.code, answer.out) == (0, "bossed\n")
    lines = answer.err.splitlines()
    assert [line for line in lines if "•" in line] == [
        "• helper help",
        "  helper: • deep go on",
        "  helper: deep: • ls .",
    ]
    assert len([line for line in lines if "completed" in line]) == 1
    as_json = cli(
        "run",
        "go",
        "--agent",
        "boss",
        "--model",
        cli.script(*entries),
        "--mode",
        "full",
        "--output",
        "json",
    ).json
    assert (as_json["text"], "parent_run_id" in as_json) == ("bossed", False)


def test_a_run_that_was_killed_inside_an_agent_among_its_tools_goes_on(cli: Cli):
    look = {"tool_calls": [{"name": "ls", "arguments": {"path": "."}}]}
    own(
        cli,
        "agents/helper.md",
        f"---\ndescription: Helps\nmodel: {cli.script(look, {'text': 'helped'})}\ntools: [ls]\n---\n",
    )
    own(cli, "agents/boss.md", f"{HEAD}tools: [helper]\n---\n")
    model = cli.script(
        {"tool_calls": [{"name": "helper", "arguments": {"prompt": "help"}}]}, {"text": "bossed"}
    )
    killed = cli(
        "run", "go", "--agent", "boss", "--model", model, "--mode", "full", TREADLE_CRASH_AT="10"
    )
    assert killed.code == -9
    assert cli("runs", "list", "--json").json[0]["agent"] == "helper"
    boss = cli("runs", "list", "--json").json[1]["run_id"]
    answer = cli("runs", "resume", boss)
    assert (answer.code, answer.out) == (0, "bossed\n"), answer.err


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def schema_file(cli: Cli, text: str) -> str:
    path = cli.home / "schema.json"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("agent", [[], ["--agent", "guide"]])
def test_an_answer_that_fits_a_schema_is_json_on_stdout(cli: Cli, agent: list[str]):
    define(cli, "guide.md", f"{HEAD}---\n")
    file = schema_file(cli, json.dumps(SCHEMA))
    answer = cli(
        "run",
        "go",
        *agent,
        "--output-schema",
        file,
        "--model",
        cli.script({"text": 'Here: {"city": "Rome"}'}),
    )
    assert (answer.code, json.loads(answer.out)) == (0, {"city": "Rome"}), answer.err


@pytest.mark.parametrize(
    ("schema", "said", "printed"),
    [
        ({"type": "string"}, '{"result": "the \\"Forum\\""}', '"the \\"Forum\\""\n'),
        ({"type": "null"}, '{"result": null}', "null\n"),
        ({"type": "array"}, '{"result": ["Rome"]}', '["Rome"]\n'),
        (
            {"type": "object", "properties": {"result": {"type": "string"}}},
            '{"result": "Rome"}',
            '{"result":"Rome"}\n',
        ),
    ],
)
def test_an_answer_of_any_type_is_json_on_stdout_also_after_a_crash(
    cli: Cli, schema: dict[str, Any], said: str, printed: str
):
    model, file = cli.script({"text": said}), schema_file(cli, json.dumps(schema))
    answer = cli("run", "go", "--output-schema", file, "--model", model)
    assert (answer.code, answer.out) == (0, printed), answer.err
    assert cli("runs", "replay", "last").out == printed
    assert (
        cli("run", "go", "--output-schema", file, "--model", model, TREADLE_CRASH_AT="4").code == -9
    )
    Path(file).unlink()
    resumed = cli("runs", "resume", "last")
    assert (resumed.code, resumed.out) == (0, printed), resumed.err


def test_an_answer_that_never_fits_exits_with_1(cli: Cli):
    file = schema_file(cli, json.dumps(SCHEMA))
    answer = cli(
        "run",
        "go",
        "--output-schema",
        file,
        "--model",
        cli.script(*[{"text": "Rome"}] * 9),
        "--output",
        "json",
    )
    assert (answer.code, answer.json["outcome"], answer.json["validated"]) == (
        1,
        "invalid_output",
        False,
    )
    told = cli(
        "run", "go", "--output-schema", file, "--model", cli.script(*[{"text": "Rome"}] * 9), "-q"
    )
    assert (told.code, told.out) == (1, "Rome\n")
    assert "the answer is not a valid output" in told.err


def test_the_output_of_a_definition_is_what_its_answer_fits(cli: Cli):
    define(cli, "guide.md", f"{HEAD}tools: [complete]\noutput: {json.dumps(SCHEMA)}\n---\n")
    model = cli.script(
        {"tool_calls": [{"name": "complete", "arguments": {"output": {"city": "Rome"}}}]}
    )
    answer = cli("run", "go", "--agent", "guide", "--model", model)
    assert (answer.code, json.loads(answer.out)) == (0, {"city": "Rome"}), answer.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "schema.json:1: --output-schema is not valid JSON: "),
        ("[]", "schema.json: --output-schema must be a JSON Schema, an object"),
        (
            '{"type": "objekt"}',
            "schema.json: --output-schema is not a valid JSON Schema: output has the type 'objekt'",
        ),
        (
            '{"type": "number", "minimum": "1"}',
            "schema.json: --output-schema is not a valid JSON Schema: ",
        ),
        (
            '{"$schema": "http://127.0.0.1:9/x"}',
            "schema.json: --output-schema is not a valid JSON Schema: ",
        ),
        (
            '{"a":' * 100_000 + "1" + "}" * 100_000,
            "schema.json: --output-schema is nested too deeply",
        ),
    ],
)
def test_a_schema_that_is_none_is_refused_before_anything_is_asked(cli: Cli, text: str, said: str):
    answer = cli(
        "run",
        "go",
        "--output-schema",
        schema_file(cli, text),
        "--model",
        cli.script({"text": "ok"}),
    )
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    missing = cli(
        "run", "go", "--output-schema", "nowhere.json", "--model", cli.script({"text": "ok"})
    )
    assert (missing.code, "cannot read --output-schema 'nowhere.json'" in missing.err) == (2, True)


def test_an_agent_that_checks_its_output_takes_no_schema(cli: Cli):
    modules = cli.home / "modules"
    modules.mkdir()
    (modules / "mine.py").write_text(
        "from treadle import Agent\n"
        "guide = Agent(name='guide', output=int, output_check=lambda ctx, output: None)\n"
    )
    own(cli, "config.yaml", "agents: [mine]\n")
    file, model = schema_file(cli, json.dumps(SCHEMA)), cli.script({"text": '{"result": 3}'})
    given = ("run", "go", "--agent", "guide", "--model", model)
    answer = cli(*given, "--output-schema", file, PYTHONPATH=str(modules))
    assert (answer.code, answer.out) == (2, "")
    assert "agent 'guide' checks its own output (output_check=): leave out" in answer.err
    assert cli(*given, PYTHONPATH=str(modules)).out == "3\n"


GUARD = """
from treadle import Deny, Hook


class Guard(Hook):
    async def before_tool(self, run, call):
        return Deny("the guard says no") if call.name == "ls" else None


guard = Guard()
"""


def test_hooks_of_modules_are_asked_in_every_run(cli: Cli):
    modules = cli.home / "modules"
    modules.mkdir()
    (modules / "mine.py").write_text(GUARD)
    own(cli, "config.yaml", "agents: [mine]\n")
    define(cli, "guide.md", f"{HEAD}tools: [ls]\n---\n")
    look = {"tool_calls": [{"name": "ls", "arguments": {"path": "."}}]}
    for agent in ([], ["--agent", "guide"]):
        events = cli(
            "run",
            "go",
            *agent,
            "--model",
            cli.script(look, {"text": "ok"}),
            "--output",
            "stream-json",
            PYTHONPATH=str(modules),
        ).events
        assert "the guard says no" in json.dumps(events)
    broken = cli("run", "go", "--model", cli.script({"text": "ok"}))
    assert (broken.code, broken.out) == (2, "")
    assert "there is no 'mine'" in broken.err


def test_the_model_of_an_option_goes_before_the_agents(cli: Cli):
    own(cli, "agents/guide.md", f"{HEAD}model: {cli.script({'text': 'of the file'})}\n---\n")
    assert cli("run", "go", "--agent", "guide").out == "of the file\n"
    assert (
        cli("run", "go", "--agent", "guide", "--model", cli.script({"text": "of the option"})).out
        == "of the option\n"
    )


def test_tools_of_an_mcp_server_are_those_that_the_definition_names(cli: Cli):
    server = Path(__file__).parents[1] / "tools" / "mcp" / "a_server.py"
    own(
        cli,
        "config.yaml",
        f"mcp_servers: {{ours: {{command: {json.dumps(command(str(server), 'stdio'))}}}}}\n",
    )
    define(cli, "guide.md", f"{HEAD}tools: [ours_add]\n---\n")
    calls = [
        {"name": "ours_add", "arguments": {"a": 1, "b": 2}},
        {"name": "ours_fail", "arguments": {"why": "x"}},
    ]
    answer = cli(
        "run",
        "go",
        "--agent",
        "guide",
        "--model",
        cli.script({"tool_calls": calls}, {"text": "ok"}),
        "--mode",
        "full",
        "--output",
        "stream-json",
    )
    results = {event["name"]: event for event in answer.events if event["type"] == "tool_call_end"}
    assert results["ours_add"]["result"] == "3", answer.err
    assert "There is no tool named 'ours_fail'" in json.dumps(answer.events)
