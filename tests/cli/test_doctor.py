"""`treadle doctor`: what it finds of the journal. It makes none."""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.test_agents import own
from tests.fork_server import command
from treadle.journal.sqlite.schema import VERSION


def journal(cli: Cli, **environment: str) -> dict[str, Any]:
    findings = json.loads(cli("doctor", "--offline", "--json", **environment).out)
    return next(finding for finding in findings if finding["what"] == "journal")


def test_a_journal_that_is_not_there_is_fine_and_is_not_made(cli: Cli):
    found = journal(cli)
    assert found["state"] == "ok"
    assert f"{cli.home}/.treadle/journal.db: does not exist yet" in found["text"]
    assert list(cli.home.iterdir()) == []


def test_a_journal_is_opened_and_its_runs_are_counted(cli: Cli):
    assert cli("run", "x", "--model", cli.script({"text": "hi"})).code == 0
    assert (
        cli("run", "x", "--model", cli.script({"text": "hi"}), TREADLE_CRASH_AT="4").code
        == -signal.SIGKILL
    )
    found = journal(cli)
    assert found["state"] == "ok"
    assert all(
        words in found["text"]
        for words in (f"journal.db: version {VERSION}, ", "kB, 2 runs, 1 stopped")
    ), found


@pytest.mark.parametrize(
    ("url", "state", "said"),
    [
        ("memory:", "note", "in memory"),
        ("postgresql://ada@db/runs", "bad", "PostgreSQL"),
        ("sqlite:///text.db", "bad", "is neither a journal"),
        ("sqlite:///newer.db", "bad", "newer"),
        ("sqlite:///text.db/journal.db", "bad", "cannot be created"),
    ],
)
def test_a_journal_that_no_run_could_use_is_bad(cli: Cli, url: str, state: str, said: str):
    (cli.workspace / "text.db").write_text("no journal\n" * 200)
    assert (
        cli(
            "run", "x", "--journal", "sqlite:///newer.db", "--model", cli.script({"text": "hi"})
        ).code
        == 0
    )
    with closing(sqlite3.connect(cli.workspace / "newer.db")) as newer:
        newer.execute("pragma user_version = 9999")
    found = journal(cli, TREADLE_JOURNAL=url)
    assert (found["state"], said in found["text"]) == (state, True), found


# ---------------------------------------------------------------- MCP servers

SERVER = Path(__file__).parent.parent / "tools" / "mcp" / "a_server.py"


def servers(cli: Cli, *options: str) -> list[tuple[str, str]]:
    findings = json.loads(cli("doctor", "--json", *options).out)
    return [(finding["state"], finding["text"]) for finding in findings if finding["what"] == "mcp"]


@pytest.mark.process  # --full also tries every known escape from the sandbox
def test_configured_mcp_servers_are_asked_only_with_full(cli: Cli):
    assert servers(cli, "--offline") == []
    own(
        cli,
        "config.yaml",
        f"""defaults: {{sandbox: "off"}}
mcp_servers:
  good: {{command: {json.dumps(command(str(SERVER), "stdio"))}, env: {{TOKEN: hunter2hunter2}}, tools: [add, fial]}}
  dead: {{command: [/no/such/program]}}
  far: {{url: "http://127.0.0.1:9/mcp?key=hunter2hunter2"}}
""",
    )
    ((state, said),) = servers(cli, "--offline")
    assert (state, said) == (
        "note",
        "good, dead, far: not checked; --full starts them and lists their tools",
    )
    assert servers(cli, "--offline", "--full") == [
        ("note", "far: not checked, because of --offline"),
        ("ok", f"good: 1 tool from {sys.executable}"),
        (
            "note",
            "the MCP server 'good': 'fial' not offered: it has no tool of this name, which tools= lists",
        ),
        (
            "bad",
            "the MCP server 'dead' cannot be used: it could not be connected to: the program '/no/such/program' cannot be started: No such file or directory",
        ),
    ]


# ---------------------------------------------------------------- the model that sums up


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("openai:gpt-mini", "OPENAI_API_KEY"),
        ("script:gone.json", "there is no such file"),
        ("", ""),
    ],
)
def test_a_small_model_that_could_not_sum_up_is_noted_where_somebody_chose_it(
    cli: Cli, name: str, why: str
):
    if name:
        config = cli.home / ".treadle" / "config.yaml"
        config.parent.mkdir(exist_ok=True)
        config.write_text(f'models:\n  small: "{name}"\n')
    findings = [
        one
        for one in json.loads(cli("doctor", "--offline", "--json").out)
        if one["what"] == "small model"
    ]
    assert [
        (one["state"], why in one["text"], "own model instead" in one["text"]) for one in findings
    ] == ([("note", True, True)] if name else [])
