"""CopilotKit's mock server in its bad moods, on each wire: a run recovers, or ends with an error of
the right kind and a history that is whole.
"""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.peers.aimock import Aimock
from tests.peers.weather import guide
from tests.peers.wires import configured
from treadle import Outcome, Runtime
from treadle.errors import ErrorKind
from treadle.messages.events import Event, Retry
from treadle.messages.validate import check_history
from treadle.testing import FakeClock

MOODS = [
    pytest.param("dropRate", ErrorKind.NETWORK, 500, id="drop"),
    pytest.param("malformedRate", ErrorKind.NETWORK, 200, id="malformed"),
    pytest.param("disconnectRate", ErrorKind.NETWORK, None, id="disconnect"),
    pytest.param("rateLimitRate", ErrorKind.RATE_LIMIT, 429, id="ratelimit"),
]


@pytest.mark.parametrize(("mood", "kind", "status"), MOODS)
async def test_a_mood_that_lasts_ends_the_run_after_its_retries(
    runtime: Runtime,
    aimock: Aimock,
    clock: FakeClock,
    mood: str,
    kind: ErrorKind,
    status: int | None,
) -> None:
    aimock.fail(**{mood: 1})
    result = await runtime.run(guide(), "How warm is Paris?")

    assert result.error is not None
    assert (result.outcome, result.error.kind, result.error.status) == (Outcome.ERROR, kind, status)
    assert (len(clock.waits), result.metrics.retries) == (3, 3)
    assert check_history(result.messages) == []
    assert [message.role for message in result.messages] == ["user"]


@pytest.mark.parametrize(("mood", "kind", "status"), MOODS)
async def test_a_mood_that_passes_is_gone_after_a_retry(
    runtime: Runtime,
    aimock: Aimock,
    clock: FakeClock,
    mood: str,
    kind: ErrorKind,
    status: int | None,
) -> None:
    heard: list[Retry] = []

    def recover(event: Event) -> None:
        if isinstance(event, Retry):
            heard.append(event)
            aimock.recover()

    asked: list[str] = []
    agent = guide(asked, then=lambda: aimock.fail(**{mood: 1}))
    result = await runtime.run(agent, "How warm is Paris?", on_event=recover)

    assert result.unwrap() == "It is 18C in Paris, and it stays so."
    assert asked == ["Paris"], "what has run is not run again"
    assert [event.kind for event in heard] == [kind]
    assert check_history(result.messages) == []
    first, failed, *again = aimock.bodies()
    assert again, "and where the connection was found dead, one more time for free"
    assert all(body == failed != first for body in again)


@pytest.mark.parametrize(("mood", "kind", "status"), MOODS)
async def test_a_mood_in_the_middle_of_a_run_leaves_what_its_tools_have_found(
    runtime: Runtime, aimock: Aimock, mood: str, kind: ErrorKind, status: int | None
) -> None:
    result = await runtime.run(guide(then=lambda: aimock.fail(**{mood: 1})), "How warm is Paris?")

    assert result.error is not None
    assert (result.outcome, result.error.kind) == (Outcome.ERROR, kind)
    assert [message.role for message in result.messages] == ["user", "assistant", "tool"]
    assert check_history(result.messages) == []

    aimock.recover()
    resumed = await runtime.run(guide(), "Talk on and on")
    assert resumed.outcome is Outcome.TRUNCATED


async def test_the_time_to_wait_is_the_one_that_the_server_names(
    runtime: Runtime, aimock: Aimock, clock: FakeClock
) -> None:
    result = await runtime.run(guide(), "Be busy once")
    assert (result.unwrap(), clock.waits, result.metrics.retries) == ("Here I am.", [7.0], 1)


async def test_an_answer_that_breaks_off_is_asked_for_again_and_told_once(
    runtime: Runtime, aimock: Aimock
) -> None:
    result = await runtime.run(guide(), "Break off once")
    assert result.unwrap() == "The whole of the answer, word for word."
    assert len(aimock.received()) == 2
    assert check_history(result.messages) == []


async def test_a_server_that_keeps_silent_is_given_up_when_its_time_is_over(
    aimock: Aimock, wire: str, tmp_path: Path
) -> None:
    aimock.fail(latencyMs=30_000)
    config = configured(tmp_path / "home", wire, aimock.url, aimock.headers, timeout_s=0.05)
    async with Runtime(config=config, clock=FakeClock()) as runtime:
        with anyio.fail_after(5):
            result = await runtime.run(guide(), "How warm is Paris?")
    assert result.error is not None
    assert (result.outcome, result.error.kind, result.metrics.retries) == (
        Outcome.ERROR,
        ErrorKind.TIMEOUT,
        3,
    )
