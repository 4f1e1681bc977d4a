"""Profile one measurement with cProfile, and print the 25 most expensive functions.

    python benchmarks/hotspots.py turn-50|turn-1000|delta|loop|concurrent|session [--by tottime|cumulative] [--top N]

cProfile makes calls more expensive than they are, so read shares as hints and take figures from
run.py. (A file named profile.py would hide the standard library's from cProfile, hence this name.)
Entry point: `main`.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import importlib
import pstats
import sys
from collections.abc import Awaitable, Callable

from processes import Bench
from treadle_runner import HARNESS, Treadle, loop_reps

CONCURRENT = 200


async def _turns(peer: Treadle, turns: int) -> None:
    await peer.run(peer.build(f"{peer.model_prefix}tools-{turns}", turns + 10))


async def _deltas(peer: Treadle) -> None:
    await peer.stream(peer.build(f"{peer.model_prefix}stream-20000"))


async def _concurrent(peer: Treadle) -> None:
    import anyio

    agent = peer.build(f"{peer.model_prefix}tools-10-d100")
    async with anyio.create_task_group() as group:
        for _ in range(CONCURRENT):
            group.start_soon(peer.run, agent)


async def _sessions(peer: Treadle) -> None:
    model = f"{peer.model_prefix}tools-9"
    agent = peer.build(model)
    for _ in range(20):
        await peer.session(model, agent)


WIRED: dict[str, Callable[[Treadle], Awaitable[None]]] = {
    "turn-50": lambda peer: _turns(peer, 50),
    "turn-1000": lambda peer: _turns(peer, 1000),
    "delta": _deltas,
    "concurrent": _concurrent,
    "session": _sessions,
}


async def _profiled_wired(name: str, port: int, profile: cProfile.Profile) -> None:
    peer = Treadle(f"http://127.0.0.1:{port}")
    await _turns(peer, 3)
    with profile:
        await WIRED[name](peer)
    await peer.close()


async def _profiled_loop(profile: cProfile.Profile) -> None:
    await loop_reps(3, 1)
    with profile:
        await loop_reps(50, 4)


def main() -> None:
    options = argparse.ArgumentParser(description="Profiles one measurement.")
    options.add_argument("name", choices=[*WIRED, "loop"])
    options.add_argument("--by", choices=["tottime", "cumulative"], default="tottime")
    options.add_argument("--top", type=int, default=25)
    given = options.parse_args()
    profile = cProfile.Profile()
    if given.name == "loop":
        asyncio.run(_profiled_loop(profile))
    else:
        sys.path.insert(0, str(HARNESS))
        importlib.import_module("common")
        with Bench(pin=True) as bench:
            asyncio.run(_profiled_wired(given.name, bench.serve(), profile))
    pstats.Stats(profile).sort_stats(given.by).print_stats(given.top)


if __name__ == "__main__":
    main()
