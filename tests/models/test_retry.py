"""How long is waited before asking again, and what is asked again at all."""

from __future__ import annotations

import math
from contextlib import suppress

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doubles import PlayedModel, text
from treadle.errors import AgentError, ErrorKind
from treadle.messages.message import Message, TextPart
from treadle.models.model import Delta, ModelRequest, Restart, Switch, TextDelta
from treadle.models.retry import LONGEST_WAIT_S, PATIENT, ModelAttempt, Retries, RetryPolicy, ask
from treadle.testing import FakeClock, ScriptedModel

REQUEST = ModelRequest(messages=[Message.user("hi")])


def error(retry_after_s: float | None = None) -> AgentError:
    return AgentError("network", "later", retry_after_s=retry_after_s)


# ---------------------------------------------------------------- how long


@pytest.mark.parametrize(
    ("retry", "retry_after_s", "jitter", "expected"),
    [
        (1, None, 0.0, 0.0),
        (1, None, 0.5, 0.5),
        (1, None, 1.0, 1.0),
        (2, None, 1.0, 2.0),
        (3, None, 1.0, 4.0),
        (3, None, 0.25, 1.0),
        (5, None, 1.0, 16.0),
        (6, None, 1.0, 20.0),
        (6, None, 0.5, 10.0),
        (5_000, None, 1.0, 20.0),
        (1, 0.0, 0.5, 0.0),
        (1, 7.5, 0.5, 7.5),
        (6, 30.0, 0.5, 30.0),
        (1, LONGEST_WAIT_S + 1, 0.5, LONGEST_WAIT_S),
        (1, math.inf, 0.5, LONGEST_WAIT_S),
        (1, -1.0, 0.5, 0.5),
        (1, -math.inf, 0.5, 0.5),
        (1, math.nan, 0.5, 0.5),
    ],
)
def test_the_wait_doubles_up_to_a_cap_and_what_the_provider_says_goes_before_it(
    retry: int, retry_after_s: float | None, jitter: float, expected: float
) -> None:
    assert RetryPolicy().wait_s(retry, error(retry_after_s), jitter) == expected


def test_base_and_cap_are_the_callers() -> None:
    policy = RetryPolicy(base_s=0.1, cap_s=0.3)
    assert [policy.wait_s(n, error(), 1.0) for n in (1, 2, 3)] == [0.2, 0.3, 0.3]


@given(st.integers(1, 10_000), st.none() | st.floats(), st.floats(0, 1, exclude_max=True))
def test_a_wait_is_never_negative_and_never_endless(
    retry: int, retry_after_s: float | None, jitter: float
) -> None:
    assert 0 <= RetryPolicy().wait_s(retry, error(retry_after_s), jitter) <= LONGEST_WAIT_S


# ---------------------------------------------------------------- asking again


class Asked:
    """One `ask`, and what was heard of it."""

    def __init__(
        self,
        *script: dict[str, object],
        retries: int = 3,
        taken: frozenset[str] = frozenset(),
        policy: RetryPolicy | None = None,
    ) -> None:
        self.model = ScriptedModel([dict(entry) for entry in script])
        self.policy = policy or RetryPolicy(retries=retries)
        self.clock = FakeClock()
        self.attempt = ModelAttempt(taken)
        self.heard: list[tuple[int, Delta]] = []
        self.failures: list[tuple[int, str, float]] = []

    async def answer(self) -> str:
        response = await ask(
            self.model,
            REQUEST,
            self.attempt,
            listen=self._listen,
            failed=self._failed,
            retries=Retries(self.policy, self.clock),
        )
        return response.text

    def _listen(self, delta: Delta) -> None:
        self.heard.append((self.attempt.number, delta))

    async def _failed(self, error: AgentError, wait_s: float, switch: Switch | None) -> None:
        self.failures.append((self.attempt.number, error.kind.value, wait_s))

    def text(self, attempt: int) -> str:
        return "".join(
            delta.text
            for number, delta in self.heard
            if number == attempt and isinstance(delta, TextDelta)
        )


def failing(kind: str, **more: object) -> dict[str, object]:
    return {"error": {"kind": kind, **more}}


async def test_the_first_whole_answer_is_the_answer() -> None:
    asked = Asked({"text": "hi"})
    assert await asked.answer() == "hi"
    assert (
        asked.attempt.number,
        asked.attempt.retries,
        asked.attempt.reached,
        asked.clock.waits,
    ) == (1, 0, 1, [])


async def test_a_passing_failure_is_asked_again_after_its_wait() -> None:
    asked = Asked(
        {"text": "He", **failing("network")},
        failing("rate_limit", retry_after_s=7, status=429),
        {"text": "Hello"},
    )
    assert await asked.answer() == "Hello"
    assert asked.failures == [(1, "network", 0.5), (2, "rate_limit", 7.0)]
    assert asked.clock.waits == [0.5, 7.0]
    assert [asked.text(number) for number in (1, 2, 3)] == ["He", "", "Hello"]
    assert (asked.attempt.number, asked.attempt.retries, asked.attempt.reached) == (3, 2, 3)


@pytest.mark.parametrize(
    "kind", [kind for kind in ErrorKind if kind not in ("rate_limit", "network", "timeout")]
)
async def test_what_asking_again_cannot_mend_is_raised_at_once(kind: ErrorKind) -> None:
    asked = Asked(failing(kind.value), {"text": "never"})
    with pytest.raises(AgentError) as caught:
        await asked.answer()
    assert caught.value.kind == kind
    assert asked.clock.waits == []


@pytest.mark.parametrize("kind", ["rate_limit", "network", "timeout"])
async def test_the_last_failure_is_raised_when_the_retries_are_used_up(kind: str) -> None:
    asked = Asked(*[failing(kind, status=500 + n) for n in range(4)], {"text": "never"})
    with pytest.raises(AgentError) as caught:
        await asked.answer()
    assert (caught.value.kind, caught.value.status) == (kind, 503)
    assert len(asked.clock.waits) == 3


async def test_an_overload_is_waited_out_for_minutes_where_nobody_waits() -> None:
    asked = Asked(*[failing("rate_limit", status=529)] * 9, {"text": "Here."}, policy=PATIENT)
    assert await asked.answer() == "Here."
    assert asked.clock.waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    asked = Asked(*[failing("rate_limit", status=529)] * 10, {"text": "never"}, policy=PATIENT)
    with pytest.raises(AgentError, match="rate_limit"):
        await asked.answer()


@pytest.mark.parametrize(
    ("kind", "should_retry", "waits"), [("network", False, []), ("invalid", True, [0.5])]
)
async def test_the_providers_own_word_on_another_attempt_counts(
    kind: str, should_retry: bool, waits: list[float]
) -> None:
    clock, attempt = FakeClock(), ModelAttempt(frozenset())
    model = PlayedModel([AgentError(kind, "no", should_retry=should_retry)], text("yes"))
    with suppress(AgentError):
        await ask(
            model,
            ModelRequest(messages=[Message.user("go")]),
            attempt,
            listen=None,
            failed=nothing,
            retries=Retries(RetryPolicy(), clock),
        )
    assert clock.waits == waits


async def nothing(*failure: object) -> None:
    pass


async def test_no_retries_means_one_attempt() -> None:
    asked = Asked(failing("network"), {"text": "never"}, retries=0)
    with pytest.raises(AgentError, match="network"):
        await asked.answer()


async def test_an_attempt_that_did_not_reach_the_provider_does_not_count() -> None:
    asked = Asked(
        failing("network"),
        failing("network", status=500),
        {"text": "x", **failing("network")},
        {"text": "hi"},
    )
    await asked.answer()
    assert asked.attempt.reached == 3


async def test_a_stream_that_ends_early_is_asked_again() -> None:
    class Cut(ScriptedModel):
        async def stream(self, request: ModelRequest):
            self.place += 1
            yield TextDelta("He")
            if self.place > 1:
                async for delta in super().stream(request):
                    yield delta

    asked = Asked()
    asked.model = Cut([{}, {}, {"text": "llo"}])
    assert await asked.answer() == "Hello"
    assert asked.failures == [(1, "network", 0.5)]


async def test_a_provider_that_begins_anew_uses_up_no_retry() -> None:
    class Anew(ScriptedModel):
        async def stream(self, request: ModelRequest):
            yield TextDelta("He")
            yield Restart()
            yield TextDelta("I ")
            async for delta in super().stream(request):
                yield delta

    asked = Asked(retries=1)
    asked.model = Anew([failing("network"), {"text": "say"}])
    assert await asked.answer() == "I say"
    assert asked.text(4) == "I say"
    assert (asked.attempt.number, asked.attempt.retries) == (4, 1)


async def test_a_retry_gives_a_repeated_call_the_id_that_the_cut_one_had() -> None:
    call = {"name": "f", "id": "a"}
    asked = Asked(
        {"tool_calls": [call], **failing("network")}, {"tool_calls": [call]}, taken=frozenset({"a"})
    )
    await asked.answer()
    assert [part.id for part in asked.attempt.fold.response().tool_calls] == ["a_2"]


async def test_cancelling_leaves_what_there_was_of_the_attempt() -> None:
    class Stuck(ScriptedModel):
        async def stream(self, request: ModelRequest):
            yield TextDelta("He")
            await anyio.sleep_forever()

    asked = Asked()
    asked.model = Stuck([])
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(asked.answer)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
    assert asked.attempt.fold.partial() == (TextPart(text="He"),)
    assert asked.attempt.reached == 1
    assert asked.failures == []


async def test_what_breaks_while_the_run_is_being_stopped_is_not_asked_again() -> None:
    class Breaks(ScriptedModel):
        async def stream(self, request: ModelRequest):
            try:
                yield TextDelta("He")
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                raise AgentError("network", "the connection went with it") from None

    asked = Asked()
    asked.model = Breaks([])
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(asked.answer)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
    assert asked.failures == []
    assert asked.clock.waits == []
