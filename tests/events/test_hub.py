"""Publish and subscribe: nobody makes a run wait, and who is slow is told what was missed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import get_args

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples_of
from treadle import Agent, Runtime, tool
from treadle.events.hub import Broker, Hub, Missed, Subscription
from treadle.messages.events import Event, TurnStart
from treadle.testing import ScriptedModel

AT = datetime(2026, 11, 20, tzinfo=UTC)


def turn(number: int) -> TurnStart:
    return TurnStart(run_id="r", session_id=None, seq=number, at=AT, turn=number)


async def next_of(subscription: Subscription) -> int | Missed:
    with anyio.fail_after(20):
        event = await anext(subscription)
    return event if isinstance(event, Missed) else event.seq


async def all_of(subscription: Subscription) -> list[int | Missed]:
    """What is left in a closed one."""
    with anyio.fail_after(20):
        return [event if isinstance(event, Missed) else event.seq async for event in subscription]


# ---------------------------------------------------------------- subscribers


async def test_each_subscriber_gets_every_event_in_order() -> None:
    broker = Broker()
    subscriptions = [broker.subscribe() for _ in range(10)]
    for number in range(1, 4):
        broker.publish(turn(number))
    broker.close()
    assert [await all_of(subscription) for subscription in subscriptions] == [[1, 2, 3]] * 10


async def test_a_subscriber_hears_what_comes_after_it_subscribed() -> None:
    broker = Broker()
    broker.publish(turn(1))
    late = broker.subscribe()
    broker.publish(turn(2))
    assert await next_of(late) == 2


async def test_a_waiting_subscriber_is_woken() -> None:
    broker, heard = Broker(), list[int | Missed]()
    subscription = broker.subscribe()

    async def listen() -> None:
        heard.extend(await all_of(subscription))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            for number in range(1, 4):
                await anyio.wait_all_tasks_blocked()
                broker.publish(turn(number))
                await anyio.wait_all_tasks_blocked()
                assert heard == []
            broker.close()
    assert heard == [1, 2, 3]


async def test_two_readers_of_one_subscription_share_its_events() -> None:
    broker, heard = Broker(), list[int | Missed]()
    subscription = broker.subscribe()

    async def listen() -> None:
        heard.extend(await all_of(subscription))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            group.start_soon(listen)
            await anyio.wait_all_tasks_blocked()
            broker.publish(turn(1))
            await anyio.wait_all_tasks_blocked()
            broker.publish(turn(2))
            broker.close()
    assert sorted(number for number in heard if isinstance(number, int)) == [1, 2]


def test_a_subscription_can_be_made_before_the_event_loop_runs() -> None:
    broker = Broker()
    subscription = broker.subscribe()
    broker.publish(turn(1))
    assert anyio.run(next_of, subscription) == 1


# ---------------------------------------------------------------- slow ones


async def test_a_full_queue_misses_events_and_says_how_many() -> None:
    broker = Broker()
    slow, quick = broker.subscribe(maxsize=2), broker.subscribe()
    for number in range(1, 6):
        broker.publish(turn(number))
    broker.close()
    assert await all_of(slow) == [1, 2, Missed(3)]
    assert await all_of(quick) == [1, 2, 3, 4, 5]


async def test_the_gap_is_told_where_it_is() -> None:
    broker = Broker()
    slow = broker.subscribe(maxsize=2)
    for number in range(1, 5):
        broker.publish(turn(number))
    assert await next_of(slow) == 1
    for number in range(5, 8):
        broker.publish(turn(number))
    broker.close()
    assert await all_of(slow) == [2, Missed(2), 5, Missed(2)]


async def test_a_queue_holds_at_least_one() -> None:
    broker = Broker()
    subscription = broker.subscribe(maxsize=0)
    broker.publish(turn(1))
    broker.publish(turn(2))
    assert [await next_of(subscription), await next_of(subscription)] == [1, Missed(1)]


@given(st.integers(1, 4), st.lists(st.booleans(), max_size=30))
def test_what_is_read_and_what_is_missed_is_all_there_was(maxsize: int, steps: list[bool]) -> None:
    """True publishes, False reads where there is something to read."""

    async def run() -> list[int | Missed]:
        broker, heard, waiting = Broker(), list[int | Missed](), 0
        subscription = broker.subscribe(maxsize=maxsize)
        published = 0
        for publishes in steps:
            if publishes:
                published += 1
                broker.publish(turn(published))
            elif published > _counted(heard):
                heard.append(await next_of(subscription))
                waiting = published - _counted(heard)
                assert waiting >= 0
        broker.close()
        heard += await all_of(subscription)
        assert _counted(heard) == published
        return heard

    place = 0
    for item in anyio.run(run):
        place += item.count if isinstance(item, Missed) else 1
        assert isinstance(item, Missed) or item == place


def _counted(heard: list[int | Missed]) -> int:
    return sum(item.count if isinstance(item, Missed) else 1 for item in heard)


# ---------------------------------------------------------------- closing


async def test_a_closed_subscription_gives_what_it_has_and_ends() -> None:
    broker = Broker()
    with broker.subscribe() as subscription:
        broker.publish(turn(1))
    broker.publish(turn(2))
    subscription.close()
    assert await all_of(subscription) == [1]
    assert not broker.heard


async def test_closing_ends_a_reader_that_waits() -> None:
    broker = Broker()
    subscription = broker.subscribe()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(all_of, subscription)
            await anyio.wait_all_tasks_blocked()
            subscription.close()


async def test_a_subscriber_may_leave_while_others_are_told() -> None:
    broker = Broker()
    first, second = broker.subscribe(), broker.subscribe()
    first.close()
    broker.publish(turn(1))
    second.close()
    assert (await all_of(first), await all_of(second)) == ([], [1])


async def test_a_closed_broker_has_nothing_to_wait_for() -> None:
    hub = Hub()
    hub.close()
    hub.close()
    for broker in (hub.agents, hub.tools):
        assert await all_of(broker.subscribe()) == []
    assert not hub.heard


# ---------------------------------------------------------------- two brokers

TOOL_TYPES = {
    "tool_call",
    "approval_requested",
    "approval_resolved",
    "tool_call_start",
    "tool_progress",
    "tool_call_end",
}


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
async def test_events_of_calls_go_to_tools_and_all_others_to_agents(kind: type[TurnStart]) -> None:
    hub = Hub()
    agents, tools = hub.agents.subscribe(), hub.tools.subscribe()
    (event,) = examples_of(kind)
    hub.publish(event)
    hub.close()
    mine, other = (tools, agents) if kind.__struct_config__.tag in TOOL_TYPES else (agents, tools)
    assert [one async for one in mine] == [event]
    assert [one async for one in other] == []


async def test_a_hub_is_heard_while_anybody_listens() -> None:
    hub = Hub()
    assert not hub.heard
    with hub.tools.subscribe():
        assert hub.heard
        with hub.agents.subscribe():
            pass
        assert hub.heard
    assert not hub.heard


# ---------------------------------------------------------------- a run's


def one_call() -> ScriptedModel:
    return ScriptedModel(
        [
            {"text": "Let me see.", "tool_calls": [{"name": "look", "arguments": {}}]},
            {"text": "Done."},
        ]
    )


async def test_a_run_is_heard_by_topic() -> None:
    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        return "seen"

    async with Runtime.open() as rt:
        agents, tools = rt.hub.agents.subscribe(), rt.hub.tools.subscribe()
        result = await rt.run(Agent(name="a", model=one_call(), tools=[look]), "go")
    heard = [event async for event in agents]
    assert {event.run_id for event in heard if not isinstance(event, Missed)} == {result.run_id}
    kinds = [type(event).__name__ for event in heard]
    assert (kinds[0], kinds[-1]) == ("RunStart", "RunEnd")
    assert kinds.count("MessageAdded") == 2
    assert [type(event).__name__ async for event in tools] == [
        "ToolCallAsked",
        "ToolCallStart",
        "ToolCallEnd",
    ]


async def test_who_subscribes_in_the_middle_of_a_run_hears_the_rest_in_its_numbers() -> None:
    late: list[Subscription] = []

    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        late.append(rt.hub.agents.subscribe())
        return "seen"

    async with Runtime.open() as rt:
        early = rt.hub.agents.subscribe()
        await rt.run(Agent(name="a", model=one_call(), tools=[look]), "go")
    whole = [event async for event in early]
    rest = [event async for event in late[0]]
    assert rest
    assert whole[-len(rest) :] == rest


async def test_a_slow_subscriber_does_not_hold_a_run_up() -> None:
    async with Runtime.open() as rt:
        with rt.hub.agents.subscribe(maxsize=1) as asleep, anyio.fail_after(20):
            result = await rt.run(
                Agent(name="a", model=ScriptedModel([{"text": "word " * 300}])), "go"
            )
    assert result.success
    heard = [event async for event in asleep]
    assert type(heard[0]).__name__ == "RunStart"
    assert isinstance(heard[1], Missed)
    assert heard[1].count > 100
