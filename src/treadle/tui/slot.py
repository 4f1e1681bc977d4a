"""The one place at the bottom of the screen in which the person types, or is asked something: what
can stand there. Entry: `Slot`.

Each kind of question is a file of its own; screen.py shows one at a time and queues the others.
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
"""One row of the region: pieces of text with their styles."""


class Slot(Protocol[Answer_co]):
    """A question to the person."""

    @property
    def container(self) -> Container:
        """What is drawn; not higher than `rows` allows."""
        ...

    @property
    def focus(self) -> Window:
        """Where keys go."""
        ...

    @property
    def keys(self) -> KeyBindingsBase:
        """In force while it stands there; Escape must be among them, and be the safe answer."""
        ...

    def opened(self, rows: int) -> None:
        """It stands on the screen from now on, and may take so many rows; again where that has
        changed, or something else stood before it.
        """
        ...

    async def answer(self) -> Answer_co:
        """Waits for what the person says."""
        ...


class SlotAnswer(Generic[Given]):
    """An answer that is waited for: what every slot holds one of."""

    def __init__(self) -> None:
        self._there = anyio.Event()
        self._given: list[Given] = []

    def give(self, answer: Given) -> None:
        """The first one counts."""
        if not self._given:
            self._given.append(answer)
            self._there.set()

    async def wait(self) -> Given:
        await self._there.wait()
        return self._given[0]
