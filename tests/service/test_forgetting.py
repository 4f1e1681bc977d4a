"""A conversation that is deleted is nowhere any more: not in the database, not in the journal, not
in their logs.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.service.chatting import Person, serving
from treadle.errors import AgentError
from treadle.service import forgetting
from treadle.service.running import info_of
from treadle.service.state import Service

pytestmark = pytest.mark.anyio
CANARY = "canary"


SEARCH = """
import pathlib, sys
files = (path for path in pathlib.Path(sys.argv[1]).rglob("*") if path.is_file())
print(*sorted(path.name for path in files if sys.argv[2] in path.read_bytes().decode("latin-1").lower()))
"""


def holders(folder: Path, word: str = CANARY) -> list[str]:
    """Files in which it stands, in either case.

    Another process reads them: closing them in this one would drop the locks of its databases.
    """
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", SEARCH, str(folder), word],
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.split()


async def runs_of(person: Person) -> list[str]:
    return [run["run_id"] for run in (await person.ask("GET", "/runs")).json()]


async def test_what_was_said_is_in_no_file_once_the_delete_has_answered(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        kept = await ada.chat("say 3")
        first = await ada.chat(f"hello {CANARY} " + "and more of it " * 500)
        for number in range(20):
            await ada.chat(f"{number} {CANARY} {'x' * 97 * number}", first["conversation_id"])
        await ada.chat("delete " + CANARY, first["conversation_id"])
        gone = set(await runs_of(ada))
        assert {"service.db-wal", "journal.db-wal"} & set(holders(tmp_path))
        assert (
            await ada.ask("DELETE", f"/conversations/{first['conversation_id']}")
        ).status_code == 204
        assert holders(tmp_path) == []
        left = await runs_of(ada)
        assert len(left) == 1
        for run_id in gone - set(left):
            assert await info_of(served.service, run_id) is None
        whole = (await ada.ask("GET", f"/conversations/{kept['conversation_id']}")).json()
        assert [message["role"] for message in whole["messages"]] == ["user", "assistant"]
        assert await info_of(served.service, left[0]) is not None


async def test_what_a_reader_kept_in_the_logs_is_gone_soon_after_it_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "SCRUB_S", 0.05)
    async with serving(tmp_path) as served, served.person() as ada:
        conversation_id = (await ada.chat(f"hello {CANARY} " + "and more of it " * 500))[
            "conversation_id"
        ]
        for number in range(6):
            await ada.chat(f"{number} {CANARY} {'x' * 97 * number}", conversation_id)
        with closing(sqlite3.connect(tmp_path / "service.db", isolation_level=None)) as reader:
            reader.execute("begin")
            reader.execute("select count(*) from chatmessage").fetchall()
            assert (await ada.ask("DELETE", f"/conversations/{conversation_id}")).status_code == 204
            assert "service.db-wal" in holders(tmp_path)
            reader.execute("commit")
            with anyio.fail_after(20):
                while holders(tmp_path) or served.service.database.owes_log:
                    await anyio.sleep(0.01)


async def test_a_log_that_a_process_left_behind_is_emptied_when_a_service_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "SCRUB_S", 0.05)
    with closing(sqlite3.connect(tmp_path / "service.db", isolation_level=None)) as reader:
        reader.execute("pragma journal_mode = wal").fetchall()
        async with serving(tmp_path) as served, served.person() as ada:
            conversation_id = (await ada.chat(f"hello {CANARY}"))["conversation_id"]
            reader.execute("begin")
            reader.execute("select count(*) from chatmessage").fetchall()
            assert (await ada.ask("DELETE", f"/conversations/{conversation_id}")).status_code == 204
        assert "service.db-wal" in holders(tmp_path)
        reader.execute("commit")  # it stays open, so that no close empties the log
        async with serving(tmp_path):
            with anyio.fail_after(20):
                while holders(tmp_path):
                    await anyio.sleep(0.01)


async def test_a_deleted_conversation_is_not_there_and_anothers_never_was(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.person() as ada, served.person("bob") as bob:
        path = f"/conversations/{(await ada.chat('hello'))['conversation_id']}"
        other = await bob.ask("DELETE", path)
        never = await bob.ask("DELETE", "/conversations/never")
        assert (
            (other.status_code, other.content)
            == (never.status_code, never.content)
            == (404, never.content)
        )
        assert [(await ada.ask("DELETE", path)).status_code for _ in range(2)] == [204, 404]


@pytest.mark.parametrize("message", ["hang", "wait " + CANARY])
async def test_a_run_under_way_is_cancelled_first(tmp_path: Path, message: str) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        conversation_id = (await ada.chat(f"hello {CANARY}"))["conversation_id"]
        with anyio.fail_after(20):
            async with ada.events(
                "POST", "/chat", json={"message": message, "conversation_id": conversation_id}
            ) as events:
                await anext(events)
                await served.model.waits.wait()
                assert (
                    await ada.ask("DELETE", f"/conversations/{conversation_id}")
                ).status_code == 204
                assert [event.kind async for event in events][-1] in ("reply", "error")
        assert holders(tmp_path) == []
        assert not len(served.service.live)
        assert await runs_of(ada) == []


async def test_a_message_that_comes_meanwhile_goes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        conversation_id = (await ada.chat(f"hello {CANARY}"))["conversation_id"]
        remove, said = served.service.runtime.journal.remove, list[str]()

        async def and_then_another_comes(run_ids: set[str]) -> object:
            freed = await remove(run_ids)
            if not said:
                said.append(
                    (await ada.chat(f"one more {CANARY}", conversation_id))["conversation_id"]
                )
            return freed

        monkeypatch.setattr(served.service.runtime.journal, "remove", and_then_another_comes)
        assert (await ada.ask("DELETE", f"/conversations/{conversation_id}")).status_code == 204
        assert said == [conversation_id]
        assert holders(tmp_path) == []


async def test_a_deletion_that_was_cut_can_be_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        conversation_id = (await ada.chat(f"hello {CANARY}"))["conversation_id"]

        def cut(*_: object) -> bool:
            raise AgentError("network", "the database went away")

        with monkeypatch.context() as broken:
            broken.setattr(forgetting, "_delete", cut)
            assert (await ada.ask("DELETE", f"/conversations/{conversation_id}")).status_code == 503
        whole = await ada.ask("GET", f"/conversations/{conversation_id}")
        assert whole.status_code == 200, "its rows are there, and name what is to be deleted"
        assert (await ada.ask("DELETE", f"/conversations/{conversation_id}")).status_code == 204
        assert holders(tmp_path) == []


async def test_what_another_replica_drives_is_cancelled_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as here, serving(tmp_path) as there, here.person() as ada:
        elsewhere = Person(
            there_client(there.url),
            ada.headers["Authorization"].removeprefix("Bearer "),
            ada.user_id,
        )
        conversation_id = (await ada.chat(f"hello {CANARY}"))["conversation_id"]
        with anyio.fail_after(100):
            async with ada.events(
                "POST", "/chat", json={"message": "hang", "conversation_id": conversation_id}
            ) as events:
                await anext(events)
                await here.model.waits.wait()
                async with elsewhere.http:
                    delete = partial(elsewhere.ask, "DELETE", f"/conversations/{conversation_id}")
                    # 409: the other replica did not respond in time, on a busy machine
                    while (answer := await delete()).status_code == 409:
                        pass
                    assert answer.status_code == 204
        assert not _is_named(there.service, conversation_id)
        while len(here.service.live):
            await anyio.sleep(0.01)
        assert await runs_of(ada) == []


def there_client(url: str):
    import httpx2

    return httpx2.AsyncClient(base_url=url, timeout=60)


def _is_named(service: Service, conversation_id: str) -> bool:
    return any(conversation_id in key for key in service.live.channels._readers)
