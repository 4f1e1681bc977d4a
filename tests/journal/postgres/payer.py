"""A process of its own that drives a run with two `once` calls, one after the other.

`python -m tests.journal.postgres.payer URL WITNESS`: prints `reserving` inside of the first call,
which ends when a line is read, and `charged` inside of the second, which never ends. Entry:
`payer`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from treadle import Agent, Runtime
from treadle.testing import ScriptedModel
from treadle.tools.function import FunctionTool

SCRIPT: Final[Sequence[dict[str, Any]]] = [
    {
        "tool_calls": [
            {"id": "call_reserve", "name": "reserve", "arguments": {}},
            {"id": "call_charge", "name": "charge", "arguments": {}},
        ]
    },
    {"text": "Done."},
]


def payer(witness: Path, *, place: int = 0, **traits: Any) -> Agent[object, str]:
    """`place`: responses that the model has given. `traits` of the tool that charges."""

    async def reserve() -> str:
        return await _said("reserving") or "reserved"

    async def charge() -> str:
        with witness.open("a") as file:
            file.write("charged\n")
        await _said("charged")
        return "charged"

    given: list[tuple[str, Any, dict[str, Any]]] = [
        ("reserve", reserve, {}),
        ("charge", charge, traits),
    ]
    return Agent(
        name="payer",
        model=ScriptedModel(SCRIPT, place=place),
        tools=[
            FunctionTool(
                name=name,
                description=f"Does {name}.",
                parameters={"type": "object", "properties": {}},
                execute=execute,
                parallel=False,
                **more,
            )
            for name, execute, more in given
        ],
    )


async def _said(word: str) -> str:
    """Print it and wait for an answer, in the process of this module alone."""
    if __name__ != "__main__":
        return ""
    print(word, flush=True)
    return (await anyio.to_thread.run_sync(sys.stdin.readline)).strip()


async def main(url: str, witness: Path) -> None:
    print("ready", flush=True)
    async with Runtime.open(url) as runtime:
        await runtime.run(payer(witness), "Pay.", cwd="/")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], Path(sys.argv[2]))
