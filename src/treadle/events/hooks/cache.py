"""Answers to requests that were answered before, out of memory or a folder, without asking a model.
Entry: `Cache`.

Results of tools are not kept here: a call that comes out of memory is judged and run like any
other.
"""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from collections.abc import Collection
from pathlib import Path

import msgspec
from anyio import to_thread
from typing_extensions import override

from treadle._internal.json_text import decode_json, encode_json
from treadle.events.hooks.hook import Hook, HookedRun
from treadle.models.model import ModelRequest, ModelResponse
from treadle.types import StopReason, new_id

_KEPT = (StopReason.COMPLETE, StopReason.TOOL_USE, StopReason.STOP_SEQUENCE)


class Cache(Hook):
    """Remembers answers: the same request to the same model has the same answer. Messages, tools
    and settings must be equal to the byte, except for ids and times.

    Only whole answers are kept, and those with tool calls only if all tools are in `tools`: the
    world may differ the second time, and a call of `pay` must be the model's own decision. Only you
    know such tools, so there are none by default.
    """

    def __init__(
        self, folder: str | Path | None = None, *, tools: Collection[str] = (), size: int = 1000
    ) -> None:
        """`folder`: kept there, beyond this process, for its user only; None: in memory.

        `size`: how many answers are kept; the oldest go first.
        """
        self._folder = None if folder is None else Path(folder).expanduser()
        self._tools, self._size = frozenset(tools), max(size, 1)
        self._memory: OrderedDict[str, ModelResponse] = OrderedDict()
        self.hits = self.misses = 0
        """Number of responses taken from the cache."""

    @override
    async def before_model(self, run: HookedRun, request: ModelRequest) -> ModelResponse | None:
        """Answer from the cache if it has this request."""
        key = key_of(run.model, request)
        found = self._memory.get(key)
        if found is None and self._folder is not None:
            found = await to_thread.run_sync(_read, self._folder / f"{key}.json")
        self.hits, self.misses = self.hits + (found is not None), self.misses + (found is None)
        return found

    @override
    async def after_model(
        self, run: HookedRun, request: ModelRequest, response: ModelResponse
    ) -> None:
        """Keep the response."""
        if not self._keeps(response):
            return
        key = key_of(run.model, request)
        if self._folder is not None:
            await to_thread.run_sync(_write, self._folder, key, response, self._size)
            return
        self._memory[key] = response
        if len(self._memory) > self._size:
            self._memory.popitem(last=False)

    def _keeps(self, response: ModelResponse) -> bool:
        """Return False for a response with provider data for the next request: it belongs to its
        run alone.
        """
        return (
            response.stop_reason in _KEPT
            and bool(response.parts)
            and response.provider_data is None
            and {c.name for c in response.tool_calls} <= self._tools
        )


def key_of(model: str, request: ModelRequest) -> str:
    """The same for what a model would read as the same; how long the answer may be is left out,
    since one that was cut is not kept.
    """
    said = [(message.role, message.parts) for message in request.messages]
    settings = msgspec.structs.replace(request.settings, max_tokens=None)
    return hashlib.sha256(
        encode_json((request.model or model, request.system, request.tools, settings, said))
    ).hexdigest()


def _read(file: Path) -> ModelResponse | None:
    """None where there is none, or what is there is no answer."""
    try:
        return decode_json(file.read_bytes(), ModelResponse)
    except (OSError, ValueError):
        return None


def _write(folder: Path, key: str, response: ModelResponse, size: int) -> None:
    """Whole or not at all. Raises OSError where the folder cannot be written."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = folder / f".{new_id('answer')}"
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(encode_json(response))
        new.replace(folder / f"{key}.json")
    finally:
        new.unlink(missing_ok=True)
    _forget(folder, size)


def _forget(folder: Path, size: int) -> None:
    """The oldest, where there are too many."""
    with os.scandir(folder) as found:
        kept = [
            (entry.stat().st_mtime_ns, entry.path)
            for entry in found
            if entry.name.endswith(".json")
        ]
    for _, path in sorted(kept)[: max(len(kept) - size, 0)]:
        Path(path).unlink(missing_ok=True)
