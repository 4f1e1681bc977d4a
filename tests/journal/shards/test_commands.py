"""Commands over a journal of shards, with one that is away."""

from __future__ import annotations

import json

from tests.cli.conftest import Cli
from tests.cli.conftest import cli as cli
from tests.crash.postgres import ChaosServer
from tests.journal.runs import says
from tests.journal.shards.conftest import Shards, one_in


async def test_commands_report_a_missing_shard_and_show_no_password(
    apart: Shards,
    two_servers: dict[str, ChaosServer],
    cli: Cli,
) -> None:
    journal, url = apart.open("a", "b"), apart.write("a", "b")
    here, there = one_in("a"), one_in("b")
    for run_id in (here, there):
        await says(journal, run_id, "hello", "hi")
    both = cli("runs", "list", "--json", TREADLE_JOURNAL=url)
    assert (here in both.out, there in both.out, both.err) == (True, True, "")
    two_servers["b"].stop()
    one = cli("runs", "list", "--json", TREADLE_JOURNAL=url)
    assert (here in one.out, there in one.out, one.code) == (True, False, 0)
    assert "warning: shard 'b' does not answer, its runs are missing" in one.err
    shown = cli("runs", "show", there, TREADLE_JOURNAL=url)
    assert (shown.code, "shard 'b' of the journal does not answer" in shown.err) == (2, True)
    doctor = cli("doctor", "--offline", "--json", TREADLE_JOURNAL=url)
    found = {one["what"]: one["state"] for one in json.loads(doctor.out)}
    assert (found["shard a"], found["shard b"], found["journal"]) == ("ok", "bad", "ok")
    assert "hidden" not in one.err + shown.err + doctor.out + doctor.err
