"""Attempts that were cut with their process count against every limit above them: in memory, SQLite
and PostgreSQL.
"""

from __future__ import annotations

from msgspec.structs import replace

from tests.doubles import agent, gives, says
from tests.journal.runs import asks, at, entries_of, started
from tests.journal.runs import gives as result_of
from treadle import Runtime
from treadle._internal.json_text import encode_json
from treadle.budget.ledger import Ledger
from treadle.budget.spending import Reserved
from treadle.journal.entries import Compaction, ModelRequested
from treadle.journal.journal import Journal
from treadle.journal.receipts import Cleared
from treadle.types import Limits

LIMIT, ASKED = 12_000, Reserved(input_tokens=237, output_tokens=8_000)


async def test_what_a_child_had_under_way_counts_where_it_does_not_go_on(journal: Journal) -> None:
    async with Runtime(journal=journal) as rt:
        boss = agent([says("done")], gives("t", effect="once"))
        begun = replace(
            started(),
            limits=Limits(tokens=LIMIT),
            agent=boss.name,
            model="script:",
            on_unknown="tell",
        )
        writer = await journal.begin(begun)
        await writer.append(asks(1, "c"))
        child = await journal.begin(
            replace(started("run_child", parent="run_1"), parent_call_id="c")
        )
        await child.append([ModelRequested(at=at(0), turn=1, reserved=ASKED)])
        await child.release()
        await writer.release()
        result = await rt.resume("run_1", boss)
        assert result.text == "done"
        (_, asked) = [
            entry for entry in await entries_of(journal) if isinstance(entry, ModelRequested)
        ]
        assert asked.reserved is not None
        assert asked.reserved.tokens <= LIMIT - ASKED.tokens - 15


async def test_an_attempt_at_a_summary_that_was_cut_with_its_process_counts(
    journal: Journal,
) -> None:
    async with Runtime(journal=journal) as rt:
        boss = agent([says("done")], gives("t", effect="once"))
        begun = replace(
            started(),
            limits=Limits(tokens=LIMIT),
            agent=boss.name,
            model="script:",
            on_unknown="tell",
        )
        writer = await journal.begin(begun)
        asking = Compaction(at=at(0), receipt=encode_json(Cleared(reserved=ASKED)).decode())
        await writer.append([*asks(1, "c"), result_of("c"), asking])
        assert (await journal.load("run_1")).under_way == [None, ASKED]
        await writer.release()
        result = await rt.resume("run_1", boss)
        assert result.text == "done"
        (_, asked) = [
            entry for entry in await entries_of(journal) if isinstance(entry, ModelRequested)
        ]
        assert asked.reserved is not None
        assert asked.reserved.tokens <= LIMIT - ASKED.tokens - 15


def test_what_counts_again_where_a_child_goes_on_is_taken_back() -> None:
    top, child = Ledger(Limits(tokens=LIMIT)), Ledger(Limits())
    top.begin()
    child.lose(ASKED)
    top.add_below("child", child)
    assert top.output_left(LIMIT).tokens == LIMIT - ASKED.tokens
    top.take_back(ASKED)
    again = Ledger(Limits())
    again.begin(top)
    again.lose(ASKED)
    again.end()
    assert top.output_left(LIMIT).tokens == LIMIT - ASKED.tokens
