"""Runs are kept for ever, unless a person says so: by command, or by an age in the configuration."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.doubles import agent
from treadle import AgentError, Runtime
from treadle.config import Config
from treadle.config.readers import span_of


async def _with_an_old_run(url: str) -> str:
    """A run that ended years ago, and one of today."""
    async with Runtime.open() as elsewhere:
        made = await elsewhere.run(agent([{"text": "long ago"}]), "go")
        entries = await elsewhere.journal.read_bytes(made.run_id)
    async with Runtime.open(url) as rt:
        await rt.journal.add_run(
            [re.sub(rb'"(at|created_at)":"\d{4}', rb'"\1":"2020', entry) for entry in entries]
        )
        return made.run_id


async def _runs_after_one_more(url: str, config: Config, *, runs: bool = True) -> list[str]:
    async with Runtime.open(url, config=config) as rt:
        if runs:
            await rt.run(agent([{"text": "today"}]), "go")
    async with Runtime.open(url) as rt:
        return [info.run_id for info in await rt.journal.runs()]


async def test_an_age_in_the_configuration_lets_old_runs_go_when_a_run_has_ended(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    old = await _with_an_old_run(url)
    left = await _runs_after_one_more(url, Config(keep_runs="90d"))
    assert len(left) == 1
    assert old not in left


async def test_without_one_nothing_is_ever_deleted(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    old = await _with_an_old_run(url)
    assert old in await _runs_after_one_more(url, Config())


async def test_who_only_looks_deletes_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    old = await _with_an_old_run(url)
    assert await _runs_after_one_more(url, Config(keep_runs="90d"), runs=False) == [old]


async def test_a_run_that_another_was_forked_from_stays(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    old = await _with_an_old_run(url)
    async with Runtime.open(url) as rt:
        forked = await rt.fork(
            old, turn=1, text="and now?", agent=agent([{"text": "x"}, {"text": "now"}])
        )
    left = await _runs_after_one_more(url, Config(keep_runs="90d"))
    assert {old, forked.run_id} < set(left)
    async with Runtime.open(url) as rt:
        assert [m.text for m in (await rt.replay(forked.run_id)).messages] == [
            "go",
            "long ago",
            "and now?",
            forked.text,
        ]


@pytest.mark.parametrize("text", ["30", "d", "1m", "-3d", "3 d", "1.5h"])
def test_an_age_is_a_number_and_its_unit(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        span_of(text)


async def test_an_unknown_run_is_told_with_its_nearest(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    old = await _with_an_old_run(url)
    async with Runtime.open(url) as rt:
        with pytest.raises(AgentError, match=old):
            await rt.replay(old[:-1])


async def test_an_age_before_all_calendars_keeps_everything(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    old = await _with_an_old_run(url)
    assert old in await _runs_after_one_more(url, Config(keep_runs="999999w"))
