"""Deferred tools: the model searches them, and the run offers those that it has found.

Which ones are offered follows from the conversation alone, so that a resume, a replay and a fork
offer the same. Entry points: `SearchedRegistry`, `SearchTools`.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nsmallest
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from anyio import to_thread
from typing_extensions import override

from treadle._internal.json_text import JsonText, decode_json
from treadle.messages.message import Message, ToolResult
from treadle.models.model import ToolDefinition
from treadle.tools.offered import SEARCH
from treadle.tools.registry import ToolRegistry
from treadle.tools.tool import (
    NOTHING_TOUCHED,
    InvalidArguments,
    ProbeAnswer,
    Tool,
    ToolContext,
    Touched,
)
from treadle.types import Effect

FOUND_MOST: Final = 8
"""Maximum number of tools that one search finds."""
_DESCRIBED_CHARS = 200
_NAME_WEIGHT = 3
_PREFIX_CHARS = 4
_SATURATION, _BY_LENGTH = 1.2, 0.75
"""The usual constants k1 and b of BM25."""
_FOUND = re.compile(r"^- ([A-Za-z0-9_.:-]{1,128}): ", re.MULTILINE)
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORDS = re.compile(r"[^\W_]+")
_DESCRIPTION = (
    "Search the tools that are not listed here, by what they do. Use it before you conclude that "
    "there is no tool for something. The tools that it finds can be called from your next response "
    "on."
)


class SearchedRegistry(ToolRegistry):
    """Registry of a run with deferred tools. Those that a search has found, or that the model has
    called, are offered after everything that was offered before.
    """

    defers = True

    def __init__(
        self, tools: Sequence[Tool[Any]], offers: Callable[[Tool[Any]], bool], *, native: bool
    ) -> None:
        """Create a registry. `native`: the provider searches the tools and receives all of them."""
        self._native = native
        self._order: list[str] = []
        """Names of the offered tools."""
        self._deferred: dict[str, ToolDefinition] = {}
        self._history: Sequence[Message] | None = None
        self._read = 0
        """Number of messages of the history that were searched for names."""
        super().__init__(tools, offers)
        if not native:
            self.register(SearchTools(self._deferred))

    @override
    def register(self, tool: Tool[Any]) -> None:
        super().register(tool)
        definition = tool.definition
        if not definition.deferred:
            self._order.append(definition.name)
        elif self._offers(tool):
            self._deferred[definition.name] = definition

    @override
    def load(self, history: Sequence[Message]) -> bool:
        if self._native:
            return False
        before = self._order
        if history is not self._history:  # new, or compacted
            self._order = [name for name in self._order if name not in self._deferred]
            self._history, self._read = history, 0
        found = (name for message in history[self._read :] for name in _names_in(message))
        wanted = dict.fromkeys(name for name in found if name in self._deferred)
        self._read = len(history)
        self._order = [*self._order, *(name for name in wanted if name not in self._order)]
        return self._order != before

    @override
    def definitions(self) -> tuple[ToolDefinition, ...]:
        if self._native:
            return super().definitions()
        shown = [tool for name in self._order if (tool := self.get(name)) and self._offers(tool)]
        return tuple(
            msgspec.structs.replace(tool.definition, deferred=False)
            if tool.name in self._deferred
            else tool.definition
            for tool in shown
        )


def _names_in(message: Message) -> Iterator[str]:
    for part in message.parts:
        if isinstance(part, ToolResult) and part.name == SEARCH and not part.is_error:
            yield from _FOUND.findall(part.text)
    for call in message.tool_calls:
        yield call.name


class SearchTools:
    """Tool that searches deferred tools by their names, descriptions and parameters (BM25)."""

    name = SEARCH
    effect: Effect = "pure"
    parallel = False  # searches share the index
    timeout_s = None
    needs_approval = False
    max_output = 30_000
    definition = ToolDefinition(
        name=SEARCH,
        description=_DESCRIPTION,
        parameters={
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": "A few words about the task, or the name of a tool.",
                }
            },
            "required": ["query"],
            "additionalProperties": False,
        },
    )

    def __init__(self, tools: dict[str, ToolDefinition]) -> None:
        """Create the tool. `tools`: the deferred tools by name, to which others may be added."""
        self._tools = tools
        self._weights: dict[str, dict[str, int]] = {}
        """Weights of a word by tool."""
        self._lengths: dict[str, int] = {}
        """Sum of the weights of a tool's words."""

    def parse(self, arguments_json: JsonText) -> str:
        try:
            given = decode_json(arguments_json.encode(errors="replace"), dict[str, object])
        except (ValueError, RecursionError) as e:
            raise InvalidArguments(f"The arguments of {SEARCH} are not a JSON object: {e}") from e
        query = given.get("query")
        if not isinstance(query, str) or not query.strip() or len(given) > 1:
            raise InvalidArguments(
                f'{SEARCH} takes one argument, a non-empty text: {{"query": "…"}}'
            )
        return query

    def touches(self, arguments: str, cwd: Path) -> Touched | None:
        return NOTHING_TOUCHED

    async def execute(self, ctx: ToolContext[Any], arguments: str) -> str:
        found = await to_thread.run_sync(self.search, arguments)
        if not found:
            return (
                f"None of the {len(self._tools):,} tools match {arguments!r:.100}. Try other "
                "words, or words for what the tool works with."
            )
        lines = [f"- {tool.name}: {_line(tool.description)}" for tool in found]
        return "\n".join(
            [f"{len(found)} of {len(self._tools):,} tools. You can call them from now on.", *lines]
        )

    async def probe(self, ctx: ToolContext[Any], arguments: str) -> ProbeAnswer:
        return None

    def search(self, query: str) -> list[ToolDefinition]:
        """Return the best matches, best first; of equal ones, the first tool. Blocks for up to a
        second if there are thousands of new tools.
        """
        for name, tool in [*self._tools.items()]:
            if name not in self._lengths:
                self._add(name, tool)
        count, scores = len(self._lengths), defaultdict[str, float](float)
        mean = sum(self._lengths.values()) / max(count, 1)
        for word in dict.fromkeys(_words(query)):
            hits = self._hits(word)
            rarity = math.log(1 + (count - len(hits) + 0.5) / (len(hits) + 0.5))
            for name, n in hits.items():
                length = 1 - _BY_LENGTH + _BY_LENGTH * self._lengths[name] / mean
                scores[name] += rarity * n * (_SATURATION + 1) / (n + _SATURATION * length)
        order = {name: place for place, name in enumerate(self._lengths)} if scores else {}
        ranked = nsmallest(FOUND_MOST, scores, key=lambda name: (-scores[name], order[name]))
        return [self._tools[name] for name in ranked]

    def _add(self, name: str, tool: ToolDefinition) -> None:
        properties = tool.parameters.get("properties")
        named = [*cast("dict[str, object]", properties)] if isinstance(properties, dict) else []
        counts = Counter(_words(" ".join([tool.description, *named])))
        for word in _words(name):
            counts[word] += _NAME_WEIGHT
        self._lengths[name] = counts.total()
        for word, n in counts.items():
            self._weights.setdefault(word, {})[name] = n

    def _hits(self, word: str) -> Mapping[str, float]:
        """Return the weights of a word by tool; if no tool has it, half of those of words that
        begin with it.
        """
        if word in self._weights or len(word) < _PREFIX_CHARS:
            return self._weights.get(word, {})
        hits = Counter[str]()
        for other, weights in self._weights.items():
            if other.startswith(word):
                hits.update(weights)
        return {name: n / 2 for name, n in hits.items()}


def _words(text: str) -> Iterator[str]:
    for word in _WORDS.findall(_HUMPS.sub(" ", text).lower()):
        is_plural = len(word) >= _PREFIX_CHARS and word.endswith("s") and not word.endswith("ss")
        yield word[:-1] if is_plural else word


def _line(text: str) -> str:
    return " ".join(text.split())[:_DESCRIBED_CHARS] or "no description"
