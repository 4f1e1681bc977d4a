"""Failures of `once` tools: an exception leaves the outcome unknown unless the tool says otherwise."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

import treadle
from tests.doubles import PlainTool, Seen, agent, asks, breaks, call, gives, says, watch
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from tests.tools.function.isolated_functions import loses_the_line, refuses_plainly
from treadle import ToolContext, ToolFailed, tool
from treadle.loop.cut_calls import NOT_KNOWN
from treadle.messages import events
from treadle.tools.builtin.coding import default_tools
from treadle.tools.tool import InvalidArguments
from treadle.types import Effect

pytestmark = pytest.mark.anyio
TOO_LARGE_STACK = 1 << 46
"""Bytes. No address space has room for it, so every start of a thread fails."""


async def one_call(one: Any, **arguments: Any) -> Seen:
    seen = await watch([asks(call(one.name, "c1", **arguments)), says("done")], one)
    assert seen.outcome == "completed"
    return seen


def status(seen: Seen) -> str:
    [entry] = [entry for entry in seen.entries if entry.startswith("tool.finished:c1:")]
    return entry.rpartition(":")[2]


def fails_with(error: BaseException, *, effect: Effect = "once") -> PlainTool:
    return breaks("send", error, effect=effect)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    "error",
    [ValueError("no such place"), TimeoutError("read"), SystemExit(3), MemoryError("no room")],
)
async def test_an_exception_of_a_once_tool_leaves_the_outcome_unknown(error: BaseException) -> None:
    seen = await one_call(fails_with(error))
    [ended] = seen.of(events.ToolCallEnd)
    assert (status(seen), ended.is_error, ended.unknown) == ("unknown", True, True)
    assert seen.results == [f"{type(error).__name__}: {error}\n{NOT_KNOWN}"]


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
async def test_an_exception_of_a_tool_that_may_be_repeated_is_an_error(effect: Effect) -> None:
    seen = await one_call(fails_with(ValueError("no such place"), effect=effect))
    assert (status(seen), seen.results) == ("error", ["ValueError: no such place"])


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ToolFailed("At most 100."), "error"),
        (ToolFailed("At most 100.", happened=False), "error"),
        (ToolFailed("It was done, and the receipt is lost.", happened=True), "error"),
        (ToolFailed("The line broke.", happened=None), "unknown"),
        (InvalidArguments("amount must be a number"), "error"),
    ],
)
async def test_a_tool_that_says_that_it_failed_is_believed(
    error: ToolFailed, expected: str
) -> None:
    seen = await one_call(fails_with(error))
    assert (status(seen), seen.results) == (expected, [error.message])


async def raises_from(error: BaseException, failure: ToolFailed, *, explicit: bool) -> Seen:
    async def does(ctx: ToolContext[Any], arguments: Any) -> str:
        try:
            raise error
        except BaseException as e:
            if explicit:
                raise failure from e
            raise failure  # noqa: B904  authors leave the cause out

    return await one_call(PlainTool(name="send", effect="once", does=does))


@pytest.mark.parametrize("explicit", [True, False])
async def test_a_failure_that_translates_an_exception_is_as_unknown_as_that_exception(
    explicit: bool,
) -> None:
    seen = await raises_from(
        TimeoutError("read"), ToolFailed("The bank did not answer."), explicit=explicit
    )
    assert (status(seen), seen.results) == ("unknown", [f"The bank did not answer.\n{NOT_KNOWN}"])


async def test_a_failure_that_translates_an_exception_may_say_that_nothing_happened() -> None:
    seen = await raises_from(
        KeyError("o1"), ToolFailed("There is no order o1.", happened=False), explicit=True
    )
    assert (status(seen), seen.results) == ("error", ["There is no order o1."])


async def test_a_failure_that_translates_another_failure_means_the_same() -> None:
    seen = await raises_from(
        ToolFailed("old was not found"), ToolFailed("Edit 1: old was not found."), explicit=True
    )
    assert status(seen) == "error"
    seen = await raises_from(
        ToolFailed("the line broke", happened=None),
        ToolFailed("Step 1: the line broke."),
        explicit=True,
    )
    assert status(seen) == "unknown"


def test_a_run_inside_an_exception_handler_does_not_make_failures_unknown() -> None:
    tester = agent([asks(call("send", "c1")), says("done")], fails_with(ToolFailed("At most 100.")))
    try:
        raise ConnectionError
    except ConnectionError:
        result = treadle.run_sync(tester, "go")
    [told] = [r for m in result.messages for r in m.tool_results]
    assert (told.is_error, told.unknown) == (True, False)


async def test_a_failure_of_an_isolated_once_tool_means_the_same_in_its_process() -> None:
    seen = await one_call(loses_the_line)
    assert status(seen) == "unknown"
    assert (status(await one_call(refuses_plainly))) == "error"


# ---------------------------------------------------------------- a process with nothing left

# In memory alone where no thread can be started: a journal on disk needs threads of its own to
# open and to read (`journal/test_threads.py` has its errors).


@contextmanager
def no_threads() -> Generator[None]:
    before = threading.stack_size(TOO_LARGE_STACK)
    try:
        yield
    finally:
        threading.stack_size(before)


@contextmanager
def no_descriptors() -> Generator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_sync_once_tool_that_finds_no_thread_was_not_run() -> None:
    ran: list[str] = []

    @tool(effect="once")
    def send() -> str:
        """Sends it."""
        ran.append("sent")
        return "sent"

    with no_threads():
        seen = await one_call(send)
    assert ran == []
    assert status(seen) == "error"
    assert seen.results[0].startswith("Not run: ")


async def test_a_long_result_of_a_once_call_that_finds_no_thread_is_told() -> None:
    limits = no_threads()

    async def does(ctx: ToolContext[Any], arguments: Any) -> str:
        limits.__enter__()
        return "sent, receipt 1\n" + "x" * 100_000

    try:
        seen = await one_call(PlainTool(name="send", effect="once", does=does))
    finally:
        limits.__exit__(None, None, None)
    assert status(seen) == "ok"
    assert seen.results[0].startswith("sent, receipt 1\n")


@pytest.mark.usefixtures("store")
async def test_a_command_that_finds_no_descriptor_was_not_run() -> None:
    bash = next(one for one in default_tools() if one.name == "bash")

    async def does(ctx: ToolContext[Any], arguments: Any) -> str:
        with no_descriptors():
            return str(await bash.execute(ctx, bash.parse('{"command": "echo 1"}')))

    seen = await one_call(PlainTool(name="send", effect="once", does=does))
    assert status(seen) == "error"
    assert seen.results[0].startswith("Not run: ")


async def test_a_result_that_cannot_be_shown_is_no_sign_that_the_call_did_not_happen() -> None:
    seen = await one_call(gives("send", 5))
    assert status(seen) == "error"
    assert seen.results[0].startswith("The tool ran, but ")
