"""`treadle worker`, and `treadle run --detach` which gives it work: with real processes and real
signals.
"""

from __future__ import annotations

import json
import signal
import urllib.request
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.workers import a_worker
from tests.service.database.postgres import PostgresServer
from tests.service.database.postgres import postgres_server as postgres_server
from tests.service.database.postgres import postgres_url as postgres_url

CONFIG = "queues: {emails: {}, reports: {concurrency: 1}}\nworkers: {grace_s: 0.5}\n"


@pytest.fixture
def queues(cli: Cli) -> Cli:
    """With queues in its configuration."""
    (cli.home / ".treadle").mkdir()
    (cli.home / ".treadle" / "config.yaml").write_text(CONFIG)
    return cli


def detached(cli: Cli, *arguments: str, **environment: str) -> str:
    answer = cli("run", "--detach", *arguments, **environment)
    assert answer.code == 0, answer
    assert len(answer.out.splitlines()) == 1
    return answer.out.strip()


def row(cli: Cli, run_id: str, **environment: str) -> dict[str, Any]:
    return json.loads(cli("runs", "show", run_id, "--json", **environment).out)


def held(cli: Cli, name: str) -> dict[str, Any]:
    """A call that lasts until a file is there, and says that it began by another."""
    command = f"echo >> {cli.workspace}/{name}.begun; while [ ! -e {cli.workspace}/{name}.go ]; do sleep 0.02; done"
    return {"tool_calls": [{"name": "bash", "arguments": {"command": command}}]}


# ---------------------------------------------------------------- queued, driven, followed


def test_a_detached_run_is_driven_by_a_worker_and_followed_to_its_end(queues: Cli) -> None:
    model = queues.script({"text": "Hello from a worker."})
    run_id = detached(queues, "say hello", "--model", model, "--queue", "emails")
    assert row(queues, run_id) | {"entries": []} == row(queues, run_id) | {
        "status": "queued",
        "queue": "emails",
        "outcome": None,
        "entries": [],
    }
    assert queues("runs", "list").out.splitlines()[1].split()[3:5] == ["queued", "emails"]
    with a_worker(queues) as worker:
        worker.until(f"> {run_id} treadle: say hello")
        worker.until(f"< {run_id} completed")
        assert worker.drained() == 0
    assert "drained: no runs are left here" in worker.said
    followed = queues("runs", "follow", run_id)
    assert (followed.code, followed.out) == (0, "Hello from a worker.\n")
    events = queues("runs", "follow", run_id, "--output", "stream-json").events
    assert (events[0]["type"], events[-1]["type"]) == ("run_start", "run_end")
    after = queues(
        "runs", "follow", run_id, "--output", "stream-json", "--after", events[0]["id"]
    ).events
    assert [event["id"] for event in after] == [
        event["id"] for event in events[1:] if "id" in event
    ]


def test_what_a_detached_run_tells_as_json_and_on_standard_error(queues: Cli) -> None:
    answer = queues(
        "run",
        "x",
        "--detach",
        "--output",
        "json",
        "--session",
        "mine",
        "--model",
        queues.script({"text": "ok"}),
    )
    told = answer.json
    assert told == {
        "run_id": told["run_id"],
        "session_id": "mine",
        "queue": "default",
        "status": "queued",
    }
    assert f"treadle runs follow {told['run_id']} follows it" in answer.err
    busy = queues(
        "run", "y", "--detach", "--session", "mine", "--model", queues.script({"text": "ok"})
    )
    assert (busy.code, busy.out) == (1, "")
    quiet = queues("run", "x", "--detach", "-q", "--model", queues.script({"text": "ok"}))
    assert quiet.err == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--detach", "--ephemeral"), "leave one of them out"),
        (("--detach", "--journal", "memory:"), "workers cannot share an in-memory journal"),
        (("--detach", "--output", "stream-json"), "follow the run with `treadle runs follow ID`"),
        (("--detach", "-o", "file.txt"), "cannot be used with -o"),
        (("--detach", "--allow", "ls"), "pass it to `treadle worker`"),
        (("--detach", "--no-sandbox"), "pass it to `treadle worker`"),
        (
            ("--detach", "--queue", "nope"),
            "unknown queue 'nope'. Available: default, emails, reports",
        ),
        (("--detach", "--queue", ""), "unknown queue ''"),
        (("--queue", "emails"), "add --detach"),
        (("--priority", "1"), "add --detach"),
    ],
)
def test_what_makes_no_sense_with_a_run_that_is_left_to_a_worker_is_refused(
    queues: Cli, arguments: tuple[str, ...], said: str
) -> None:
    answer = queues("run", "x", "--model", queues.script({"text": "ok"}), *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert json.loads(queues("runs", "list", "--json").out) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--queue", "nope"),
            "unknown queue 'nope'. Available: default, emails, reports. To add it, list it under queues in the configuration",
        ),
        (("--journal", "memory:"), "a worker cannot use an in-memory journal"),
        (
            ("--journal", "postgresql://ada:geheim@127.0.0.1:1/x?ssslmode=no"),
            "this is not a PostgreSQL URL of a journal: use 'postgresql://USER@HOST:5432/DATABASE'",
        ),
        (
            ("--journal", "postgresql://ada:geheim@127.0.0.1:1/x"),
            "no PostgreSQL server responds at 'postgresql://ada@127.0.0.1:1/x'",
        ),
        (("--metrics", "9464"), "--metrics must be HOST:PORT"),
        (("--metrics", ""), "--metrics must be HOST:PORT"),
        (("--name", ""), "--name '' is not a valid name"),
        (("--agent", "nobody"), "there is no agent 'nobody'"),
    ],
)
def test_a_worker_that_cannot_begin_says_why_and_exits_with_two(
    queues: Cli, arguments: tuple[str, ...], said: str
) -> None:
    if "postgresql" in arguments[-1]:
        pytest.importorskip("psycopg")
    answer = queues("worker", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert "geheim" not in answer.err


def test_one_living_worker_has_a_name_and_doctor_sees_it(queues: Cli) -> None:
    with a_worker(queues, "--name", "ada", "--queue", "emails", "--slots", "3") as worker:
        second = queues("worker", "--name", "ada")
        assert (second.code, second.out) == (2, "")
        assert "a worker 'ada' is already running" in second.err
        assert "0 of 3 slots in use" in queues("doctor", "--offline").out
        assert worker.drained() == 0
    assert "queues emails · engine local · 3 slots" in worker.said


# ---------------------------------------------------------------- signals


def test_the_first_signal_drains_and_the_run_ends(queues: Cli) -> None:
    (queues.home / ".treadle" / "config.yaml").write_text("workers: {grace_s: 30}\n")
    run_id = detached(
        queues,
        "x",
        "--mode",
        "full",
        "--model",
        queues.script(held(queues, "call"), {"text": "done"}),
    )
    other = detached(queues, "y", "--priority", "-1", "--model", queues.script({"text": "later"}))
    with a_worker(queues, "--slots", "1") as worker:
        worker.until(f"> {run_id}")
        worker.send(signal.SIGINT)
        assert "1 run in progress, which get 30.0 s to end" in worker.until("stopping")
        (queues.workspace / "call.go").touch()
        assert worker.ended() == 0
    assert f"< {run_id} completed" in worker.said
    assert (row(queues, run_id)["outcome"], row(queues, other)["status"]) == ("completed", "queued")


def test_what_has_not_ended_in_its_grace_goes_on_in_another_worker(queues: Cli) -> None:
    model = queues.script(held(queues, "call"), {"text": "done"})
    run_id = detached(queues, "x", "--mode", "full", "--model", model)
    with a_worker(queues) as worker:
        worker.until(f"> {run_id}")
        while not (queues.workspace / "call.begun").exists():
            pass
        assert worker.drained() == 0
    assert "drained: 1 run left for other workers" in worker.said
    assert row(queues, run_id)["status"] == "queued"
    (queues.workspace / "call.go").touch()
    with a_worker(queues) as other:
        other.until(f"< {run_id} completed")
        assert other.drained() == 0
    assert (queues.workspace / "call.begun").read_text() == "\n", (
        "a call whose effect nobody knows is not made again"
    )


def test_a_second_signal_ends_it_at_once(queues: Cli) -> None:
    (queues.home / ".treadle" / "config.yaml").write_text("workers: {grace_s: 3600}\n")
    run_id = detached(
        queues,
        "x",
        "--mode",
        "full",
        "--model",
        queues.script(held(queues, "call"), {"text": "done"}),
    )
    with a_worker(queues) as worker:
        worker.until(f"> {run_id}")
        worker.send(signal.SIGTERM)
        worker.until("stopping")
        worker.send(signal.SIGTERM)
        assert worker.ended() == 0
    assert row(queues, run_id)["status"] == "queued"


def test_a_killed_worker_leaves_its_run_to_the_next_one(queues: Cli) -> None:
    run_id = detached(
        queues,
        "x",
        "--mode",
        "full",
        "--model",
        queues.script(held(queues, "call"), {"text": "done"}),
    )
    with a_worker(queues) as worker:
        worker.until(f"> {run_id}")
        worker.send(signal.SIGKILL)
        assert worker.ended() == -signal.SIGKILL
    (queues.workspace / "call.go").touch()
    with a_worker(queues) as other:
        other.until(f"< {run_id} completed")


# ---------------------------------------------------------------- agents


def test_an_agent_is_found_in_the_folder_of_its_run(queues: Cli) -> None:
    elsewhere = queues.home / "elsewhere"
    (elsewhere / ".treadle" / "agents").mkdir(parents=True)
    (elsewhere / ".treadle" / "agents" / "guide.md").write_text(
        "---\ndescription: d\n---\nYou guide.\n"
    )
    run_id = detached(
        queues,
        "x",
        "--agent",
        "guide",
        "--cwd",
        str(elsewhere),
        "--model",
        queues.script({"text": "this way"}),
    )
    with a_worker(queues) as worker:
        worker.until(f"< {run_id} completed")


def test_a_run_whose_folder_is_gone_is_held_off_and_said(queues: Cli) -> None:
    gone = queues.home / "gone"
    gone.mkdir()
    run_id = detached(queues, "x", "--cwd", str(gone), "--model", queues.script({"text": "ok"}))
    gone.rmdir()
    with a_worker(queues) as worker:
        assert "does not exist on this machine" in worker.until(
            f"run {run_id} cannot be driven here"
        )


def test_why_runs_are_held_off_is_said_without_v_too(queues: Cli) -> None:
    run_id = detached(queues, "x", "--model", "anthropic:claude-opus-5-5")
    with a_worker(queues, said="") as worker:
        assert "no API key for the provider 'anthropic'" in worker.until(
            f"run {run_id} cannot be driven here"
        )


def test_a_worker_drops_no_rule_of_a_project(queues: Cli) -> None:
    project = queues.home / "project"
    (project / ".treadle").mkdir(parents=True)
    (project / ".treadle" / "config.yaml").write_text("permissions: {deny: [curl]}\n")
    run_id = detached(queues, "x", "--cwd", str(project), "--model", queues.script({"text": "ok"}))
    with a_worker(queues) as worker:
        assert (
            "has rules that this worker does not have (deny: 'curl'): start one in"
            in worker.until(f"run {run_id} cannot be driven here")
        )


def test_a_worker_opens_no_network_that_a_project_closes(queues: Cli) -> None:
    project = queues.home / "project"
    (project / ".treadle").mkdir(parents=True)
    (project / ".treadle" / "config.yaml").write_text("permissions: {network: none}\n")
    run_id = detached(queues, "x", "--cwd", str(project), "--model", queues.script({"text": "ok"}))
    with a_worker(queues) as worker:
        assert "allows less of the network than this worker: start one in" in worker.until(
            f"run {run_id} cannot be driven here"
        )


# ---------------------------------------------------------------- what it tells machines, schedules, PostgreSQL


def test_metrics_tell_of_queues_and_of_the_worker(queues: Cli) -> None:
    with a_worker(queues, "--metrics", "127.0.0.1:0", "--queue", "emails") as worker:
        address = worker.said.split("metrics ")[1].strip()
        detached(queues, "waits", "--queue", "reports", "--model", queues.script({"text": "ok"}))
        run_id = detached(
            queues, "runs", "--queue", "emails", "--model", queues.script({"text": "ok"})
        )
        worker.until(f"< {run_id} completed")
        with urllib.request.urlopen(address, timeout=10) as response:
            text = response.read().decode()
    assert 'treadle_runs_total{agent="treadle",outcome="completed"} 1.0' in text
    assert 'treadle_queue_runs{queue="reports",state="ready"} 1.0' in text
    assert "treadle_worker_slots 8.0" in text
    assert "treadle_worker_deliveries_total 1.0" in text
    assert "treadle_run_seconds_count 1.0" in text


def test_a_schedule_begins_a_run_and_one_whose_agent_is_not_here_is_said(queues: Cli) -> None:
    model = queues.script({"text": "nothing new"})
    said = 'agent: treadle, prompt: "What is new?", cron: "* * * * *"'
    config = f"models: {{large: '{model}'}}\nschedules: {{news: {{{said}}}, odd: {{agent: nobody, prompt: x, cron: '0 3 * * *'}}}}\n"
    (queues.home / ".treadle" / "config.yaml").write_text(config)
    with a_worker(queues) as worker:
        assert "the schedule 'odd' starts no runs here" in worker.said
        worker.until("> news@")
        worker.until("< news@")


def test_all_of_it_works_on_postgresql(queues: Cli, postgres_url: str) -> None:
    journal = {"TREADLE_JOURNAL": postgres_url}
    with a_worker(queues, **journal) as worker:
        run_id = detached(
            queues, "x", "--model", queues.script({"text": "from PostgreSQL"}), **journal
        )
        followed = queues("runs", "follow", run_id, **journal)
        assert (followed.code, followed.out) == (0, "from PostgreSQL\n")
        worker.until(f"< {run_id} completed")
        frame = json.loads(queues("runs", "top", "--json", **journal).out)
        assert [(info["alive"], info["queues"]) for info in frame["workers"]] == [
            (True, ["default", "emails", "reports"])
        ]
        told = queues("doctor", "--offline", **journal).out
        assert "LISTEN works" in told
        assert "revoke connect on database NAME from public" in told
        assert "0 of 8 slots in use" in told
        assert worker.drained() == 0


def test_a_role_that_may_only_read_the_journal_is_told_by_doctor(
    queues: Cli, postgres_server: PostgresServer, postgres_url: str
) -> None:
    database = postgres_url.partition("?")[0].rpartition("/")[2]
    detached(queues, "x", "--model", queues.script({"text": "ok"}), TREADLE_JOURNAL=postgres_url)
    reader = f"{database}_reader"
    for statement in (
        f"create role {reader} login",
        f"grant usage on schema treadle to {reader}",
        f"grant select on all tables in schema treadle to {reader}",
    ):
        postgres_server.sql(statement, database)
    answer = queues(
        "doctor", "--offline", "--json", TREADLE_JOURNAL=postgres_server.url(database, user=reader)
    )
    (found,) = [finding for finding in json.loads(answer.out) if finding["what"] == "journal"]
    postgres_server.sql(f"drop owned by {reader}; drop role {reader}", database)
    assert found["state"] == "bad"
    assert "this user can only read" in found["text"]
    assert "rights of the journal's owner" in found["text"]
