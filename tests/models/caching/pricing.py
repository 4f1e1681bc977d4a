"""A server that prices each request by what a prompt cache could read of it: its longest prefix in
common with requests before.

What a prompt is stands in prompts.py, what the server answers is each test's. Entry: `pricing`.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import takewhile

from anyio.abc import ByteStream
from typing_extensions import override

from tests.models.caching.prompts import Block, Prompt, prompt_of
from tests.models.providers.loopback import Answer, Server, listening

LOOKED_BACK = 20
"""Blocks before a breakpoint at which Claude looks for what it has cached, the breakpoint's own
included.
"""
BREAKPOINTS_MAX = 4
_OF_MESSAGES = ("tool_choice", "thinking")
_AROUND = 60


@dataclass(frozen=True)
class Bill:
    """All sizes in bytes of the prompt."""

    size: int
    could: int
    """What the request before had, and so what a cache could hold of this one."""
    read: int
    """The longest prefix that this one shares with any before it."""
    marked: int
    """What of that Claude reads, which caches nothing but what ends at a breakpoint."""
    parted: str | None
    """Where it parts from the request before, if that is not its beginning."""


class Cache:
    """What a provider remembers of the requests that it has seen.

    Only what Claude writes expires, and only where a test moves the clock.
    """

    def __init__(self, wire: str) -> None:
        self.wire = wire
        self.now_s = 0.0
        self.prompts: list[Prompt] = []
        self._written: dict[bytes, tuple[float, float]] = {}
        """By the hash of a prefix: when it expires, and the time by which a read puts that off."""

    def copy(self) -> Cache:
        """A cache that has seen the same."""
        made = Cache(self.wire)
        made.now_s, made.prompts, made._written = self.now_s, [*self.prompts], {**self._written}
        return made

    def price(self, body: bytes) -> Bill:
        prompt = prompt_of(self.wire, body)
        before = self.prompts[-1].blocks if self.prompts else ()
        read = max((_common(prompt.blocks, seen.blocks) for seen in self.prompts), default=0)
        bill = Bill(
            size=_size(prompt.blocks),
            could=min(_size(before), _size(prompt.blocks)),
            read=read,
            marked=self._through_breakpoints(prompt),
            parted=_parted(before, prompt.blocks),
        )
        self.prompts.append(prompt)
        return bill

    def _through_breakpoints(self, prompt: Prompt) -> int:
        blocks = prompt.blocks
        marks = [i for i, block in enumerate(blocks) if block.breakpoint]
        assert len(marks) <= BREAKPOINTS_MAX, (
            f"{len(marks)} breakpoints, and Claude refuses more than {BREAKPOINTS_MAX}"
        )
        prefixes = _prefixes(prompt)
        lives = [blocks[mark].lives_s for mark in marks]
        assert lives == sorted(lives, reverse=True), (
            "what is kept for an hour comes before what is kept for five minutes"
        )
        looked_at = {i for mark in marks for i in range(max(mark - LOOKED_BACK + 1, 0), mark + 1)}
        found = max((i + 1 for i in looked_at if self._is_fresh(prefixes[i])), default=0)
        for prefix in prefixes[:found]:
            if self._is_fresh(prefix):
                self._written[prefix] = (
                    self.now_s + self._written[prefix][1],
                    self._written[prefix][1],
                )
        self._written.update(
            {
                prefixes[mark]: (self.now_s + blocks[mark].lives_s, blocks[mark].lives_s)
                for mark in marks
            }
        )
        return _size(blocks[:found])

    def _is_fresh(self, prefix: bytes) -> bool:
        return prefix in self._written and self._written[prefix][0] > self.now_s


def _size(blocks: Sequence[Block]) -> int:
    return sum(len(block.data) for block in blocks)


def _prefixes(prompt: Prompt) -> list[bytes]:
    """A hash of the blocks up to each one; from the first message on also of the settings that
    Claude's messages are cached under.
    """
    digest, prefixes = hashlib.sha256(), list[bytes]()
    for i, block in enumerate(prompt.blocks):
        if i == prompt.messages_at:
            digest.update(b"".join(prompt.settings.get(name, b"-") for name in _OF_MESSAGES))
        digest.update(b"%d:" % len(block.data) + block.data)
        prefixes.append(digest.digest())
    return prefixes


def _common(ours: Sequence[Block], theirs: Sequence[Block]) -> int:
    """Bytes, up to the first that differs."""
    same = sum(
        1
        for _ in takewhile(
            lambda pair: pair[0].data == pair[1].data, zip(ours, theirs, strict=False)
        )
    )
    rest = 0
    if same < min(len(ours), len(theirs)):
        rest = sum(
            1
            for _ in takewhile(
                lambda pair: pair[0] == pair[1],
                zip(ours[same].data, theirs[same].data, strict=False),
            )
        )
    return _size(ours[:same]) + rest


def _parted(before: Sequence[Block], now: Sequence[Block]) -> str | None:
    for i, was in enumerate(before):
        if i == len(now):
            return f"block {i} is gone: {was.data[:_AROUND]!r}"
        if was.data != now[i].data:
            place = _common([was], [now[i]])
            around = slice(max(place - _AROUND, 0), place + _AROUND)
            return f"block {i} of {len(before)}, byte {place}:\n  was {was.data[around]!r}\n  is  {now[i].data[around]!r}"
    return None


class PricingServer(Server):
    """Answers as it is told, and writes a bill for each request."""

    def __init__(self, wire: str, answers: Sequence[Answer]) -> None:
        super().__init__("http")
        self.answers = list(answers)
        self.cache = Cache(wire)
        self.bills: list[Bill] = []

    @override
    async def _answer(self, stream: ByteStream, answer: Answer) -> bool:
        self.bills.append(self.cache.price(self.seen[-1].body))
        return await super()._answer(stream, answer)


@asynccontextmanager
async def pricing(wire: str, *answers: Answer) -> AsyncGenerator[PricingServer]:
    """Each request takes the next answer."""
    server = PricingServer(wire, answers)
    async with listening(server.handle) as port:
        server.port = port
        yield server
