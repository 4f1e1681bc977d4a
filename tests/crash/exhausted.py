"""A process that runs out of something in the middle of a run. Entry: `python -m
tests.crash.exhausted KIND JOURNAL WITNESS`.

`pay` is where it runs out; `sign` then needs a thread, `bash` a process. Each adds a line to the
witness. The outcome is printed as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, TypeAlias

import anyio

from treadle import Agent, Runtime, tool
from treadle.config import Config
from treadle.models.model import Delta, ModelRequest
from treadle.testing import ScriptedModel
from treadle.tools.builtin.coding import default_tools

KINDS = ("descriptors", "processes", "threads")
NO_ROOM = 1 << 46
"""Bytes of a stack for which no address space has room."""
NOT_ROOT = 65534
ROOM = 1 << 20
"""Bytes above those in use that are filled before memory is out."""


def exhaust(kind: str) -> None:
    """Leave the process nothing of this kind; with another word, do nothing. `memory:N` leaves
    some N KiB.
    """
    kind, _, spare = kind.partition(":")
    match kind:
        case "memory":
            fill_memory(int(spare))
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


Held: TypeAlias = tuple[bytearray, Any] | None
held: Held = None
"""A chain, since a list would need one large block."""


def fill_memory(spare_kib: int) -> None:
    """Take all address space but about this much."""
    global held
    spare = [bytearray(1024) for _ in range(spare_kib)]
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit_memory(used + ROOM)
    for size in (1 << 16, 1 << 12, 1 << 10):
        with contextlib.suppress(MemoryError):
            while True:
                held = (bytearray(size), held)
    spare.clear()


def limit_memory(size: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (size, hard))


class ByHistory(ScriptedModel):
    """Gives the response that the history is ready for, in whatever process."""

    def __init__(self, script: list[dict[str, Any]]) -> None:
        super().__init__([])
        self._responses = script

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        said = sum(message.role == "assistant" for message in request.messages)
        async for delta in ScriptedModel([self._responses[said]]).stream(request):
            yield delta


def payer(kind: str, witness: str) -> Agent[Any, Any]:
    def note(word: str) -> None:
        with open(witness, "a") as file:
            file.write(f"{word}\n")

    @tool(effect="once")
    async def pay() -> str:
        """Pays."""
        note("pay")
        exhaust(kind)
        return "paid"

    @tool(effect="once")
    def sign() -> str:
        """Signs."""
        note("sign")
        exhaust(kind)  # descriptors that something has closed since `pay`
        return "signed"

    calls: list[tuple[str, dict[str, str]]] = [("pay", {}), ("sign", {})]
    if not kind.startswith("memory"):
        calls.append(("bash", {"command": f"echo bash >> {witness}"}))
    script = [
        {"tool_calls": [{"name": name, "id": f"c_{name}", "arguments": arguments}]}
        for name, arguments in calls
    ]
    bash = next(one for one in default_tools() if one.name == "bash")
    return Agent(
        name="payer", model=ByHistory([*script, {"text": "done"}]), tools=[pay, sign, bash]
    )


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
