"""`make chaos`: every crash, every cut and every lock, and workers killed at random for as long as
one likes. Exits with 1 where anything is violated.

`make chaos CHAOS="--only kills --runs 32 --turns 200 --workers 4 --seconds 600"`. `postgres` is the
same for workers that share a PostgreSQL server, which is killed too. The suite has a few seconds of
each. Entry: `main`.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import msgspec

from tests.crash.accounts import Bounds
from tests.crash.command_line import COMMANDS, sweep_commands
from tests.crash.crew import chaos_of_workers, said
from tests.crash.crew_worker import AWAKE, DELIVERED, ENGINES, ODD, OF_FILES, Harm, Plan
from tests.crash.faults import Locked, cuts
from tests.crash.inside import Fault
from tests.crash.interleavings.search import main as interleavings
from tests.crash.nursery import Ended, Nursery
from tests.crash.postgres import ChaosServer
from tests.crash.random_kills import Plan as Kills
from tests.crash.random_kills import random_kills
from tests.crash.stories import STORIES
from tests.crash.sweep import MOST, Stage, Swept, sweep, sweep_twice
from tests.crash.zombies import Sleeper
from tests.peers.temporal import program

TWICE = ("one", "mixed", "approval", "person")
AT_ONCE = 2
"""Sweeps side by side."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="make chaos", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument("--only", action="append", choices=PARTS, help="repeatable")
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument(
        "--seconds", type=float, default=300, help="of killing; of stopping as much again"
    )
    parser.add_argument(
        "--engine", action="append", choices=ENGINES, help="of `postgres`; repeatable"
    )
    parser.add_argument(
        "--rounds", type=int, default=1, help="of `odd`; each with tools of its own"
    )
    parser.add_argument(
        "--inside",
        action="append",
        choices=get_args(Fault),
        help="of `odd`: faults inside of the processes of every crew; repeatable",
    )
    parser.add_argument("--fault-s", type=float, default=0.04, help="between two of those")
    parser.add_argument("--depth", type=int, default=12, help="of `interleavings`")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args(arguments)
    violations = 0
    with tempfile.TemporaryDirectory(prefix="treadle-chaos-") as folder:
        for name in options.only or PARTS:
            print(f"\n## {name}\n", flush=True)
            violations += PARTS[name](Path(folder) / name, options)
    print(f"\n{violations} violations")
    return int(violations > 0)


# ---------------------------------------------------------------- sweeps


def _swept(folder: Path, stories: Iterable[str], one: Callable[[str, Path], Swept]) -> int:
    head = (
        "",
        "crashes",
        "unknown",
        "of which had happened",
        "idempotent ones again",
        "violations",
    )
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    total = Swept()
    names = list(stories)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for story, swept in zip(
            names, pool.map(one, names, [folder / name for name in names]), strict=True
        ):
            _row(story, swept)
            total.points += swept.points
            total.unknown += swept.unknown
            total.had_happened += swept.had_happened
            total.again += swept.again
            total.violations += swept.violations
    _row("all", total)
    for place, violation in total.violations[:50]:
        print(f"    {place}: {violation.rule}: {violation.text}")
    return len(total.violations)


def _row(name: str, swept: Swept) -> None:
    print(
        f"| {name} | {swept.points} | {swept.unknown} | {swept.had_happened} | {swept.again} | {len(swept.violations)} |",
        flush=True,
    )


def _boundaries(
    folder: Path, options: argparse.Namespace, server: ChaosServer | None = None
) -> int:
    def one(story: str, folder: Path) -> Swept:
        with Nursery() as nursery:
            return sweep(nursery, folder, story, server=server, kills=True)

    return _swept(folder, STORIES, one)


def _twice(folder: Path, options: argparse.Namespace, server: ChaosServer | None = None) -> int:
    def one(story: str, folder: Path) -> Swept:
        with Nursery() as nursery:
            return sweep_twice(nursery, folder, story, server=server, kills=True)

    return _swept(folder, TWICE, one)


def _postgres_boundaries(folder: Path, options: argparse.Namespace) -> int:
    with ChaosServer() as server:
        return _boundaries(folder, options, server)


def _postgres_twice(folder: Path, options: argparse.Namespace) -> int:
    with ChaosServer() as server:
        return _twice(folder, options, server)


def _commands(folder: Path, options: argparse.Namespace) -> int:
    """In processes of their own; those that wait for a person are killed in what follows too."""

    def one(story: str, folder: Path) -> Swept:
        return sweep_commands(
            None,
            folder,
            story,
            **({"at": [0], "again": range(1, MOST)} if story == "approval" else {}),
        )

    return _swept(folder, COMMANDS, one)


# ---------------------------------------------------------------- random


def _kills(folder: Path, options: argparse.Namespace, *, stops: bool = False) -> int:
    folder.mkdir()
    plan = Kills(
        runs=options.runs,
        turns=options.turns,
        workers=options.workers,
        seconds=options.seconds,
        seed=options.seed,
        stops=stops,
        pause_s=0.01,
    )
    print(f"{plan}\n", flush=True)
    outcome = random_kills(folder, plan)
    print(outcome.table())
    for rule, text in outcome.verdict.violations[:50]:
        print(f"    {rule}: {text}")
    return len(outcome.verdict.violations) + (outcome.verdict.finished != plan.runs)


def _stops(folder: Path, options: argparse.Namespace) -> int:
    return _kills(folder, options, stops=True)


# ---------------------------------------------------------------- workers


def _crew(folder: Path, options: argparse.Namespace, **different: Any) -> int:
    plan = Plan(
        runs=options.runs,
        turns=options.turns,
        workers=options.workers,
        seconds=options.seconds,
        seed=options.seed,
        peace_s=900,
    )
    plan = msgspec.structs.replace(plan, **different)
    print(f"{plan}\n", flush=True)
    outcome = chaos_of_workers(folder, plan)
    print(outcome.table(), flush=True)
    for rule, text in outcome.verdict.violations[:50]:
        print(f"    {rule}: {text}")
    if outcome.verdict.violations:
        print(said(folder))
    return len(outcome.verdict.violations) + (outcome.verdict.finished != plan.runs)


def _postgres(folder: Path, options: argparse.Namespace) -> int:
    """With each engine: all harm there is; then with nobody who sleeps or is robbed, where probes
    are an answer.
    """
    violations = 0
    for engine in options.engine or ENGINES:
        print(f"\n### {engine}\n", flush=True)
        violations += _crew(folder / engine, options, engine=engine)
        violations += _crew(
            folder / f"{engine}-probes", options, engine=engine, harms=AWAKE, probes=True
        )
    return violations


def _shards(folder: Path, options: argparse.Namespace) -> int:
    """One server of four after the other is killed, and is away for up to six seconds."""
    print("\n### all harm\n", flush=True)
    violations = _crew(folder / "all", options, shards=4)
    print("\n### nobody sleeps, probes are an answer\n", flush=True)
    harms: tuple[Harm, ...] = (*AWAKE, "restart", "restart")
    return violations + _crew(folder / "probes", options, shards=4, harms=harms, probes=True)


def _temporal(folder: Path, options: argparse.Namespace) -> int:
    """Runs as activities of workflows; Temporal's server is killed too."""
    if program() is None:
        print("- left out: `make peers` installs Temporal's server")
        return 0
    return _crew(folder, options, engine="temporal", harms=DELIVERED)


def _sqlite_workers(folder: Path, options: argparse.Namespace) -> int:
    return _crew(folder, options, store="sqlite", harms=OF_FILES, probes=True)


def _odd(folder: Path, options: argparse.Namespace) -> int:
    """Round after round, each with other tools: a seed of its own."""
    violations, total = 0, Counter[str]()
    for number in range(options.rounds):
        for name, plan in ODD.items():
            given = {
                "runs": options.runs,
                "turns": options.turns,
                "workers": options.workers,
                "seconds": options.seconds,
            }
            plan = msgspec.structs.replace(
                plan,
                **given,
                seed=options.seed + number,
                peace_s=900,
                fault_s=options.fault_s,
                sessions=plan.sessions and max(plan.sessions, options.runs // 8),
                inside=tuple(dict.fromkeys((*plan.inside, *(options.inside or ())))),
            )
            if plan.engine not in (options.engine or ENGINES):
                continue
            print(f"\n### {name}, seed {plan.seed}\n", flush=True)
            outcome = chaos_of_workers(folder / f"{name}-{number}".replace(" ", "-"), plan)
            print(outcome.table(), flush=True)
            for rule, text in outcome.verdict.violations[:50]:
                print(f"    {rule}: {text}", flush=True)
            violations += len(outcome.verdict.violations) + (outcome.verdict.finished != plan.runs)
            v = outcome.verdict
            total += Counter(
                {
                    "runs": v.runs,
                    "calls": v.calls,
                    "faults": sum(outcome.harms.values())
                    + sum(count for count, _ in v.faults.values()),
                    "taken over": v.drivers,
                    "unknown": v.unknown,
                }
            )
            print(f"so far: {dict(total)}, {violations} violations", flush=True)
    return violations


# ---------------------------------------------------------------- faults


def _locks(folder: Path, options: argparse.Namespace) -> int:
    """5 s are waited for; after 60 s the run has stopped before its call, and goes on once the file
    is free.
    """
    with Nursery() as nursery:
        waited = _locked_for(5, Stage(nursery, folder / "5", "one"), "completed\n")
        return waited + _locked_for(
            60, Stage(nursery, folder / "60", "one"), "error another process keeps the journal"
        )


def _locked_for(seconds: int, stage: Stage, expected: str) -> int:
    said: list[str] = []
    with Sleeper(stage.nursery, msgspec.structs.replace(stage.task, stop_at="model")) as sleeper:
        waiting = threading.Thread(target=lambda: said.append(sleeper.wake()))
        with Locked(stage.journal):
            waiting.start()
            waiting.join(seconds)
            early, calls = list(said), stage.witness.read_text().count("did ")
        waiting.join()
    swept = Swept()
    stage.bounds = Bounds(cut_off=True)
    stage.judge(swept, Ended(0, said[0]), crashes=1)
    print(
        f"- locked for {seconds} s, {calls} calls meanwhile: {said[0].strip()}. Afterwards: {swept.violations or 'run to its end'}",
        flush=True,
    )
    return (
        len(swept.violations)
        + calls
        + (not said[0].startswith(expected))
        + (bool(early) is (expected == "completed\n"))
    )


def _cuts(folder: Path, options: argparse.Namespace) -> int:
    """The log cut at every byte of its last transaction: that of a start, and that of a result."""
    wrong = 0
    with Nursery() as nursery:
        for crash_at in (6, 10):
            stage = Stage(nursery, folder / f"{crash_at}", "one")
            stage.start(crash_at=crash_at)
            files = {
                name: (stage.folder / name).read_bytes()
                for name in ("journal.db", "journal.db-wal", "witness")
            }
            cut, places, swept = Stage(nursery, folder / f"{crash_at}-cut", "one"), 0, Swept()
            cut.bounds = Bounds(cut_off=True, torn=True)
            for place, number in zip(cuts(files["journal.db-wal"], 1), itertools.count()):
                for name in ("journal.db-shm", "journal.db-wal"):
                    (cut.folder / name).unlink(missing_ok=True)
                for name, data in files.items():
                    (cut.folder / name).write_bytes(data[:place] if name.endswith("-wal") else data)
                places += 1
                wrong += len(cut.judge_open().violations)
                if number % 500 == 0:
                    cut.judge(swept, Ended(0, ""), crashes=1)
            wrong += len(swept.violations)
            print(
                f"- after boundary {crash_at}: cut at {places:,} places, {len(swept.unknown_at_once)} of them run to their end: {wrong} violations",
                flush=True,
            )
    return wrong


def _interleavings(folder: Path, options: argparse.Namespace) -> int:
    """Every order of two drivers' operations up to a depth."""
    return interleavings(options.depth)


PARTS: Mapping[str, Callable[[Path, argparse.Namespace], int]] = {
    "boundaries": _boundaries,
    "twice": _twice,
    "commands": _commands,
    "kills": _kills,
    "stops": _stops,
    "workers": _sqlite_workers,
    "odd": _odd,
    "postgres": _postgres,
    "shards": _shards,
    "postgres-boundaries": _postgres_boundaries,
    "postgres-twice": _postgres_twice,
    "temporal": _temporal,
    "interleavings": _interleavings,
    "cuts": _cuts,
    "locks": _locks,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
