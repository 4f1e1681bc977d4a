"""The place at the bottom of the screen for the input or a question. Entry points: `Slot`.

Each kind of question has its own module; screen.py shows one at a time and queues the others.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import anyio
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindingsBase
from prompt_toolkit.layout import Container, Window

Answer_co = TypeVar("Answer_co", covariant=True)
Given = TypeVar("Given")

Line = StyleAndTextTuples
"""One row of the region as styled fragments."""


class Slot(Protocol[Answer_co]):
    """Question to the user, shown in place of the input."""

    @property
    def container(self) -> Container:
        """Container to draw, at most `rows` high."""
        ...

    @property
    def focus(self) -> Window:
        """Window that receives the keys."""
        ...

    @property
    def keys(self) -> KeyBindingsBase:
        """Key bindings that are active. They must include Escape for the safe answer."""
        ...

    def opened(self, rows: int) -> None:
        """Prepare for being visible, with the available height. Called again when the height
        changes, and when the slot is uncovered.
        """
        ...

    async def answer(self) -> Answer_co:
        """Wait for the answer."""
        ...


class SlotAnswer(Generic[Given]):
    """Awaitable answer of a slot."""

    def __init__(self) -> None:
        self._there = anyio.Event()
        self._given: list[Given] = []

    def give(self, answer: Given) -> None:
        """Set the answer; later calls are ignored."""
        if not self._given:
            self._given.append(answer)
            self._there.set()

    async def wait(self) -> Given:
        await self._there.wait()
        return self._given[0]
