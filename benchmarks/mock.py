"""The mock model of shared/bench, extended with Google's API: the same scenarios in its format.

shared/bench/mock_llm.py defines the scenarios. Entry point, for processes.py: `mock.py`, which
prints its port.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FLOORS = Path(__file__).resolve().parent.parent.parent / "shared" / "bench"
ASKED = b":streamgeneratecontent"
"""In the address, which the server reads in lower case."""
COUNTS = {
    "promptTokenCount": 512,
    "candidatesTokenCount": 64,
    "totalTokenCount": 576,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 512}],
}
SIGNATURE = (
    "RXBJRENvOERBUXc1MXNjTCtkSGZmQ0MrYnpuT0l5WGpEUGxlTjV5UUwxenFzKzRNL1Z0WkNIY0pyTjhnaDc4Nlpq" * 5
)
"""As long as those of Gemini 3 are."""


def main() -> None:
    sys.path.insert(0, str(FLOORS))
    mock: Any = importlib.import_module("mock_llm")
    mock.API["g"] = (None, lambda *asked: _events(mock, *asked))
    others = mock.handle

    def handle(path: bytes, headers: bytes, body: bytes) -> tuple[list[bytes], int, bool]:
        if ASKED not in path:
            return others(path, headers, body)
        mock.STATS["requests"] += 1
        scenario = mock.SCEN.search(path)
        kind, turn = scenario[1].decode(), body.count(b'"functionResponse"')
        key = (path, turn)
        if key not in mock.CACHE:
            model = path.rpartition(b"/")[2].partition(b":")[0].decode()
            mock.CACHE[key] = mock.build(
                "g",
                model,
                kind,
                int(scenario[2]),
                min(turn, 1) if kind == "par" else turn,
                False,
                True,
                32,
            )
        return mock.CACHE[key], 0, False

    mock.handle = handle
    loop_factory = None
    with contextlib.suppress(ImportError):
        loop_factory = importlib.import_module("uvloop").new_event_loop
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    given = argparse.Namespace(port=0, port_file=None, max_seconds=4 * 3600)
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(mock.main(given))


def _events(mock: Any, model: str, kind: str, n: int, turn: int, final: bool) -> Iterator[bytes]:
    def event(*parts: object, **around: object) -> bytes:
        candidate = {"content": {"parts": parts, "role": "model"}, **around, "index": 0}
        said = mock.J(
            {
                "candidates": [candidate],
                "usageMetadata": COUNTS,
                "modelVersion": model,
                "responseId": "hVP6afiZEuitz7IPypuAsQY",
            }
        )
        return b"data: %b\r\n\r\n" % said

    calls = mock.calls_for(kind, n, turn, final)
    texts = (
        [f" tok{i % 1000}" for i in range(n)]
        if kind == "stream" and not turn
        else (mock.TEXT if calls else mock.ANSWER).split(" ", 3)
    )
    for text in texts:
        yield event({"text": text if kind == "stream" and not turn else f"{text} "})
    for k, (suffix, name, args) in enumerate(calls or ()):
        call = {"functionCall": {"id": f"call{suffix}", "name": name, "args": args}}
        yield event({**call, "thoughtSignature": SIGNATURE} if not k else call)
    yield event({"text": ""}, finishReason="STOP")


if __name__ == "__main__":
    main()
