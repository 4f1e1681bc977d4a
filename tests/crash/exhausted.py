"""A process that runs out of something in the middle of a run. Entry: `python -m
tests.crash.exhausted KIND JOURNAL WITNESS`.

`pay` is where it runs out; `sign` then needs a thread, `bash` a process. Each adds a line to the
witness. The outcome is printed as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import anyio

from treadle import Agent, Runtime, tool
from treadle.config import Config
from treadle.models.model import Delta, ModelRequest, TextDelta
from treadle.testing import ScriptedModel
from treadle.tools.builtin.coding import default_tools

KINDS = ("descriptors", "processes", "threads", "memory:result", "memory:response")
"""memory: what is too large is the result of `pay`, or the response that asks for `sign`."""
NO_ROOM = 1 << 46
"""Bytes of a stack for which no address space has room."""
NOT_ROOT = 65534
LARGE_BYTES = 1 << 26
ROOM_BYTES = 1 << 25
"""Address space that is left to a process whose memory runs out: enough for everything but a copy
of a large text.
"""


def exhaust(kind: str) -> None:
    """Leave the process nothing of this kind; with another word, do nothing."""
    match kind.partition(":")[0]:
        case "memory":
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            limit_memory(used + ROOM_BYTES)
        case "descriptors":
            lowest = os.open(os.devnull, os.O_RDONLY)
            os.close(lowest)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, lowest))
        case "threads":
            threading.stack_size(NO_ROOM)
        case "processes":  # and threads: both count
            resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        case _:
            return


def limit_memory(size: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (size, hard))


class ByHistory(ScriptedModel):
    """Gives the response that the history is ready for, in whatever process."""

    def __init__(self, script: list[dict[str, Any]], before: Mapping[int, str]) -> None:
        """`before`: texts that stand before responses."""
        super().__init__([])
        self._responses, self._before = script, before

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        said = sum(message.role == "assistant" for message in request.messages)
        if said in self._before:
            yield TextDelta(self._before[said])
        async for delta in ScriptedModel([self._responses[said]]).stream(request):
            yield delta


def payer(kind: str, witness: str) -> Agent[Any, Any]:
    large = "x" * LARGE_BYTES if kind.startswith("memory") else ""

    def note(word: str) -> None:
        with open(witness, "a") as file:
            file.write(f"{word}\n")

    @tool(effect="once")
    async def pay() -> str:
        """Pays."""
        note("pay")
        exhaust(kind)
        return large if kind == "memory:result" else "paid"

    @tool(effect="once")
    def sign() -> str:
        """Signs."""
        note("sign")
        exhaust(kind)  # descriptors that something has closed since `pay`
        return "signed"

    script = [
        {"tool_calls": [{"name": name, "id": f"c_{name}", "arguments": arguments}]}
        for name, arguments in (
            ("pay", {}),
            ("sign", {}),
            ("bash", {"command": f"echo bash >> {witness}"}),
        )
    ]
    bash = next(one for one in default_tools() if one.name == "bash")
    model = ByHistory([*script, {"text": "done"}], {1: large} if kind == "memory:response" else {})
    return Agent(name="payer", model=model, tools=[pay, sign, bash])


async def main(kind: str, url: str, witness: str) -> None:
    with tempfile.TemporaryDirectory() as folder:  # imports everything
        async with Runtime.open(f"sqlite:///{folder}/j.db", config=Config()) as runtime:
            await runtime.run(payer("", os.devnull), "go", mode="full")
    if kind == "processes" and os.getuid() == 0:  # no limit holds for root
        os.setuid(NOT_ROOT)
    async with Runtime.open(url, config=Config()) as runtime:
        result = await runtime.run(
            payer(kind, witness), "go", run_id="r1", mode="full", cwd=Path(witness).parent
        )
        limit_memory(resource.RLIM_INFINITY)
        print(json.dumps([result.outcome, result.error and result.error.message]), flush=True)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
