"""Tasks of one user: what they may be, how they are found, what is kept of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlmodel import select

from tests.apps.assistant.people import People, Person, code, message
from treadle.apps.assistant.fields import description_of, due_of, priority_of, title_of
from treadle.apps.assistant.store import OPEN_MOST, TASKS_MOST
from treadle.apps.assistant.tables import Change, Confirmation, Task
from treadle.errors import AgentError

NOTHING = {"description": None, "completed": False, "priority": "Medium", "due": None}


async def test_a_new_task_is_what_was_asked_for_and_else_ordinary(ada: Person):
    response = await ada.call(
        "add_task",
        title="  Buy milk ",
        priority="high",
        due="2026-12-01",
        description="oat\nif they have it",
    )
    assert response.data is not None
    task = response.data["task"]
    assert {**task, "id": "", "created_at": "", "updated_at": ""} == {
        "id": "",
        "title": "Buy milk",
        "description": "oat\nif they have it",
        "completed": False,
        "priority": "High",
        "due": "2026-12-01",
        "created_at": "",
        "updated_at": "",
    }
    assert task["created_at"] == "2026-11-20T12:00:00+00:00"
    assert len(task["id"]) == 36
    plain = await ada.call("add_task", title="x")
    assert plain.data is not None
    assert plain.data["task"].items() >= NOTHING.items()


@pytest.mark.parametrize(
    "title",
    [
        "",
        "   ",
        "a" * 201,
        "two\nlines",
        "a\x00b",
        "a\x1b[31m",
        "a\u2028b",
        "a\u202e"[1:],
        "\u200b",
        "\ud83d",
    ],
)
def test_what_can_be_no_title_is_refused(title: str):
    with pytest.raises(AgentError):
        title_of(title)


@pytest.mark.parametrize(
    "title",
    [
        "a",
        "a" * 200,
        "🎂 for Zoë",
        "שלום עולם",
        "'; DROP TABLE task; --",
        "<script>alert(1)</script>",
        "牛乳を買う",
        "👩‍👩‍👧",
    ],
)
async def test_what_people_write_stays_as_it_is(ada: Person, title: str):
    await ada.call("add_task", title=title)
    assert await ada.titles() == [title]
    found = await ada.call("complete_task", task=title)
    assert found.success


@pytest.mark.parametrize(
    ("reader", "value"),
    [
        (description_of, "x" * 2001),
        (description_of, "a\x00"),
        (priority_of, "urgent"),
        *(
            (due_of, wrong)
            for wrong in ("2026-13-01", "20261201", "tomorrow", "2026-W01-1", "\u0662026-12-01")
        ),
    ],
)
def test_what_can_be_no_value_is_refused(reader: Any, value: str):
    with pytest.raises(AgentError):
        reader(value)


async def test_a_wrong_value_changes_nothing_and_says_what_would_be_right(ada: Person):
    await ada.add("Buy milk")
    before = await ada.tasks()
    for wrong, words in (
        ({"due": "soon"}, "YYYY-MM-DD"),
        ({"title": "a\nb"}, "one line"),
        ({"priority": "urgent"}, "Low"),
    ):
        response = await ada.call("update_task", task="milk", **wrong)
        assert code(response) == "invalid"
        assert words in message(response)
    assert await ada.tasks() == before


async def test_an_update_says_what_it_changed_and_null_clears(ada: Person):
    await ada.call("add_task", title="Buy milk", due="2026-12-01", description="oat")
    response = await ada.call(
        "update_task",
        task="milk",
        title="Buy oat milk",
        due=None,
        description=None,
        priority="Medium",
    )
    assert response.data is not None
    assert response.data["changes"] == {
        "title": {"from": "Buy milk", "to": "Buy oat milk"},
        "due": {"from": "2026-12-01", "to": None},
        "description": {"from": "oat", "to": None},
    }
    assert (await ada.tasks())["Buy oat milk"].items() >= NOTHING.items()
    assert code(await ada.call("update_task", task="milk")) == "invalid"


async def test_lists_are_narrowed_by_status_priority_and_search(ada: Person):
    await ada.call(
        "add_task", title="Pay rent", due="2026-11-19", priority="High", description="by transfer"
    )
    await ada.call("add_task", title="Buy milk", due="2026-11-25")
    await ada.call("add_task", title="Read")
    await ada.call("add_task", title="Old", due="2026-11-01")
    await ada.call("complete_task", task="Old")
    for wanted, titles in (
        ({"status": "open"}, {"Pay rent", "Buy milk", "Read"}),
        ({"status": "completed"}, {"Old"}),
        ({"priority": "high"}, {"Pay rent"}),
        ({"search": "overdue"}, {"Pay rent"}),
        ({"search": "due:none"}, {"Read"}),
        ({"search": "due:2026-11-25"}, {"Buy milk"}),
        ({"search": "DUE:2026-11-01..2026-11-19"}, {"Pay rent", "Old"}),
        ({"search": "transfer"}, {"Pay rent"}),
        ({"search": "mlik"}, {"Buy milk"}),
        ({"search": "zebra"}, set[str]()),
        ({"search": ""}, {"Pay rent", "Buy milk", "Read", "Old"}),
    ):
        assert set(await ada.titles(**wanted)) == titles, wanted
    for wrong in ("due:", "due:2026-11-01..", "due:soon", "due:2026-02-30"):
        assert code(await ada.call("list_tasks", search=wrong)) == "invalid", wrong


@pytest.mark.parametrize(
    ("words", "title"),
    [
        ("buy milk", "Buy milk"),
        ("milk choc", "Milk chocolate for Zoë"),
        ("the choc task", "Milk chocolate for Zoë"),
        ("mums doctor", "Call mum's doctor"),
        ("doctr", "Call mum's doctor"),
        ("dcotor", "Call mum's doctor"),
        ("\uff2d\uff49\uff4c\uff4b chocolate!", "Milk chocolate for Zoë"),
        ("ZOË", "Milk chocolate for Zoë"),
        ("牛乳", "牛乳を買う"),
        ("🎂", "🎂"),
    ],
)
async def test_a_task_is_found_by_what_people_remember_of_it(ada: Person, words: str, title: str):
    await ada.add("Buy milk", "Milk chocolate for Zoë", "Call mum's doctor", "牛乳を買う", "🎂")
    response = await ada.call("complete_task", task=words)
    assert response.data is not None, response
    assert response.data["task"]["title"] == title


@pytest.mark.parametrize(
    "words",
    [
        "zebra",
        "mi1k2",
        "bu",
        "9",
        "?",
        "call mum's dentist",
        "00000000-0000-4000-8000-000000000000",
    ],
)
async def test_what_is_not_there_is_not_guessed(ada: Person, words: str):
    await ada.add("Call mum's doctor", "Pay 12 bills")
    response = await ada.call("complete_task", task=words)
    assert code(response) == "not_found"
    assert message(response) == f"I couldn't find a task about '{words}' in your list."


async def test_several_that_fit_are_offered_and_at_most_five(ada: Person):
    await ada.add(*(f"Call {name}" for name in ("Ann", "Bob", "Cid", "Dan", "Eve", "Fay")))
    response = await ada.call("complete_task", task="call")
    assert code(response) == "ambiguous"
    assert response.error is not None
    assert len(response.error.options) == 5
    assert message(response).startswith("I found multiple tasks about 'call'. Which one: Call ")


async def test_completion_prefers_the_open_one_where_that_settles_it(ada: Person):
    first, second = await ada.add("Buy milk", "Buy milk")
    await ada.call("complete_task", task=first)
    response = await ada.call("complete_task", task="buy milk")
    assert response.data is not None
    assert response.data["task"]["id"] == second


async def test_titles_that_are_the_same_are_told_apart_in_the_options(ada: Person):
    await ada.call("add_task", title="Buy milk", due="2026-12-01")
    await ada.call("add_task", title="Buy milk", priority="High")
    response = await ada.call("complete_task", task="milk")
    assert response.error is not None
    assert set(response.error.options) == {
        "Buy milk (due 2026-12-01, Medium)",
        "Buy milk (no due date, High)",
    }


async def test_those_that_nobody_could_tell_apart_need_no_question(ada: Person):
    await ada.add("Buy milk", "buy milk!")
    assert (await ada.call("complete_task", task="milk")).success


async def test_more_open_tasks_than_a_list_holds_are_refused(ada: Person):
    def fill(store: Any) -> None:
        store._session.add_all([Task(user_id="ada", title=f"t{i}") for i in range(OPEN_MOST)])

    await ada.work(fill)
    response = await ada.call("add_task", title="one more")
    assert code(response) == "invalid"
    assert "1,000 open tasks" in message(response)
    await ada.call("complete_task", task="t7")
    assert (await ada.call("add_task", title="one more")).success


async def test_a_long_list_is_cut_and_says_how_many_there_are(ada: Person):
    def fill(store: Any) -> None:
        store._session.add_all(
            [Task(user_id="ada", title=f"t{i}", description="d" * 2000) for i in range(300)]
        )

    await ada.work(fill)
    response = await ada.call("list_tasks")
    assert response.data is not None
    assert response.data["total"] == 300
    assert 50 < len(response.data["tasks"]) <= 100


async def test_what_is_deleted_goes_for_good_after_thirty_days(people: People, ada: Person):
    await ada.add("Old", "Kept")
    await ada.work(lambda store: store.delete([store.find("Old").task]))
    people.clock.pass_(days=31)
    await ada.call("add_task", title="New")

    def left(store: Any) -> tuple[list[str], int]:
        session = store._session
        return sorted(task.title for task in session.exec(select(Task))), len(
            session.exec(select(Change)).all()
        ) + len(session.exec(select(Confirmation)).all())

    assert await ada.work(left) == (["Kept", "New"], 1)


async def test_undo_goes_back_step_by_step_and_forgets_after_thirty_days(
    people: People, ada: Person
):
    await ada.call("add_task", title="Buy milk")
    await ada.call("update_task", task="milk", title="Buy oat milk")
    await ada.call("complete_task", task="milk")
    done = [await ada.call("undo") for _ in range(4)]
    assert [response.data and response.data["undone"] for response in done] == [
        {"tool": "complete_task", "tasks": ["Buy oat milk"]},
        {"tool": "update_task", "tasks": ["Buy milk"]},
        {"tool": "add_task", "tasks": ["Buy milk"]},
        None,
    ]
    assert (code(done[3]), message(done[3])) == ("not_found", "There is nothing to undo.")
    assert await ada.titles() == []
    await ada.call("add_task", title="Later")
    people.clock.at += timedelta(days=30, seconds=1)
    assert code(await ada.in_run("run_9").call("undo")) == "not_found"
    assert await ada.titles() == ["Later"]


async def test_a_run_takes_back_only_so_much(ada: Person):
    await ada.add(*"abcdefg")
    done = [await ada.call("undo") for _ in range(6)]
    assert [response.success for response in done] == [True] * 5 + [False]
    assert len(await ada.titles()) == 2
    assert (await ada.in_run("run_2").call("undo")).success


async def test_one_that_differs_behind_many_that_are_alike_is_not_overlooked(ada: Person):
    await ada.add(*["Buy milk"] * 6)
    assert (await ada.call("complete_task", task="buy")).success, "nobody could tell them apart"
    await ada.add("Buy a car")
    assert code(await ada.call("complete_task", task="buy")) == "ambiguous"
    await ada.call("add_task", title="Buy milk", priority="High")
    assert code(await ada.call("complete_task", task="milk")) == "ambiguous"


async def test_a_list_has_an_end_completed_tasks_and_all(ada: Person):
    def fill(store: Any) -> None:
        store._session.add_all(
            Task(user_id="ada", title=f"Old {number}", completed=True)
            for number in range(TASKS_MOST)
        )

    await ada.work(fill)
    refused = await ada.call("add_task", title="One more")
    assert "no more can be added" in message(refused)
    assert (await ada.call("delete_task", task="Old 17")).error is not None
    await ada.work(lambda store: store.delete(store.list(status="completed")))
    assert (await ada.call("add_task", title="One more")).success
