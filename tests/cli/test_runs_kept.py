"""`runs export`, `import` and `prune`: runs leave a journal, and come into one."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import Cli
from tests.cli.test_runs import CHARGE, crashed, rows
from tests.cli.test_runs_driven import waiting
from tests.fork_server import command
from tests.journal.runs import asks, finished, started
from treadle import Runtime
from treadle.cli.exits import CommandFailed
from treadle.cli.runs.lines import export_lines, read_lines
from treadle.journal.entries import InputAdded, RunStarted
from treadle.messages.message import Message
from treadle.types import now


def exported(cli: Cli, *options: str, name: str = "run.jsonl", run: str = "last") -> Path:
    answer = cli("runs", "export", run, "-o", name, *options)
    assert (answer.code, answer.out) == (0, "")
    return cli.workspace / name


def other(cli: Cli, name: str = "other.db") -> tuple[str, str]:
    return ("--journal", f"sqlite:///{cli.home / name}")


# ---------------------------------------------------------------- export and import


def test_what_is_exported_with_a_signature_is_imported_byte_for_byte(cli: Cli) -> None:
    assert cli("run", "x " * 9000, "--model", cli.script(*CHARGE), "--mode", "full").code == 0
    file = exported(cli, "--sign")
    taken = cli("runs", "import", str(file), *other(cli))
    assert taken.code == 0
    assert taken.out.startswith(f"{rows(cli)[0]['run_id']}: completed, ")
    assert cli("runs", "export", "last", "--sign", *other(cli)).out.encode() == file.read_bytes()
    assert rows(cli, *other(cli)) == rows(cli)
    assert cli("runs", "show", "last", *other(cli)).out == cli("runs", "show", "last").out


def test_a_run_is_imported_from_standard_input_and_goes_on_here(cli: Cli) -> None:
    crashed(cli)
    taken = cli(
        "runs",
        "import",
        "-",
        "--json",
        *other(cli),
        stdin=cli("runs", "export", "last", "--sign").out,
    )
    assert (taken.code, taken.json["status"]) == (0, "stopped")
    assert cli("runs", "resume", "last", *other(cli)).code == 0
    assert (cli.workspace / "witness").read_text() == "a1\n"
    assert rows(cli)[0]["status"] == "stopped"


def test_an_unsigned_run_waits_for_an_answer_to_its_open_call(cli: Cli) -> None:
    crashed(cli)
    taken = cli(
        "runs", "import", "-", "--json", *other(cli), stdin=cli("runs", "export", "last").out
    )
    assert taken.code == 0
    model = ("--model", cli.script({"text": "All done."}))
    waits = cli("runs", "resume", "last", *model, *other(cli))
    assert waits.code == 4
    assert "it had begun elsewhere and may have taken effect" in waits.err
    assert cli("runs", "resume", "last", "--deny", "a1", *model, *other(cli)).code == 0
    assert (cli.workspace / "witness").read_text() == "a1\n"


def test_importing_twice_says_so(cli: Cli) -> None:
    assert cli("run", "x", "--model", cli.script({"text": "ok"})).code == 0
    answer = cli("runs", "import", str(exported(cli)))
    assert answer.code == 2
    assert "is already in this journal" in answer.err
    assert len(rows(cli)) == 1


def test_a_fork_is_imported_after_the_run_it_came_from(cli: Cli) -> None:
    assert (
        cli("run", "x", "--model", cli.script(*CHARGE, {"text": "Another."}), "--mode", "full").code
        == 0
    )
    parent = rows(cli)[0]["run_id"]
    assert cli("runs", "fork", "last", "--turn", "1").code == 0
    files = [exported(cli, name="fork.jsonl"), exported(cli, name="parent.jsonl", run=parent)]
    early = cli("runs", "import", str(files[0]), *other(cli))
    assert early.code == 2
    assert parent in early.err
    assert [cli("runs", "import", str(file), *other(cli)).code for file in reversed(files)] == [
        0,
        0,
    ]
    again = cli("runs", "replay", "last", *other(cli))
    assert again.out == cli("runs", "replay", "last").out


def broken_lines(lines: list[str]) -> dict[str, tuple[list[str], int]]:
    """What is done to a file of at least four lines, and the number of the line that must be named."""
    entry = json.loads(lines[2])
    return {
        "cut": ([*lines[:2], lines[2][: len(lines[2]) // 2]], 3),
        "no JSON": ([lines[0], "what?", *lines[1:]], 2),
        "a line is missing": ([lines[0], *lines[2:]], 2),
        "a line twice": ([lines[0], lines[0], *lines[1:]], 2),
        "no entry": ([*lines[:2], json.dumps({"seq": 3, "type": entry["type"]}), *lines[3:]], 3),
        "another type": ([*lines[:2], json.dumps(entry | {"type": "run.finished"}), *lines[3:]], 3),
        "a broken entry": (
            [*lines[:2], json.dumps(entry | {"entry": {"type": entry["type"]}}), *lines[3:]],
            3,
        ),
        "a strange entry": (
            [
                *lines[:2],
                json.dumps(entry | {"type": "new.kind", "entry": {"type": "new.kind"}}),
                *lines[3:],
            ],
            3,
        ),
        "blank lines": (["", lines[0], "", "{", *lines[1:]], 4),
        "no beginning": (lines[1:], 1),
    }


def test_a_broken_line_is_named_and_nothing_is_imported(cli: Cli) -> None:
    assert cli("run", "x", "--model", cli.script(*CHARGE), "--mode", "full").code == 0
    lines = exported(cli).read_text().splitlines()
    for what, (broken, number) in broken_lines(lines).items():
        file = cli.workspace / "broken.jsonl"
        file.write_text("\n".join(broken))
        answer = cli("runs", "import", str(file), *other(cli))
        assert answer.code == 2, what
        assert answer.err.startswith(f"treadle: {file}:{number}: "), (what, answer.err)
        assert len(answer.err.splitlines()) == 1
    assert not (cli.home / "other.db").exists()


def test_what_is_no_export_at_all_is_refused(cli: Cli) -> None:
    (cli.workspace / "empty").write_text("")
    (cli.workspace / "bytes").write_bytes(os.urandom(2000) + b"\xff")
    for file in ("empty", "bytes", "nowhere", "."):
        answer = cli("runs", "import", file)
        assert answer.code == 2
        assert len(answer.err.splitlines()) == 1
    assert cli("runs", "import", "-", stdin="").code == 2


TEXTS = st.text(st.characters(exclude_categories=[]), max_size=40)


@given(st.lists(TEXTS, max_size=5))
def test_any_text_survives_as_it_is(texts: list[str]) -> None:
    started = RunStarted(
        at=now(),
        run_id="r",
        agent="a",
        agent_hash="h",
        model="m",
        mode="full",
        cwd="/",
        input=Message.user("".join(texts)),
    )
    stored = [
        started.to_json(),
        *(InputAdded(at=now(), message=Message.user(text), by="user").to_json() for text in texts),
    ]
    assert read_lines(export_lines(stored), "file") == stored


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_a_sentence(data: bytes) -> None:
    with pytest.raises(CommandFailed):
        read_lines(data.splitlines(keepends=True), "file")


# ---------------------------------------------------------------- prune


def test_nothing_is_deleted_where_nobody_can_be_asked(cli: Cli) -> None:
    assert cli("run", "x", "--model", cli.script({"text": "ok"})).code == 0
    asked = cli("runs", "prune", "--older-than", "0h")
    assert asked.code == 2
    assert "1 run older than 0h: " in asked.out
    assert "--yes" in asked.err
    assert len(rows(cli)) == 1


def test_old_runs_are_deleted_and_young_ones_are_not(cli: Cli) -> None:
    for _ in range(2):
        assert cli("run", "x", "--model", cli.script({"text": "ok"})).code == 0
    crashed(cli)
    assert "nothing to delete" in cli("runs", "prune", "--older-than", "30d").out
    assert "nothing to delete" in cli("runs", "prune", "--older-than", "999999w").out
    assert "nothing to delete" in cli("runs", "prune", "--older-than", "30d", *other(cli)).out
    assert not (cli.home / "other.db").exists()
    done = cli("runs", "prune", "--older-than", "0h", "--yes")
    assert done.code == 0
    assert done.out.splitlines()[-1] == "Deleted 2 runs."
    assert {row["status"] for row in rows(cli)} == {"stopped"}


def test_what_a_fork_needs_is_kept(cli: Cli) -> None:
    assert cli("run", "x", "--model", cli.script(*ASKED), "--on-ask", "deny").code == 4
    parent = rows(cli)[0]["run_id"]
    assert (
        cli(
            "runs", "fork", "last", "--turn", "0", "--on-ask", "wait", "--model", cli.script(*ASKED)
        ).code
        == 4
    )
    done = cli("runs", "prune", "--older-than", "0h", "--yes")
    assert done.code == 0
    assert "Kept, because remaining runs need it: 1 run of that age." in done.out
    assert cli("runs", "prune", "--older-than", "0h", "--yes", "--json").json["kept"] == [parent]
    assert len(rows(cli)) == 2


ASKED = [{"tool_calls": [{"name": "bash", "arguments": {"command": "touch it"}}]}, {"text": "ok"}]


@pytest.mark.parametrize("age", ["30", "d", "-1d", "1.5d", "10m", "3 days", "", "9999999d"])
def test_an_age_that_could_be_misread_is_refused(cli: Cli, age: str) -> None:
    answer = cli("runs", "prune", f"--older-than={age}", "--yes")
    assert answer.code == 2
    assert "12h, 30d, 8w" in answer.err


@pytest.mark.parametrize(("answer", "left"), [("y", 0), ("n", 1)])
def test_a_person_is_asked_on_a_terminal(cli: Cli, answer: str, left: int) -> None:
    assert cli("run", "x", "--model", cli.script({"text": "ok"})).code == 0
    ours, theirs = pty.openpty()
    words = command("treadle", "runs", "prune", "--older-than", "0h")
    process = subprocess.Popen(
        words, cwd=cli.workspace, env=cli.environment(), stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    said = b""
    while b"[y/N]" not in said:
        assert select.select([ours], [], [], 20)[0], said
        said += os.read(ours, 1000)
    os.write(ours, f"{answer}\n".encode())
    assert process.wait(timeout=200) == (0 if answer == "y" else 1)
    os.close(ours)
    assert len(rows(cli)) == left


def test_a_run_that_waits_is_not_pruned(cli: Cli) -> None:
    waiting(cli)
    assert cli("runs", "prune", "--older-than", "0h", "--yes").code == 0
    assert [row["status"] for row in rows(cli)] == ["waiting"]


async def _family(url: str) -> None:
    """A finished run, and a part of it that nobody drives."""
    async with Runtime.open(url) as rt:
        parent = await rt.journal.begin(started("over"))
        part = await rt.journal.begin(started("part_over", parent="over"))
        await part.append(asks(1, "c1"))
        await part.release()
        await parent.append([finished()])


def test_parts_that_ended_runs_have_left_are_ended_and_deleted_with_them(cli: Cli) -> None:
    anyio.run(_family, other(cli)[1])
    assert {row["status"] for row in rows(cli, *other(cli))} == {"finished", "stopped"}
    prune = ("runs", "prune", "--older-than", "0h", "--yes", *other(cli))
    assert cli(*prune).code == 0
    assert {row["status"] for row in rows(cli, *other(cli))} == {"finished"}
    assert cli(*prune).code == 0
    assert rows(cli, *other(cli)) == [], "they have been over for long enough now"


# ---------------------------------------------------------------- encrypt


def test_a_journal_is_encrypted_and_read_with_its_key_only(cli: Cli) -> None:
    key = bytes(range(32)).hex()
    assert cli("run", "Zwiebelfisch", "--model", cli.script({"text": "ok"})).code == 0
    refused = cli("runs", "encrypt")
    assert refused.code == 2
    assert "set TREADLE_JOURNAL_KEY to a key of 32 bytes: `python -c" in refused.err
    done = cli("runs", "encrypt", TREADLE_JOURNAL_KEY=key)
    assert done.out.startswith("Encrypted ")
    assert b"Zwiebelfisch" not in (cli.home / ".treadle" / "journal.db").read_bytes()
    assert "is encrypted: set TREADLE_JOURNAL_KEY" in cli("runs", "list").err
    assert "Zwiebelfisch" in cli("runs", "export", "last", TREADLE_JOURNAL_KEY=key).out
