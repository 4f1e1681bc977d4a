"""Keep a conversation for each user, also over a restart.

python examples/memory.py
"""

import asyncio
import tempfile
from pathlib import Path

from treadle import Agent, Runtime
from treadle.testing import ScriptedModel

URL = f"sqlite:///{Path(tempfile.mkdtemp()) / 'chats.db'}"


async def ask(user: str, text: str, answer: str) -> None:
    agent = Agent(name="guide", model=ScriptedModel([{"text": answer}]))
    async with Runtime.open(URL) as rt:  # as after a restart
        session = rt.session(user, agent=agent)
        await session.send(text)
        print(user, len(await session.history()), "messages")


async def main() -> None:
    await ask("ada", "I am Ada, and I like tea.", "Noted.")
    await ask("bob", "I am Bob.", "Hello Bob.")
    await ask("ada", "What do I like?", "Tea.")


asyncio.run(main())
