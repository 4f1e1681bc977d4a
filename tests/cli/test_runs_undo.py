"""`runs undo`: files go back to what they were before a run changed them, also after a crash, and
what cannot go back is said.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import KEY, Answer, Cli
from tests.doubles import asks, call, says

OLD = "one\ntwo\n"
SCRIPT = (
    asks(call("read", path="a.txt")),
    asks(
        call("edit", path="a.txt", edits=[{"old": "one", "new": "1"}]),
        call("write", path="new/b.txt", content="made\n"),
    ),
    asks(
        call("write", path="new/c.txt", content="made\n"),
        call("edit", path="a.txt", edits=[{"old": "two", "new": "2"}]),
    ),
    says("Done."),
)


def ran(cli: Cli, *script: dict[str, Any], mode: str = "full", **environment: str) -> Answer:
    return cli(
        "run", "x", "--model", cli.script(*script), "--mode", mode, "--no-sandbox", **environment
    )


@pytest.fixture
def done(cli: Cli) -> Cli:
    (cli.workspace / "a.txt").write_text(OLD)
    assert ran(cli, *SCRIPT).code == 0
    assert (cli.workspace / "a.txt").read_text() == "1\n2\n"
    return cli


def lying(cli: Cli) -> dict[str, str]:
    return {
        str(path.relative_to(cli.workspace)): path.read_text()
        for path in sorted(cli.workspace.rglob("*"))
        if path.is_file()
    }


def next_step(cli: Cli, *there: str) -> str:
    run = cli("runs", "show", "last", "--json", *there).json
    return (
        "A refused file is not changed. If a later run or turn changed it, undo that one first; otherwise change it by hand:\n"
        f"  {' '.join(['treadle', 'runs', 'export', run['run_id'], *there])} contains what this run wrote\n"
    )


def test_a_run_is_undone(done: Cli) -> None:
    answer = done("runs", "undo", "last")
    assert (answer.code, answer.out) == (
        0,
        "restored a.txt\nremoved new/b.txt\nremoved new/c.txt\n",
    )
    assert lying(done) == {"a.txt": OLD}
    assert not (done.workspace / "new").exists()
    again = done("runs", "undo", "last")
    assert (again.code, again.out) == (
        0,
        "".join(
            f"unchanged {name}: already restored\n" for name in ("a.txt", "new/b.txt", "new/c.txt")
        ),
    )


def test_one_turn_is_undone(done: Cli) -> None:
    assert done("runs", "undo", "last", "--turn", "3").out == "removed new/c.txt\nrestored a.txt\n"
    assert lying(done) == {"a.txt": "1\ntwo\n", "new/b.txt": "made\n"}
    assert (
        done("runs", "undo", "last", "--turn", "1").out == "No file was changed by write or edit.\n"
    )
    assert done("runs", "undo", "last", "--turn", "2").code == 0
    assert lying(done) == {"a.txt": OLD}


def test_an_earlier_turn_is_not_undone_under_a_later_one(done: Cli) -> None:
    answer = done("runs", "undo", "last", "--turn", "2")
    assert (answer.code, answer.out) == (
        1,
        "refused a.txt: it has been changed since\nremoved new/b.txt\n" + next_step(done),
    )
    assert lying(done) == {"a.txt": "1\n2\n", "new/c.txt": "made\n"}


def test_a_file_that_was_changed_since_is_left(done: Cli) -> None:
    (done.workspace / "a.txt").write_text("mine\n")
    answer = done("runs", "undo", "last")
    assert (answer.code, answer.out) == (
        1,
        "refused a.txt: it has been changed since\nremoved new/b.txt\nremoved new/c.txt\n"
        + next_step(done),
    )
    assert lying(done) == {"a.txt": "mine\n"}


def test_what_to_do_about_a_refused_file_names_the_journal_where_one_was_named(cli: Cli) -> None:
    there = ("--journal", f"sqlite:///{cli.home / 'other.db'}")
    script = cli.script(asks(call("write", path="a", content="x\n")), says("Done."))
    assert cli("run", "x", "--mode", "full", "--model", script, *there).code == 0
    (cli.workspace / "a").write_text("mine\n")
    answer = cli("runs", "undo", "last", "--dry-run", *there)
    assert (answer.code, answer.out) == (
        1,
        "refused a: it has been changed since\n" + next_step(cli, *there),
    )


def test_a_dry_run_only_says(done: Cli) -> None:
    before = lying(done)
    answer = done("runs", "undo", "last", "--dry-run")
    assert (answer.code, answer.out) == (
        0,
        "would be restored a.txt\nwould be removed new/b.txt\nwould be removed new/c.txt\n",
    )
    assert lying(done) == before


def test_what_commands_did_is_listed(cli: Cli) -> None:
    (cli.workspace / "mine").write_text("before\n")
    script = [
        asks(call("bash", command="echo x > by-bash; echo y >> mine")),
        asks(call("write", path="a", content="x\n")),
        says("Done."),
    ]
    assert ran(cli, *script).code == 0
    # a change within the tick of a file system's clock counts as one by the command
    later, over = cli.workspace / "later", (cli.workspace / "a").stat().st_ctime
    later.write_text("after\n")
    while later.stat().st_ctime < over + 0.1:
        later.write_text("after\n")
    answer = cli("runs", "undo", "last")
    assert answer.code == 0
    assert answer.out == (
        "removed a\nCannot be undone (1 call):\n  turn 1: bash echo x > by-bash; echo y >> mine\n"
        "Files that changed while these ran, possibly because of them; they are left unchanged:\n "
        " by-bash\n  mine\n"
    )
    assert set(lying(cli)) == {"by-bash", "mine", "later"}


def test_as_json(cli: Cli) -> None:
    script = [
        asks(
            call("write", "call_a", path="a", content="x\n"),
            call("bash", "call_b", command=f"echo {KEY} > b"),
        ),
        says("Done."),
    ]
    assert ran(cli, *script, ANTHROPIC_API_KEY=KEY).code == 0
    found = cli("runs", "undo", "last", "--json", ANTHROPIC_API_KEY=KEY).json
    root = cli.workspace.resolve()
    assert found["files"] == [{"path": str(root / "a"), "action": "removed", "calls": ["call_a"]}]
    assert [
        (left["call_id"], left["name"], left["turn"], left["why"]) for left in found["not_undoable"]
    ] == [("call_b", "bash", 1, "its changes are unknown")]
    assert (found["applied"], found["turn"], found["changed_meanwhile"]) == (
        True,
        None,
        [str(root / "b")],
    )


@pytest.mark.parametrize("at", range(1, 30))
def test_a_crash_at_any_boundary_can_be_undone(cli: Cli, at: int) -> None:
    (cli.workspace / "a.txt").write_text(OLD)
    script = cli.script(*SCRIPT)
    died = cli("run", "x", "--model", script, "--mode", "full", TREADLE_CRASH_AT=str(at))
    if died.code == 0:
        pytest.skip("there are no more boundaries")
    if at % 2 and cli("runs", "list", "--json").json:
        cli("runs", "resume", "last")
    answer = cli("runs", "undo", "last")
    assert answer.code in (0, 2), "2: it died before there was a run"
    assert lying(cli) == {"a.txt": OLD}


def test_what_was_not_kept_is_said(done: Cli) -> None:
    for path in (done.home / ".treadle" / "undo").rglob("*.json"):
        path.unlink()
    answer = done("runs", "undo", "last")
    assert answer.code == 0
    assert answer.out.startswith(
        "No file was changed by write or edit.\nCannot be undone (4 calls):\n  turn 2: edit "
    )
    assert lying(done)["a.txt"] == "1\n2\n"


def test_what_is_pruned_is_kept_no_longer(done: Cli) -> None:
    kept = done.home / ".treadle" / "undo"
    assert len([*kept.iterdir()]) == 1
    assert done("runs", "prune", "--older-than", "0h", "--yes").code == 0
    assert [*kept.iterdir()] == []


def test_a_run_that_nobody_keeps_leaves_nothing(cli: Cli) -> None:
    assert (
        cli(
            "run",
            "x",
            "--ephemeral",
            "--mode",
            "full",
            "--model",
            cli.script(asks(call("write", path="a", content="x")), says("ok")),
        ).code
        == 0
    )
    assert not (cli.home / ".treadle" / "undo").exists()


def test_wrong_use_is_told(done: Cli) -> None:
    assert "there is no turn 9" in done("runs", "undo", "last", "--turn", "9").err
    assert done("runs", "undo", "nonsense").code == 2
    assert Path(done.home / ".treadle" / "undo").stat().st_mode & 0o77 == 0
