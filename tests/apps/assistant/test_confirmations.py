"""What is asked before something big or final, and that nothing but the person's own word is an
answer.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import anyio
import pytest
from sqlmodel import Session, create_engine, select

from tests.apps.assistant.people import People, Person, code, message, phrase
from treadle.apps.assistant.caller import Grant, ToolResponse
from treadle.apps.assistant.confirmation_records import AnsweredConfirmations
from treadle.apps.assistant.tables import Confirmation
from treadle.service.database.tables import METADATA

BULK = "That's a big action. Confirm with '{}'."


async def done(ada: Person, words: str) -> list[ToolResponse]:
    return await ada.does(await ada.says(words))


async def test_deleting_asks_in_these_words_and_the_persons_yes_does_it(ada: Person):
    await ada.add("Buy milk", "Call mum")
    response = await ada.call("delete_task", task="milk")
    assert (code(response), message(response)) == (
        "confirm",
        "Do you really want to delete 'Buy milk'? Reply 'yes delete' to confirm.",
    )
    assert response.error is not None
    assert response.error.confirm is None
    assert len(await ada.titles()) == 2
    (did,) = await done(ada, "yes delete")
    assert did.success
    assert await ada.titles() == ["Call mum"]


@pytest.mark.parametrize(
    "words",
    ["  Yes Delete\n", "YES DELETE", "\uff59\uff45\uff53 \uff44\uff45\uff4c\uff45\uff54\uff45"],
)
async def test_a_yes_is_a_yes_in_any_case_and_width(ada: Person, words: str):
    await ada.add("Buy milk")
    await ada.call("delete_task", task="milk")
    assert [response.success for response in await done(ada, words)] == [True]


@pytest.mark.parametrize(
    "words",
    [
        "yes",
        "yes delete it",
        "ok, yes delete",
        "'yes delete'",
        "yes  delete",
        "yes delete all 1",
        "no",
        "yes delete\nyes delete",
        "y\u0435s delete",
        "",
    ],
)
async def test_any_other_message_cancels(ada: Person, words: str):
    await ada.add("Buy milk")
    await ada.call("delete_task", task="milk")
    answered = await ada.says(words)
    assert answered is not None
    assert (answered.outcome, answered.grant, answered.calls) == ("cancelled", None, ())
    assert await ada.says("yes delete", run_id="run_3") is None
    assert await ada.titles() == ["Buy milk"]


async def test_a_models_own_confirm_never_counts_in_a_chat(ada: Person):
    await ada.add("Buy milk")
    for confirm in ("yes delete", "true", "x" * 16):
        assert code(await ada.call("delete_task", task="milk", confirm=confirm)) == "confirm"
    assert code(await ada.call("delete_task", task="milk", confirm=True)) == "confirm"
    assert code(await ada.call("complete_all", confirm="yes complete all 1")) == "confirm"
    assert (await ada.tasks())["Buy milk"]["completed"] is False


async def test_several_deletions_of_one_run_are_one_question(ada: Person):
    await ada.add("Buy milk", "Call mum", "Read")
    said = [message(await ada.call("delete_task", task=task)) for task in ("milk", "mum", "milk")]
    assert [one.partition("? ")[2] for one in said[1:]] == [BULK.format("yes delete all 2")] * 2
    assert len(await done(ada, "yes delete all 2")) == 2
    assert await ada.titles() == ["Read"]


async def test_a_question_says_which_other_wish_of_the_same_message_was_not_carried_out(
    ada: Person,
):
    await ada.add("Buy milk", "Call mum")
    await ada.call("delete_task", task="milk")
    asked = message(await ada.call("complete_all"))
    assert asked.endswith(
        "'yes complete all 2'. I can ask one thing at a time: I haven't deleted 'Buy milk', so please tell me that again afterwards."
    )
    assert message(await ada.in_run("run_7").call("complete_all")).endswith("'yes complete all 2'.")


async def test_a_question_of_another_run_takes_the_place_of_the_one_before(ada: Person):
    await ada.add("Buy milk", "Call mum")
    await ada.call("delete_task", task="milk")
    await ada.in_run("run_7").call("delete_task", task="mum")
    await done(ada, "yes delete")
    assert await ada.titles() == ["Buy milk"]


@pytest.mark.parametrize(
    ("tool", "verb", "left"), [("complete_all", "complete", 3), ("delete_completed", "delete", 2)]
)
async def test_a_bulk_operation_asks_with_its_verb_and_count(
    ada: Person, tool: str, verb: str, left: int
):
    await ada.add("Buy milk", "Call mum")
    await ada.call("add_task", title="Old")
    await ada.call("complete_task", task="Old")
    response = await ada.call(tool)
    words = f"yes {verb} all {2 if verb == 'complete' else 1}"
    assert message(response).startswith(f"{verb.capitalize()} '")
    assert message(response).endswith(f"? {BULK.format(words)}")
    (did,) = await done(ada, words)
    assert did.data is not None
    assert did.data["count"] == (2 if verb == "complete" else 1)
    assert len(await ada.titles()) == left
    assert (await ada.in_run("run_4").call("undo")).success


async def test_a_bulk_operation_over_nothing_needs_no_question(ada: Person):
    for tool in ("complete_all", "delete_completed"):
        response = await ada.call(tool)
        assert response.data == {"count": 0, "tasks": []}
    assert code(await ada.call("undo")) == "not_found"


async def test_a_yes_is_good_once(ada: Person):
    await ada.add("Buy milk")
    await ada.call("delete_task", task="milk")
    await done(ada, "yes delete")
    await ada.in_run("run_3").call("undo")
    assert await ada.says("yes delete", run_id="run_4") is None
    assert code(await ada.in_run("run_4").call("delete_task", task="milk")) == "confirm"


async def test_the_same_run_taken_up_again_has_the_same_yes(ada: Person):
    await ada.add("Buy milk")
    await ada.call("delete_task", task="milk")
    assert await ada.says("yes delete") == await ada.says("yes delete")


async def test_a_yes_is_good_for_five_minutes(people: People, ada: Person):
    await ada.add("Buy milk")
    await ada.call("delete_task", task="milk")
    people.clock.pass_(minutes=5)
    answered = await ada.says("yes delete")
    assert answered is not None
    assert (answered.outcome, answered.grant) == ("expired", None)
    assert [code(response) for response in await ada.does(answered)] == ["confirm"]
    people.clock.pass_(minutes=4, seconds=59)
    assert [
        response.success
        for response in await ada.does(await ada.says("yes delete", run_id="run_3"), run_id="run_3")
    ] == [True]
    assert await ada.titles() == []


async def test_a_yes_is_void_where_a_task_was_changed_meanwhile(people: People, ada: Person):
    await ada.add("Buy milk")
    await ada.call("delete_task", task="milk")
    people.clock.pass_(seconds=1)
    await ada.work(lambda store: store.update(store.find("milk").task, title="Pay rent"))
    answered = await ada.says("yes delete")
    assert answered is not None
    assert (answered.outcome, answered.grant) == ("void", None)
    (again,) = await ada.does(answered)
    assert (
        message(again) == "Do you really want to delete 'Pay rent'? Reply 'yes delete' to confirm."
    )


async def test_a_yes_to_all_is_void_where_there_are_more_now(ada: Person):
    await ada.add("Buy milk", "Call mum")
    await ada.call("complete_all")
    await ada.add("Read")
    answered = await ada.says("yes complete all 2")
    (again,) = await ada.does(answered)
    assert message(again).endswith(f"? {BULK.format('yes complete all 3')}")
    assert await ada.titles(status="completed") == []


async def test_a_yes_covers_its_verb_and_its_tasks_alone(ada: Person):
    milk, mum = await ada.add("Buy milk", "Call mum")
    granted = ada.granted(Grant("delete", frozenset({milk})), "run_2")
    assert code(await granted.call("delete_task", task=mum)) == "confirm"
    assert code(await granted.call("complete_all")) == "confirm"
    assert (await granted.call("delete_task", task=milk)).success


async def test_a_yes_in_one_conversation_says_nothing_in_another(people: People, ada: Person):
    await ada.add("Buy milk")
    await ada.call("delete_task", task="milk")
    assert await people.person("ada", "other").says("yes delete") is None
    assert await people.person("bob", "chat").says("yes delete") is None
    assert await ada.titles() == ["Buy milk"]


@pytest.mark.parametrize(
    ("tool", "verb", "more"),
    [("complete_task", "complete", {}), ("update_task", "update", {"priority": "High"})],
)
async def test_the_sixth_task_that_a_run_changes_is_asked_about(
    ada: Person, tool: str, verb: str, more: dict[str, str]
):
    ids = await ada.add(*"abcdefgh")
    responses = [await ada.call(tool, task=task_id, **more) for task_id in ids]
    assert [response.success for response in responses] == [True] * 5 + [False] * 3
    assert [phrase(response) for response in responses[5:]] == [
        f"yes {verb} all {n}" for n in (1, 2, 3)
    ]
    assert all(response.success for response in await done(ada, f"yes {verb} all 3"))
    assert all(
        task["completed"] if verb == "complete" else task["priority"] == "High"
        for task in (await ada.tasks()).values()
    )


async def test_the_same_task_again_is_not_one_more(ada: Person):
    ids = await ada.add(*"abcde")
    for number in range(3):
        for task_id in ids:
            assert (await ada.call("update_task", task=task_id, description=str(number))).success


async def test_the_eleventh_in_ten_minutes_is_asked_about_in_whatever_run(
    people: People, ada: Person
):
    ids = await ada.add(*"abcdefghijkl")
    for number, task_id in enumerate(ids[:10]):
        assert (await ada.in_run(f"run_{number}").call("complete_task", task=task_id)).success
    assert code(await ada.in_run("run_10").call("complete_task", task=ids[10])) == "confirm"
    people.clock.pass_(minutes=10, seconds=1)
    assert (await ada.in_run("run_11").call("complete_task", task=ids[10])).success


async def test_what_the_person_said_yes_to_does_not_count(ada: Person):
    ids = await ada.add(*"abcdefghijklmno")
    for task_id in ids[:12]:
        await ada.call("complete_task", task=task_id)
    await done(ada, "yes complete all 7")
    assert (await ada.in_run("run_5").call("complete_task", task=ids[12])).success


async def test_what_people_do_themselves_is_neither_asked_about_nor_counted(ada: Person):
    ids = await ada.add(*"abcdefghijklmno")
    for task_id in ids:
        await ada.work(lambda store, task_id=task_id: store.complete(store.get(task_id)))
    await ada.add("p")
    assert (await ada.call("complete_task", task="p")).success


# ---------------------------------------------------------------- plain clients of the protocol


async def test_a_plain_client_gets_a_code_that_is_good_once(client: Person):
    await client.add("Buy milk")
    asked = await client.call("delete_task", task="milk")
    assert (code(asked), message(asked)) == ("confirm", "Do you really want to delete 'Buy milk'?")
    assert asked.error is not None
    given = asked.error.confirm
    assert given is not None
    assert (await client.call("delete_task", task="milk", confirm=given)).success
    await client.call("undo")
    again = await client.call("delete_task", task="milk", confirm=given)
    assert code(again) == "confirm"
    assert await client.titles() == ["Buy milk"]


async def test_only_the_hash_of_a_code_is_kept(client: Person):
    await client.add("Buy milk")
    asked = await client.call("delete_task", task="milk")
    assert asked.error is not None
    rows = await client.work(
        lambda store: [row.model_dump() for row in store._session.exec(select(Confirmation))]
    )
    assert re.fullmatch("[0-9a-f]{64}", rows[0]["code_hash"])
    assert asked.error.confirm not in rows[0].values()


async def test_a_code_is_for_its_person_its_tool_and_its_tasks_as_they_were(
    people: People, client: Person
):
    async def a_code() -> str:
        asked = await client.call("delete_task", task="milk")
        assert asked.error is not None
        assert asked.error.confirm is not None
        return asked.error.confirm

    await client.add("Buy milk", "Call mum")
    bob = people.person("bob", None).in_run(None)
    await bob.add("Buy milk")
    assert code(await bob.call("delete_task", task="milk", confirm=await a_code())) == "confirm"
    assert code(await client.call("delete_task", task="mum", confirm=await a_code())) == "confirm"
    assert code(await client.call("complete_all", confirm=await a_code())) == "confirm"
    old = await a_code()
    people.clock.pass_(minutes=5)
    assert code(await client.call("delete_task", task="milk", confirm=old)) == "confirm"
    stale = await a_code()
    people.clock.pass_(seconds=1)
    await client.work(lambda store: store.update(store.find("milk").task, priority="High"))
    assert code(await client.call("delete_task", task="milk", confirm=stale)) == "confirm"
    assert code(await client.call("delete_task", task="milk", confirm="yes delete")) == "confirm"
    assert len(await client.titles()) == 2
    assert await bob.titles() == ["Buy milk"]


async def test_a_code_of_a_plain_client_means_nothing_in_a_chat(client: Person, ada: Person):
    await client.add("Buy milk")
    asked = await client.call("delete_task", task="milk")
    assert asked.error is not None
    assert (
        code(await ada.call("delete_task", task="milk", confirm=asked.error.confirm)) == "confirm"
    )


async def test_what_is_asked_shows_a_title_shortened_and_without_what_turns_text(
    ada: Person, client: Person
):
    await ada.add("Buy \u202emilk" + " and more" * 20)
    for response in (
        await ada.call("delete_task", task="buy"),
        await client.call("delete_task", task="buy"),
    ):
        assert message(response).startswith("Do you really want to delete 'Buy milk and more")
        assert len(message(response)) < 160


async def test_of_two_answers_at_the_same_time_one_counts(tmp_path: Path):
    """Also where the sessions are an application's own, which begin their transactions late."""
    engine = create_engine(f"sqlite:///{tmp_path}/own.db")
    METADATA.create_all(engine)
    for turn in range(8):
        people = People(partial(Session, engine))
        ada = people.person(f"ada{turn}")
        await ada.add("Buy milk")
        await ada.call("delete_task", task="milk")
        outcomes: list[AnsweredConfirmations | None] = []

        async def answer(
            run_id: str, ada: Person = ada, outcomes: list[AnsweredConfirmations | None] = outcomes
        ) -> None:
            outcomes.append(await ada.says("yes delete", run_id=run_id))

        async with anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(answer, f"run_{number + 2}")
        assert [outcome.outcome for outcome in outcomes if outcome is not None] == ["granted"]
    engine.dispose()
