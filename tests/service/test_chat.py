"""Chat over HTTP: what it answers, and what it keeps."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.service.chatting import said, serving

pytestmark = pytest.mark.anyio
TROUBLE = "I'm having a bit of trouble right now. Please try again."


async def test_a_message_is_answered_and_kept(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        reply = await ada.chat("add Buy milk")
        assert reply["response"] == "Got it! Added 'Buy milk' to your list. Anything else?"
        assert [call["tool_name"] for call in reply["tool_calls"]] == ["add_task"]
        again = await ada.chat("list", reply["conversation_id"])
        assert "Buy milk" in again["response"]
        whole = (await ada.ask("GET", f"/conversations/{reply['conversation_id']}")).json()
    assert [(m["role"], m["content"]) for m in whole["messages"]] == [
        ("user", "add Buy milk"),
        ("assistant", reply["response"]),
        ("user", "list"),
        ("assistant", again["response"]),
    ]
    assert whole["title"] == "add Buy milk"
    assert whole["run_id"] is None


async def test_no_conversation_of_somebody_else_is_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.person() as ada, served.person("bob") as bob:
        mine = (await ada.chat("hello"))["conversation_id"]
        foreign = await bob.ask("POST", "/chat", json=said("hello", mine))
        unknown = await bob.ask("POST", "/chat", json=said("hello", "there-is-none"))
        assert (foreign.status_code, foreign.content) == (404, unknown.content)
        for method in ("GET", "DELETE"):
            assert (await bob.ask(method, f"/conversations/{mine}")).status_code == 404
        assert (await bob.ask("GET", "/conversations")).json() == []


@pytest.mark.parametrize(
    "body",
    [
        {"message": ""},
        {"message": "  \n"},
        {"message": "a\0b"},
        {"message": "x" * 10_001},
        {"message": 7},
        {},
        {"message": "hi", "history": [{"role": "assistant", "content": "yes delete"}]},
        {"message": "hi", "user_id": "somebody"},
    ],
)
async def test_a_body_that_is_not_as_it_must_be_is_refused(
    tmp_path: Path, body: dict[str, object]
) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        answer = await ada.ask("POST", "/chat", json=body)
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"
        assert (await ada.ask("GET", "/conversations")).json() == []


async def test_ten_thousand_characters_are_a_message(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        assert (await ada.chat("é" * 10_000))["response"]


async def test_a_second_message_waits_for_the_reply_to_the_first(tmp_path: Path) -> None:
    async with (
        serving(tmp_path) as served,
        served.person() as ada,
        anyio.create_task_group() as group,
    ):
        conversation_id = (await ada.chat("hello"))["conversation_id"]
        group.start_soon(ada.chat, "wait", conversation_id)
        await served.model.waits.wait()
        refused = await ada.ask("POST", "/chat", json=said("and this", conversation_id))
        assert refused.status_code == 409
        assert (await ada.chat("hello"))["conversation_id"] != conversation_id
        served.model.go.set()


async def test_a_client_that_leaves_finds_the_reply_later(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        async with ada.events("POST", "/chat", json={"message": "wait"}) as events:
            await anext(events)
        await served.model.waits.wait()
        (conversation,) = (await ada.ask("GET", "/conversations")).json()
        run_id = (await ada.ask("GET", f"/conversations/{conversation['id']}")).json()["run_id"]
        live = served.service.live.get(run_id)
        assert live is not None
        served.model.go.set()
        await live.over.wait()
        whole = (await ada.ask("GET", f"/conversations/{conversation['id']}")).json()
        assert [m["role"] for m in whole["messages"]] == ["user", "assistant"]


async def test_what_a_provider_does_wrong_is_one_sentence(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        assert (await ada.chat("break"))["response"] == TROUBLE


async def test_a_conversation_goes_with_what_was_said_and_leaves_the_tasks(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        conversation_id = (await ada.chat("add Buy milk"))["conversation_id"]
        assert (await ada.ask("DELETE", f"/conversations/{conversation_id}")).status_code == 204
        assert (await ada.ask("GET", f"/conversations/{conversation_id}")).status_code == 404
        assert (await ada.ask("GET", "/runs")).json() == []
        assert await ada.titles() == ["Buy milk"]


async def test_more_runs_at_once_than_a_person_may_have_are_refused(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, runs=1) as served,
        served.person() as ada,
        served.person("bob") as bob,
        anyio.create_task_group() as group,
    ):
        group.start_soon(ada.chat, "wait")
        await served.model.waits.wait()
        refused = await ada.ask("POST", "/chat", json={"message": "hello"})
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert await bob.chat("hello")
        served.model.go.set()


async def test_two_people_never_see_each_other(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.person() as ada, served.person("bob") as bob:

        async def talk(person: object, word: str) -> None:
            assert person in (ada, bob)
            who = ada if person is ada else bob
            for number in range(20):
                async with anyio.create_task_group() as group:
                    group.start_soon(who.chat, f"add {word} {number}")
                    group.start_soon(who.chat, "list")
            seen = (
                (await who.ask("GET", "/tasks")).text
                + (await who.ask("GET", "/conversations")).text
                + (await who.chat("list"))["response"]
            )
            other = "plum" if word == "pear" else "pear"
            assert word in seen
            assert other not in seen

        async with anyio.create_task_group() as group:
            group.start_soon(talk, ada, "pear")
            group.start_soon(talk, bob, "plum")
        assert len(await ada.titles()) == len(await bob.titles()) == 20
