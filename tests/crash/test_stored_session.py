"""A conversation in a store of the user's own, whose process is killed around each append."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import asyncio, json, os, signal, sys
sys.path.insert(0, "examples")
from own_store import TableOfChats
from treadle import Agent, Runtime, StoredSession
from treadle.testing import ScriptedModel

folder, kill_at, *prompts = sys.argv[1:]

class Killed(TableOfChats):
    async def append(self, session_id, run_id, messages):
        if kill_at == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        await super().append(session_id, run_id, messages)
        if kill_at == "after":
            os.kill(os.getpid(), signal.SIGKILL)

async def main():
    store = Killed(f"{folder}/chats.db")
    model = ScriptedModel([{"text": f"Reply to {prompt}."} for prompt in prompts])
    async with Runtime.open(f"sqlite:///{folder}/runs.db") as rt:
        session = StoredSession(rt, "ada", agent=Agent(name="a", model=model), store=store)
        for prompt in prompts:
            await session.send(prompt)
    print(json.dumps([message.text for message in await store.load("ada")]))

asyncio.run(main())
"""


@pytest.mark.parametrize("kill_at", ["before", "after"])
def test_no_message_is_lost_or_twice_in_the_store_if_the_process_is_killed(
    kill_at: str, tmp_path: Path
) -> None:
    killed, again = (
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path), *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        for arguments in ((kill_at, "one"), ("never", "two"))
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == ["one", "Reply to one.", "two", "Reply to two."]
