"""The shop of the experiment, the same for every framework: the effects of its tools, the answers
of its model, and the points at which a process dies.

This module depends on no framework, only on Python. The witness is a file outside every journal:
one JSON object a line, appended before anything else happens, so that it holds all effects. Entry
points: `Shop`, `Call`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

PROMPT = "Charge the orders A, B, C and D, and tell the customer of B."
DONE = "All four orders are charged."
CRASH_POINT = "CRASH_POINT"
"""The environment variable that names the point at which this process kills itself."""

_ORDERS = ("A", "B", "C", "D")
_PLAN = ((("charge", "A"),), (("charge", "B"), ("notify", "B")), (("charge", "C"), ("charge", "D")))
_TOGETHER_S = 1.0
"""Time in seconds that a tool waits for the parallel one. A framework that runs them one after the
other only loses this time.
"""
_SETTLE_S = 0.5
"""Time in seconds that `notify B` gives the framework to store the result of `charge B`."""


@dataclass(frozen=True)
class Call:
    """A tool call of the conversation, and the result that the model read."""

    id: str
    name: str
    order: str
    result: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.order}"


class Shop:
    def __init__(self, folder: Path) -> None:
        self._witness = folder / "witness.jsonl"
        self._end = folder / "end.json"
        self._dies_at = os.environ.get(CRASH_POINT, "")

    # ---------------------------------------------------------------- the world

    def saw(self) -> list[dict[str, str]]:
        if not self._witness.exists():
            return []
        return [json.loads(line) for line in self._witness.read_text(encoding="utf-8").splitlines()]

    def _record(self, what: str, of: str, **more: str) -> None:
        line = json.dumps({"what": what, "of": of, **more}) + "\n"
        # one write: it survives the process, and needs no flush
        with self._witness.open("ab", buffering=0) as file:
            file.write(line.encode())

    def _happened(self, what: str, of: str) -> bool:
        return any(seen["what"] == what and seen["of"] == of for seen in self.saw())

    def point(self, name: str) -> None:
        """Mark a point of the experiment. If this is the point to die at, the process ends at once,
        without cleanup.
        """
        self._record("point", name)
        if name == self._dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def end(self, text: str, *, unknown: Sequence[str] = (), begun_anew: bool = False) -> None:
        """Record the end of the worker. `unknown`: ids of the calls that the framework's records
        describe as possibly executed.

        `begun_anew`: the framework had nothing to continue, and the prompt was given again.
        """
        self._end.write_text(
            json.dumps({"text": text, "unknown_in_log": list(unknown), "begun_anew": begun_anew}),
            encoding="utf-8",
        )

    # ---------------------------------------------------------------- the tools

    async def charge(self, order: str) -> str:
        """Charge an order. Must not silently happen twice."""
        self._record("entered", f"charge {order}")
        if order == "C":  # both are under way before the first of them does anything
            await _until(lambda: self._happened("entered", "charge D"))
        if order == "D":
            await _until(lambda: self._happened("charge", "C"))
        self.point(f"charge {order} starts")
        self._record("charge", order)
        self.point(f"charge {order} took effect")
        if order in ("C", "D"):
            await _until(lambda: self._happened("charge", "C") and self._happened("charge", "D"))
        self._record("returned", f"charge {order}")
        return _charged(order)

    async def notify(self, order: str) -> str:
        """Send a message that is harmless to send again."""
        await _until(lambda: self._happened("charge", order))
        await asyncio.sleep(_SETTLE_S)
        self.point(f"notify {order} starts")
        self._record("notify", order)
        self.point(f"notify {order} took effect")
        return _notified(order)

    async def look_up(self, order: str) -> str:
        """Return whether an order was charged. Changes nothing."""
        return (
            f"{order} was charged"
            if self._happened("charge", order)
            else f"{order} was not charged"
        )

    # ---------------------------------------------------------------- the model

    def answer(self, calls: Sequence[Call]) -> tuple[Call, ...]:
        """Return the calls that the model wants next, given those of the conversation so far; if
        none, it answers `DONE`.
        """
        for call in calls:
            if call.name == "charge" and call.result != _charged(call.order):
                self._record("doubt", call.id, text=call.result)
        wanted = tuple(_with_id(name, order, calls) for name, order in _next(calls))
        said = " and ".join(str(call) for call in wanted) or "done"
        self.point(f"request sent, before {said}")
        self._record("answer", "+".join(call.id for call in wanted) or "done")
        self.point(f"response {said} sent")
        return wanted


def _charged(order: str) -> str:
    return f"charged {order}"


def _notified(order: str) -> str:
    return f"notified {order}"


def _next(calls: Sequence[Call]) -> tuple[tuple[str, str], ...]:
    """Return the next calls. An order with an unclear result is looked up first, and charged again
    only if it was not charged.
    """
    last = {
        order: [call for call in calls if call.order == order and call.name != "notify"]
        for order in _ORDERS
    }
    if open_ones := [
        order
        for order in _ORDERS
        if last[order]
        and last[order][-1].name == "charge"
        and last[order][-1].result != _charged(order)
    ]:
        return tuple(("look_up", order) for order in open_ones)
    if missing := [
        order
        for order in _ORDERS
        if last[order] and last[order][-1].result == f"{order} was not charged"
    ]:
        return tuple(("charge", order) for order in missing)
    told = [call for call in calls if call.name == "notify"]
    if told and told[-1].result != _notified(told[-1].order):
        return (("notify", told[-1].order),)
    asked = {(call.name, call.order) for call in calls}
    return next((batch for batch in _PLAN if not asked.issuperset(batch)), ())


def _with_id(name: str, order: str, calls: Sequence[Call]) -> Call:
    before = sum(call.name == name and call.order == order for call in calls)
    return Call(f"{name}-{order}-{before + 1}", name, order)


async def _until(true: Callable[[], bool]) -> None:
    """Wait for a condition, for a limited time: some frameworks run the tools of a turn one after
    the other.
    """
    deadline = asyncio.get_running_loop().time() + _TOGETHER_S
    while not true() and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.01)
