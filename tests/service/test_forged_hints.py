"""Notifications that someone forged: they are hints, and show nobody what is not theirs (A4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
from anyio import lowlevel

from tests.service.chatting import signed_in
from tests.service.test_replicas import Places, at_hand, in_folder, work
from treadle._internal.json_text import encode_json
from treadle.journal.notifier import delta_topic
from treadle.messages.events import ChildStart, TextDelta
from treadle.service.database.scope import Identity, Scope
from treadle.service.running import start_run
from treadle.types import now

MARK = "all of the hint was read"


async def test_a_forged_hint_shows_nobody_the_run_of_somebody_else(tmp_path: Path) -> None:
    places = Places(*in_folder(tmp_path))
    async with at_hand(places, queue="default") as (service, ada), work(places) as runtime:
        walker = service.runtime.agents.get("walker")
        assert walker is not None
        bob = Scope(Identity((await signed_in(service, "bob"))[0], "caller"))
        theirs = await start_run(service, bob, walker, "walk 2", {})
        await runtime.resume(theirs)
        mine = await start_run(service, ada.scope, walker, "walk 1", {})
        following, notifier = await ada.follow(mine), service.runtime.journal.notifier
        said: dict[str, Any] = {"run_id": mine, "seq": 1, "at": now(), "session_id": None}
        forged = [
            ChildStart(**said, child_run_id=theirs, agent="walker"),
            TextDelta(**said, message_id="m1", attempt=1, text=MARK),
        ]
        frames: list[bytes] = []
        with anyio.fail_after(30):
            while not notifier.wanted(delta_topic(mine)):
                await lowlevel.checkpoint()
            hint = encode_json({"fence": 1, "seq": 1000, "events": forged})
            notifier.tell(delta_topic(mine), hint)
            while not frames or MARK.encode() not in frames[-1]:
                frames.append(await following.read() or b"")
            await runtime.resume(mine)
            while (frame := await following.read()) is not None:
                frames.append(frame)
        await following.leave()
        shown = b"".join(frames).replace(b" ", b"")
        assert f'"run_id":"{mine}"'.encode() in shown
        assert f'"run_id":"{theirs}"'.encode() not in shown


async def test_an_event_of_another_run_in_a_hint_is_not_shown(tmp_path: Path) -> None:
    places = Places(*in_folder(tmp_path))
    async with at_hand(places, queue="default") as (service, ada), work(places) as runtime:
        walker = service.runtime.agents.get("walker")
        assert walker is not None
        mine = await start_run(service, ada.scope, walker, "walk 1", {})
        following, notifier = await ada.follow(mine), service.runtime.journal.notifier
        said: dict[str, Any] = {"seq": 1, "at": now(), "session_id": None}
        text: dict[str, Any] = {"message_id": "m1", "attempt": 1}
        told = [
            TextDelta(**said, **text, run_id="run_of_another", text="a word of another run"),
            TextDelta(**said, **text, run_id=mine, text=MARK),
        ]
        frames: list[bytes] = []
        with anyio.fail_after(30):
            while not notifier.wanted(delta_topic(mine)):
                await lowlevel.checkpoint()
            notifier.tell(delta_topic(mine), encode_json({"fence": 1, "seq": 1000, "events": told}))
            while not frames or MARK.encode() not in frames[-1]:
                frames.append(await following.read() or b"")
            await runtime.resume(mine)
        await following.leave()
        assert b"a word of another run" not in b"".join(frames)
