"""A process under `asyncio.run` that is interrupted three times while a thread runs a `once` call.
Entry: `python -m tests.crash.interrupted JOURNAL WITNESS PLACE`.

The second interrupt comes right after the first. The third comes where the function PLACE begins.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from types import FrameType
from typing import Any

from tests.crash.exhausted import ByHistory
from treadle import Agent, Runtime, tool
from treadle.config import Config


def payer(witness: str, loop: asyncio.AbstractEventLoop | None = None) -> Agent[Any, Any]:
    """With `loop`, it interrupts that twice, and the call ends when the main thread has ended."""

    @tool(effect="once")
    def pay() -> str:
        """Pays."""
        with open(witness, "a") as file:
            file.write("pay\n")
        if loop is not None:
            loop.call_soon_threadsafe(interrupt_twice)
            threading.main_thread().join()
        return "paid"

    calls = [{"name": "pay", "id": "c_pay", "arguments": dict[str, str]()}]
    script: list[dict[str, Any]] = [{"tool_calls": calls}, {"text": "done"}]
    return Agent(name="payer", model=ByHistory(script, {}), tools=[pay])


def interrupt_twice() -> None:
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)


def interrupt_at(place: str) -> None:
    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_qualname == place:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    sys.setprofile(look)


async def main(url: str, witness: str, place: str) -> None:
    async with Runtime.open(url, config=Config()) as runtime:
        interrupt_at(place)
        await runtime.run(
            payer(witness, asyncio.get_running_loop()), "go", run_id="r1", mode="full"
        )


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3]))
