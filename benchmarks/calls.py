"""Count the Python calls of a run, a turn, a delta and an append, on a model without a wire and on
one behind a socket.

    python -m benchmarks.calls              # the table
    python -m benchmarks.calls --of turn-sqlite   # the functions behind one row
    python -m benchmarks.calls --json       # the counts alone

Counts repeat from one process to the next, where times do not: tests/test_calls.py holds them.
A resumed coroutine counts as a call; calls of C functions and those of other threads do not.
Entry points: `count`, `main`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from treadle import Agent, Limits, Runtime, tool
from treadle.config import load
from treadle.journal.entries import InputAdded, RunStarted
from treadle.journal.sqlite import SqliteJournal
from treadle.messages.message import Message
from treadle.models.providers.scripted import ScriptedModel
from treadle.types import now

USAGE = {"input_tokens": 512, "output_tokens": 64}
TURNS = 10
"""Turns of the long run. The difference from a run without a call, by this, is one turn."""
DELTAS = 200
ROUNDS = 5
"""Runs of each kind; the lowest count is the one that no timer came into."""

Counts = Counter[CodeType]
Once = Callable[[], Awaitable[object]]
Prepare = Callable[[], Once]
"""Makes everything that one round needs, outside of the count."""


@tool(effect="pure")
async def lookup(key: str) -> str:
    """Look up the value of a key.

    Args:
        key: The key to look up.
    """
    return "value-42"


@tool(name="lookup")
def lookup_once(key: str) -> str:
    """Look up the value of a key, in a thread and with the effect of a tool that declares none.

    Args:
        key: The key to look up.
    """
    return "value-42"


class Counting:
    """Count the Python calls of this thread."""

    def __init__(self) -> None:
        self.calls: Counts = Counter()

    def __enter__(self) -> Counting:
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.setprofile(None)

    def _seen(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename != __file__:
            self.calls[frame.f_code] += 1

    async def fewest(self, prepare: Prepare) -> Counts:
        """Return the calls of the cheapest of several rounds, after two that fill caches."""
        rounds: list[Counts] = []
        for _ in range(ROUNDS + 2):
            once = prepare()
            self.calls.clear()
            await once()
            rounds.append(Counter(self.calls))
        return min(rounds[2:], key=lambda calls: calls.total())


# ---------------------------------------------------------------- a model without a wire


def _scripted(turns: int) -> Agent:
    calls = [{"name": "lookup", "arguments": {"key": f"k{i}"}} for i in range(turns)]
    answers: list[dict[str, object]] = [
        {"text": "Let me look that up.", "tool_calls": [call], "usage": USAGE} for call in calls
    ]
    model = ScriptedModel([*answers, {"text": "All done.", "usage": USAGE}])
    limits = Limits(turns=turns + 10)
    return Agent(
        name="count", instructions="Use the tool.", model=model, tools=[lookup_once], limits=limits
    )


def _turns(runtime: Runtime, turns: int, agent: Callable[[int], Agent]) -> Once:
    made = agent(turns)

    async def once() -> None:
        result = await runtime.run(made, "Look up the keys.")
        assert result.unwrap() == "All done.", result
        assert result.metrics.tool_calls == turns, result

    return once


# ---------------------------------------------------------------- a model behind a socket


def _events(*events: Mapping[str, object]) -> bytes:
    lines = (f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
    body = "".join(lines).encode()
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _block(
    index: int, block: Mapping[str, object], deltas: list[dict[str, object]]
) -> Iterator[Any]:
    yield {"type": "content_block_start", "index": index, "content_block": block}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _response(text: list[str], call: int | None) -> bytes:
    words: list[dict[str, object]] = [{"type": "text_delta", "text": word} for word in text]
    blocks = list(_block(0, {"type": "text", "text": ""}, words))
    if call is not None:
        given: dict[str, object] = {
            "type": "input_json_delta",
            "partial_json": f'{{"key": "k{call}"}}',
        }
        block: dict[str, object] = {
            "type": "tool_use",
            "id": f"toolu_{call}",
            "name": "lookup",
            "input": {},
        }
        blocks += _block(1, block, [given])
    message: dict[str, object] = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "mock", "content": [],
        "usage": {"input_tokens": 512, "output_tokens": 1},
    }  # fmt: skip
    reason = "end_turn" if call is None else "tool_use"
    end = {
        "type": "message_delta",
        "delta": {"stop_reason": reason},
        "usage": {"output_tokens": 64},
    }
    return _events(
        {"type": "message_start", "message": message}, *blocks, end, {"type": "message_stop"}
    )


class Server:
    """A model on loopback. It writes each answer at once, so that the client reads it at once."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.answers: list[bytes] = []
        """Answers to the next requests, in order."""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as lines:
            while lines.readline():
                size = 0
                while line := lines.readline().strip():
                    name, _, value = line.partition(b":")
                    size = int(value) if name.lower() == b"content-length" else size
                lines.read(size)
                client.sendall(self.answers.pop(0))

    def close(self) -> None:
        self._socket.close()

    def agent(self, turns: int) -> Agent:
        """Return an agent, and have the answers ready that its one run gets."""
        self.answers = [_response(["Let me ", "look."], i) for i in range(turns)]
        self.answers.append(_response(["All ", "done."], None))
        return self._agent(turns)

    def _agent(self, turns: int) -> Agent:
        model, limits = "anthropic:claude-sonnet-4-5", Limits(turns=turns + 10)
        return Agent(
            name="count", instructions="Use it.", model=model, tools=[lookup], limits=limits
        )

    def stream(self, runtime: Runtime, deltas: int) -> Once:
        self.answers = [_response(["word "] * deltas, None)]

        async def once() -> None:
            async with runtime.stream(self._agent(0), "Say it.") as run:
                async for _ in run:
                    pass

        return once


# ---------------------------------------------------------------- what is counted


@contextmanager
def _journal(kind: str) -> Generator[str]:
    if kind == "memory":
        yield "memory:"
        return
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{Path(folder) / 'journal.db'}"


async def _append() -> Counts:
    """Return the calls of an append of one entry."""
    with _journal("sqlite") as url, Counting() as counting:
        journal = SqliteJournal.open(Path(url.removeprefix("sqlite:///")))
        try:
            message = Message.user("Look up the keys.")
            writer = await journal.begin(
                RunStarted(
                    at=now(), run_id="run_1", agent="count", agent_hash="0", model="script:m",
                    mode="full", cwd="/", input=message,
                )
            )  # fmt: skip
            entry = InputAdded(at=now(), message=message, by="user")
            return await counting.fewest(lambda: partial(writer.append, [entry]))
        finally:
            await journal.aclose()


async def _run_and_turn(kind: str, *, wired: bool) -> dict[str, Counts]:
    server = Server() if wired else None
    agent = _scripted if server is None else server.agent
    environment = {"ANTHROPIC_API_KEY": "sk-x", "ANTHROPIC_BASE_URL": server.url if server else ""}
    suffix = f"{kind}{'-wire' if wired else ''}"
    with _journal(kind) as journal, Counting() as counting:
        async with Runtime.open(journal, config=load(environment, files=False)) as runtime:
            one = await counting.fewest(lambda: _turns(runtime, 0, agent))
            many = await counting.fewest(lambda: _turns(runtime, TURNS, agent))
            found = {f"run-{suffix}": one, f"turn-{suffix}": _share(many, one, TURNS)}
            if server is not None:
                stream = server.stream
                few = await counting.fewest(lambda: stream(runtime, 10))
                more = await counting.fewest(lambda: stream(runtime, 10 + DELTAS))
                found[f"delta-{suffix}"] = _share(more, few, DELTAS, rounded=False)
    if server is not None:
        server.close()
    return found


def _share(many: Counts, few: Counts, by: int, *, rounded: bool = True) -> Counts:
    return Counter(
        {code: (many[code] - few[code]) / by for code in many if many[code] != few[code]}
    )


def count() -> dict[str, Counts]:
    """Return the calls of each row, by function."""
    found = {"append-sqlite": asyncio.run(_append())}
    for kind in ("memory", "sqlite"):
        for wired in (False, True):
            found |= asyncio.run(_run_and_turn(kind, wired=wired))
    return found


def main() -> None:
    options = argparse.ArgumentParser(description="Counts the Python calls of a turn.")
    options.add_argument("--of", help="list the functions of this row")
    options.add_argument("--json", action="store_true", help="print the counts as JSON")
    given = options.parse_args()
    found = count()
    if given.json:
        print(json.dumps({name: calls.total() for name, calls in found.items()}))
        return
    for name, calls in found.items():
        print(f"{name:20} {calls.total():8.1f}")
    if given.of:
        for code, calls in found[given.of].most_common():
            print(
                f"{calls:8.2f}  {code.co_qualname}  {Path(code.co_filename).name}:{code.co_firstlineno}"
            )


if __name__ == "__main__":
    main()
