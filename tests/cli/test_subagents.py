"""Agents that start agents, on the command line: a tree of runs is shown, waits, and is gone on
with as one.
"""

from __future__ import annotations

import re
from typing import Any

from tests.cli.conftest import Cli
from tests.cli.test_agents import own

ASKS = {
    "tool_calls": [{"name": "bash", "id": "s1", "arguments": {"command": "echo sent >> sent.txt"}}]
}
DELEGATES = {"tool_calls": [{"name": "sender", "id": "b1", "arguments": {"prompt": "send it"}}]}
MODULE = """from treadle import ToolDeferred, tool

@tool(effect="once")
async def order(what: str) -> str:
    "Orders something, which takes days."
    raise ToolDeferred("the shop answers by mail")
"""


def delegating(cli: Cli) -> str:
    """A run that waits, because a run that it started does; gives its id."""
    own(
        cli,
        "agents/sender.md",
        f"---\ndescription: Sends\nmodel: {cli.script(ASKS, {'text': 'it is sent'})}\ntools: [bash]\n---\nSend.\n",
    )
    own(
        cli,
        "agents/boss.md",
        f"---\ndescription: Has it sent\nmodel: {cli.script(DELEGATES, {'text': 'all done'})}\ntools: [sender]\n---\nBoss.\n",
    )
    answer = cli("run", "go", "--agent", "boss", "--on-ask", "wait")
    assert answer.code == 4, answer
    return next(row["run_id"] for row in rows(cli) if row["agent"] == "boss")


def rows(cli: Cli) -> list[dict[str, Any]]:
    return cli("runs", "list", "--json").json  # pyright: ignore[reportReturnType]  it is a list


def test_a_run_that_waits_for_one_below_it_says_for_which_call_and_what_to_type(cli: Cli):
    run_id = delegating(cli)
    child = next(row["run_id"] for row in rows(cli) if row["agent"] == "sender")
    for answer in (cli("runs", "resume", run_id), cli("runs", "show", run_id)):
        said = answer.err + answer.out
        assert f"waits as s1 in {child}" in " ".join(said.split())
        assert f"treadle runs resume {run_id} --approve s1" in said
        assert "b1" not in re.findall(r"\w+", said.partition("?")[2])
    answer = cli("runs", "resume", run_id, "--approve", "s1")
    assert (answer.code, answer.out.strip()) == (0, "all done")
    assert (cli.workspace / "sent.txt").read_text() == "sent\n"
    assert {row["status"] for row in rows(cli)} == {"finished"}


def test_a_call_of_a_run_below_is_denied_through_the_one_above(cli: Cli):
    run_id = delegating(cli)
    assert cli("runs", "resume", run_id, "--deny", "s1=not today").code == 0
    assert not (cli.workspace / "sent.txt").exists()
    refused = cli("runs", "resume", delegating(cli), "--approve", "nothing")
    assert refused.code == 2
    assert "s1" in refused.err


def test_a_tree_of_runs_is_shown(cli: Cli):
    run_id = delegating(cli)
    cli("runs", "resume", run_id, "--approve", "s1")
    shown = cli("runs", "show", run_id).out
    child = next(row["run_id"] for row in rows(cli) if row["agent"] == "sender")
    assert f"↳ sender  {child}" in shown
    as_json = cli("runs", "show", run_id, "--json").json
    (below,) = as_json["children"]
    assert (below["run_id"], below["parent_run_id"], below["outcome"]) == (
        child,
        run_id,
        "completed",
    )
    assert "children" not in cli("runs", "show", child, "--json").json
    listed = cli("runs", "list").out.splitlines()
    assert [line for line in listed if "↳ send it" in line]


def test_the_runs_that_one_has_started_do_not_hide_the_others_in_the_list(cli: Cli):
    asks = [{"name": "poet", "arguments": {"prompt": f"verse {i}"}} for i in range(25)]
    own(
        cli,
        "agents/poet.md",
        f"---\ndescription: Writes\nmodel: {cli.script({'text': 'a rose'})}\n---\nWrite.\n",
    )
    own(
        cli,
        "agents/editor.md",
        f"---\ndescription: Edits\nmodel: {cli.script({'tool_calls': asks}, {'text': 'a book'})}\ntools: [poet]\n---\nEdit.\n",
    )
    assert cli("run", "before", "--model", cli.script({"text": "ok"})).code == 0
    assert cli("run", "a book, please", "--agent", "editor").code == 0
    head, *lines, more, _ = cli("runs", "list", "--limit", "2").out.split("\n")
    assert head.startswith("RUN")
    assert [line.rpartition("  ")[2] for line in lines] == [
        "↳ verse 24",
        "↳ verse 23",
        "↳ verse 22",
        "a book, please",
        "before",
    ]
    assert len({line.split()[0] for line in lines}) == 5
    book = next(row["run_id"] for row in rows(cli) if row["agent"] == "editor")
    assert (more.startswith("22 more runs of "), more.endswith(f": treadle runs show {book}")) == (
        True,
        True,
    )
    for line in lines:
        assert cli("runs", "show", line.split()[0], "--json").code == 0
    assert len(rows(cli)) == 27
    assert len(cli("runs", "list", "--json", "--limit", "1").json) == 26


def test_a_result_from_outside_is_given_days_later(cli: Cli):
    modules = cli.home / "modules"
    modules.mkdir()
    (modules / "mine.py").write_text(MODULE)
    own(cli, "config.yaml", "agents: [mine]\n")
    script = cli.script(
        {"tool_calls": [{"name": "order", "id": "o1", "arguments": {"what": "tea"}}]},
        {"text": "it comes on Monday"},
    )
    own(
        cli,
        "agents/buyer.md",
        f"---\ndescription: Buys\nmodel: {script}\ntools: [order]\n---\nBuy.\n",
    )
    paths = {"PYTHONPATH": str(modules)}
    begun = cli("run", "go", "--agent", "buyer", "--mode", "full", **paths)
    assert begun.code == 4, begun
    assert "waits as o1: the shop answers by mail" in begun.err
    assert "--result o1=TEXT" in begun.err
    assert "--approve" not in begun.err
    assert cli("runs", "resume", "last", **paths).code == 4
    answer = cli("runs", "resume", "last", "--result", "o1=on Monday", **paths)
    assert (answer.code, answer.out.strip()) == (0, "it comes on Monday")
