"""Checks of an output with the application's own data: what they reject, the model corrects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from tests.doubles import WatchedJournal, asks, call, open_runtime, says
from tests.loop.test_recovery import resumed, vanished
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import Agent, AgentError, Limits, RunContext, ToolDone, ToolFailed, tool
from treadle.journal.entries import InputAdded, RunStarted
from treadle.testing import ScriptedModel
from treadle.types import Outcome

pytestmark = pytest.mark.usefixtures("store")


@dataclass
class Invoice:
    customer: str


@dataclass
class Books:
    """Known customers, and what was checked."""

    customers: tuple[str, ...] = ("Acme",)
    seen: list[object] = field(default_factory=list[object])
    during: Callable[[], None] = lambda: None


async def known(ctx: RunContext[Books], output: Invoice) -> None:
    await anyio.lowlevel.checkpoint()
    ctx.deps.seen.append(output)
    ctx.deps.during()
    if output.customer not in ctx.deps.customers:
        raise ToolFailed(f"there is no customer {output.customer!r}")


WRONG, RIGHT = says('{"customer": "Acne"}'), says('{"customer": "Acme"}')
ASKED = (
    "Your answer is rejected: there is no customer 'Acne'\n"
    "Correct it, and answer again in the same form."
)


def clerk(*script: dict[str, Any], **fields: Any) -> Agent[Books, Any]:
    fields = {"output": Invoice, "output_check": known, **fields}
    return Agent(name="clerk", model=ScriptedModel(list(script)), **fields)


def requests(one: Agent[Any, Any]) -> int:
    assert isinstance(one.model, ScriptedModel)
    return len(one.model.requests)


async def test_a_rejected_output_goes_back_to_the_model_with_the_reason() -> None:
    one, books = clerk(WRONG, RIGHT), Books()
    result = await open_runtime().run(one, "Read the letter.", deps=books)
    assert result.unwrap() == Invoice("Acme")
    assert [message.text for message in result.new_messages if message.role == "user"] == [
        "Read the letter.",
        ASKED,
    ]
    assert books.seen == [Invoice("Acne"), Invoice("Acme")]
    assert result.output is books.seen[-1]


@pytest.mark.parametrize("retries", [0, 2])
async def test_a_check_that_never_passes_ends_with_its_reason_and_the_raw_text(
    retries: int,
) -> None:
    one = clerk(*[WRONG] * 5, retries=retries)
    result = await open_runtime().run(one, "go", deps=Books())
    assert (result.outcome, requests(one)) == (Outcome.INVALID_OUTPUT, retries + 1)
    assert (result.output, result.validated) == ('{"customer": "Acne"}', False)
    assert result.error is not None
    assert result.error.message == (
        "the output is invalid: a check rejected it: there is no customer 'Acne'"
    )
    with pytest.raises(AgentError, match="a check rejected it"):
        result.unwrap()


async def test_corrections_of_the_form_and_of_the_check_count_together() -> None:
    one = clerk(says("Acme"), WRONG, says("Acme"))
    result = await open_runtime().run(one, "go", deps=Books())
    assert (result.outcome, requests(one)) == (Outcome.INVALID_OUTPUT, 3)


async def test_a_limit_on_turns_leaves_no_correction() -> None:
    one = clerk(WRONG, RIGHT)
    result = await open_runtime().run(one, "go", deps=Books(), limits=Limits(turns=1))
    assert (result.outcome, requests(one)) == (Outcome.INVALID_OUTPUT, 1)


async def test_a_check_can_end_the_run_without_a_correction() -> None:
    def never(ctx: RunContext[Any], output: str) -> None:
        raise ToolFailed("too late", ends_run=True)

    one = clerk(WRONG, RIGHT, output=None, output_check=never)
    result = await open_runtime().run(one, "go", deps=Books())
    assert (result.outcome, requests(one)) == (Outcome.INVALID_OUTPUT, 1)


async def test_text_and_the_argument_of_complete_are_checked_too() -> None:
    def polite(ctx: RunContext[Any], output: str) -> None:
        if "please" not in output:
            raise ToolFailed(f"say please to {ctx.inputs['who']}")

    one = clerk(says("Go."), says("Go, please."), output=None, output_check=polite)
    one = one.with_(instructions="Greet ${who}.")
    result = await open_runtime().run(one, "go", deps=Books(), inputs={"who": "Ada"})
    assert result.unwrap() == "Go, please."
    script = [asks(call("complete", n, output={"customer": n})) for n in ("Acne", "Acme")]
    done = clerk(*script, completion=True)
    assert (await open_runtime().run(done, "go", deps=Books())).unwrap() == Invoice("Acme")


async def test_the_value_of_a_tool_that_ends_the_run_is_not_checked() -> None:
    @tool(effect="once")
    async def bill() -> ToolDone:
        """Send an invoice."""
        return ToolDone(Invoice("Acne"))

    one, books = clerk(asks(call("bill", "b")), tools=[bill]), Books()
    assert (await open_runtime().run(one, "go", deps=books)).unwrap() == Invoice("Acne")
    assert books.seen == []


async def test_a_check_that_fails_is_an_error_of_the_run_that_names_it() -> None:
    def broken(ctx: RunContext[Any], output: Invoice) -> None:
        raise KeyError("customers")

    one = clerk(RIGHT, RIGHT, output_check=broken)
    result = await open_runtime().run(one, "go", deps=Books())
    assert (result.outcome, requests(one)) == (Outcome.ERROR, 1)
    assert result.error is not None
    assert result.error.message == (
        "agent 'clerk': output_check= failed: KeyError: 'customers'. To reject an output, raise "
        "ToolFailed"
    )


async def test_a_message_that_comes_during_the_check_is_read() -> None:
    one, books = clerk(RIGHT, RIGHT), Books()
    async with open_runtime().stream(one, "go", deps=books) as stream:
        said = ["And now?"]

        def steer() -> None:
            if said:
                stream.steer(said.pop())

        books.during = steer
        async for _ in stream:
            pass
    assert requests(one) == 2
    assert [message.text for message in stream.result.new_messages if message.role == "user"] == [
        "go",
        "And now?",
    ]


async def test_the_time_of_a_check_counts() -> None:
    async def forever(ctx: RunContext[Any], output: Invoice) -> None:
        await anyio.sleep_forever()

    one = clerk(RIGHT, output_check=forever)
    result = await open_runtime().run(one, "go", deps=Books(), limits=Limits(seconds=0.05))
    assert (result.outcome, result.output) == (Outcome.TIMEOUT, None)


async def test_wherever_a_run_is_cut_its_output_is_checked_and_corrections_count() -> None:
    journal, script = WatchedJournal(), (WRONG, RIGHT)
    run = await open_runtime(journal=journal).run(clerk(*script), "go", deps=Books())
    entries = [record.entry for record in await journal.read(run.run_id)]
    assert isinstance(entries[0], RunStarted)
    asked = next(n for n, entry in enumerate(entries) if isinstance(entry, InputAdded))
    for count in range(1, len(entries)):
        rt, books = await vanished(entries[:count]), Books()
        # what a dead driver has paid for is not asked for again
        result, _ = await resumed(rt, run.run_id, again := clerk(*script), deps=books)
        assert result.unwrap() == Invoice("Acme"), count
        assert books.seen[-1] == Invoice("Acme")
        mends = [
            record.entry.message.text
            for record in await rt.journal.read(run.run_id)
            if isinstance(record.entry, InputAdded)
        ]
        assert mends == [ASKED], count
        assert (
            requests(again)
            + sum(type(entry).__name__ == "ModelResponded" for entry in entries[:count])
            == 2
        )
        assert (Invoice("Acne") in books.seen) == (count <= asked)


async def test_another_output_needs_another_check() -> None:
    with pytest.raises(
        AgentError, match=r"its output_check= is for its own output: with another output="
    ):
        clerk().with_(output=int)
    assert clerk().with_(output=int, output_check=None).output_check is None
    assert clerk().with_(retries=1).output_check is known


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ("known", r"output_check= is a str: pass a function: def check\(ctx: RunContext"),
        (Invoice, r"output_check= is the class Invoice: pass a function"),
        (len, r"output_check= is a function that cannot be called with two arg"),
    ],
)
async def test_a_check_is_a_function_of_two(check: Any, said: str) -> None:
    with pytest.raises(AgentError, match=said):
        clerk(output_check=check)
