"""Queues, workers and schedules of the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.config import Config, load
from treadle.config.serving import Queue, Schedule, Workers
from treadle.config.serving_readers import split_address
from treadle.config.values import DEFAULT_QUEUE
from treadle.errors import AgentError
from treadle.journal import queue as run_queue

ALL = """\
queues:
  emails: {concurrency: 4, per_tenant: 1, rate: 100, period_s: 60}
  reports: {}
  odd:
workers: {engine: dbos, lease_s: 2, slots: 16, grace_s: 0, poll_s: 0.5, metrics: "127.0.0.1:9464"}
schedules:
  nightly: {agent: reporter, prompt: "What was new?", cron: "0 3 * * *", queue: reports, inputs: {days: 1, who: [Ada], queue: x}, timezone: Europe/Vienna}
service: {queue: emails}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def loaded(home: Path, text: str, *, cwd: Path | None = None) -> Config:
    (home / "config.yaml").write_text(text)
    return load({"TREADLE_HOME": str(home)}, cwd=cwd or home)


def test_queues_workers_and_schedules_are_read(home: Path) -> None:
    config = loaded(home, ALL)
    assert config.queues == {
        "emails": Queue(concurrency=4, per_tenant=1, rate=100, period_s=60),
        "reports": Queue(),
        "odd": Queue(),
    }
    assert config.queue_names == ("default", "emails", "reports", "odd")
    assert config.workers == Workers(
        engine="dbos", lease_s=2, slots=16, grace_s=0, poll_s=0.5, metrics="127.0.0.1:9464"
    )
    assert config.schedules["nightly"] == Schedule(
        agent="reporter",
        prompt="What was new?",
        cron="0 3 * * *",
        queue="reports",
        inputs={"days": 1, "who": ["Ada"], "queue": "x"},
        timezone="Europe/Vienna",
    )
    assert config.service.queue == "emails"


def test_without_a_word_there_is_one_queue_and_the_workers_of_the_manual(home: Path) -> None:
    config = loaded(home, "")
    assert config.queue_names == ("default",) == (run_queue.DEFAULT_QUEUE,) == (DEFAULT_QUEUE,)
    assert (
        config.workers.engine,
        config.workers.lease_s,
        config.workers.slots,
        config.workers.grace_s,
        config.workers.poll_s,
    ) == ("local", 15, 8, 30, 1)
    assert config.schedules == {}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "queues: {a: {concurrency: 0}}",
            "queues.a.concurrency must be a whole number of at least 1, not 0",
        ),
        ("queues: [a]", "queues must be a mapping"),
        ("queues: {a b: {}}", "'a b' cannot be a name in queues"),
        ("queues: {a: {concurency: 1}}", "did you mean 'concurrency'?"),
        ("workers: {engine: dboss}", "did you mean 'dbos'?"),
        ("workers: {lease_s: 0.5}", "workers.lease_s must be seconds from 1 to 3600, not 0.5"),
        ("workers: {poll_s: 0}", "workers.poll_s must be seconds from 0.05 to 60, not 0"),
        ("workers: {slots: true}", "workers.slots must be a whole number"),
        ("workers: {slots: 1000000}", "workers.slots must be a whole number from 1 to 10,000"),
        ("workers: {metrics: 9464}", "workers.metrics must be HOST:PORT"),
        ("workers: {metrics: 'h:70000'}", "workers.metrics must be HOST:PORT"),
        (
            "service: {queue: emails}",
            "service.queue: unknown queue 'emails'. Available: default. To add it, list it under queues",
        ),
        ("schedules: {s: {}}", "schedules.s needs agent and prompt and cron too"),
        ("schedules: {s: {agent: a, cron: '0 3 * * *'}}", "schedules.s needs prompt too"),
        (
            "schedules: {s: {agent: a, prompt: p, cron: '0 3 * *'}}",
            "schedules.s.cron must be minute, hour",
        ),
        (
            "schedules: {s: {agent: a, prompt: p, cron: '* * * * * *'}}",
            "schedules.s.cron must be minute, hour",
        ),
        ("schedules: {s: {agent: a, prompt: p, cron: '61 3 * * *'}}", "bad minute"),
        ("schedules: {s: {agent: a, prompt: p, cron: '0 0 30 2 *'}}", "schedules.s.cron must be"),
        (
            "schedules: {s: {agent: a, prompt: p, cron: '0 3 * * *', timezone: Mars}}",
            "schedules.s.timezone must be a time zone, like Europe/Vienna, not 'Mars'",
        ),
        (
            "schedules: {s: {agent: a, prompt: p, cron: '0 3 * * *', queue: q}}",
            "schedules.s.queue: unknown queue 'q'",
        ),
    ],
)
def test_what_is_wrong_is_told_with_file_and_line(home: Path, line: str, told: str) -> None:
    with pytest.raises(AgentError) as caught:
        loaded(home, f"# a comment\n{line}\n")
    assert told in caught.value.message
    assert f"{home / 'config.yaml'}:2: " in caught.value.message


@pytest.mark.parametrize(
    "line",
    [
        "schedules: {s: {agent: a, prompt: p, cron: '0 3 * *'}}",
        "prices: {'a:b': {input: 1, output: much}}",
    ],
)
def test_a_key_whose_value_is_refused_is_not_missing_too(home: Path, line: str) -> None:
    with pytest.raises(AgentError) as caught:
        loaded(home, line)
    assert len(caught.value.message.splitlines()) == 1


def test_a_workspace_sets_none_of_them(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".treadle").mkdir(parents=True)
    (project / ".treadle" / "config.yaml").write_text(ALL)
    config = loaded(home, "", cwd=project)
    assert (config.queues, config.schedules, config.workers, config.service.queue) == (
        {},
        {},
        Workers(),
        None,
    )
    assert (
        len([warning for warning in config.warnings if "only your own configuration" in warning])
        >= 3
    )


def test_an_address_is_split_also_of_ipv6() -> None:
    assert (split_address("127.0.0.1:0"), split_address("[::1]:9464")) == (
        ("127.0.0.1", 0),
        ("::1", 9464),
    )
    with pytest.raises(ValueError, match="nowhere"):
        split_address("nowhere")
