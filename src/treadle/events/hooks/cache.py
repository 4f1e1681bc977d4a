"""Cache of model responses, in memory or in a folder. Entry point: `Cache`.

Tool results are not cached: a call in a cached response is decided and run like any other.
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
    """Hook that answers a request with the stored response to an identical earlier one. Messages,
    tools and settings must be byte-identical, except for ids, times and `max_tokens`.

    Only complete responses are stored, and responses with tool calls only if all tools are in
    `tools`. List only tools that are safe to call again from a cached response.
    """

    observes = ("after_model",)
    """A response that could not be stored is still returned to the run."""

    def __init__(
        self, folder: str | Path | None = None, *, tools: Collection[str] = (), size: int = 1000
    ) -> None:
        """Create a cache. `folder`: directory that keeps responses beyond the life of this process,
        readable only by its user; None: memory. `size`: maximum number of responses; the oldest are
        removed first.
        """
        self._folder = None if folder is None else Path(folder).expanduser()
        self._tools, self._size = frozenset(tools), max(size, 1)
        self._memory: OrderedDict[str, ModelResponse] = OrderedDict()
        self.hits = self.misses = 0
        """Number of requests with and without a cached response."""

    @override
    async def before_model(self, run: HookedRun, request: ModelRequest) -> ModelResponse | None:
        """Return the cached response to this request, or None."""
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
        """Store the response if it can be reused."""
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
        """Return True if the response can be reused. One with provider data cannot, because the
        data belong to one run.
        """
        return (
            response.stop_reason in _KEPT
            and bool(response.parts)
            and response.provider_data is None
            and {c.name for c in response.tool_calls} <= self._tools
        )


def key_of(model: str, request: ModelRequest) -> str:
    """Return a hash of everything in the request that affects the response. `max_tokens` is left
    out, because truncated responses are not cached.
    """
    said = [(message.role, message.parts) for message in request.messages]
    settings = msgspec.structs.replace(request.settings, max_tokens=None)
    return hashlib.sha256(
        encode_json((request.model or model, request.system, request.tools, settings, said))
    ).hexdigest()


def _read(file: Path) -> ModelResponse | None:
    """Return the stored response; None if there is no valid one."""
    try:
        return decode_json(file.read_bytes(), ModelResponse)
    except (OSError, ValueError):
        return None


def _write(folder: Path, key: str, response: ModelResponse, size: int) -> None:
    """Store the response atomically. Raises OSError if the folder cannot be written."""
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
    """Remove the oldest responses beyond `size`."""
    with os.scandir(folder) as found:
        kept = [
            (entry.stat().st_mtime_ns, entry.path)
            for entry in found
            if entry.name.endswith(".json")
        ]
    for _, path in sorted(kept)[: max(len(kept) - size, 0)]:
        Path(path).unlink(missing_ok=True)
