"""A real llama.cpp server with the tiny model: `python -m tests.peers.llama_server FILE`.

It says its address when it is ready, and ends when its stdin does. What the model says is
tiny_model.py's. Entry: `serve`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.peers.tiny_model import CONTEXT, write_model

LONGEST = 64
"""Tokens of an answer where the request names no limit."""


def serve(path: Path) -> None:
    import xllamacpp

    write_model(path)
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {"tiny"}
    params.n_ctx = CONTEXT
    params.n_predict = LONGEST
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.sampling.temp = 0.0
    params.warmup = False
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
