"""Real workers on one journal, harmed at random while they drive queued runs; the checker judges
what is left. Entry: `chaos_of_workers`.

They are killed, stopped for longer than their lease, drained and replaced; over PostgreSQL their
server is killed too, and what connects them to it is cut, torn and stalled. Everything is done by a
process of its own, `python -m tests.crash.crew FOLDER`, of which the workers are children.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import msgspec

from tests.crash import temporal_crew
from tests.crash.accounts import Bounds
from tests.crash.checker import Verdict, check
from tests.crash.crew_worker import (
    LATER_S,
    ORDERLY,
    UNREACHED,
    WEIGHTS,
    Harm,
    Plan,
    Share,
    submit,
    wake,
    work,
)
from tests.crash.examine import examine
from tests.crash.inside import HARMLESS
from tests.crash.nursery import ROOT
from tests.crash.openers import Meddling, asked, meddle
from tests.crash.people import live
from tests.crash.postgres import CLUSTER, ChaosServer, initialized, unsynced
from tests.crash.properties import described
from tests.crash.proxy import Proxy
from tests.crash.records import Violation
from tests.crash.shard_servers import ShardServers
from tests.crash.stories import World
from tests.crash.witness import BEAT_S
from tests.fork_server import command
from tests.huge_pages import collapse
from tests.peers.temporal import TemporalServer

LEAST_HARMS = 4
OF_ENGINES = {
    "local": (),
    "dbos": ("treadle.workers.engines.dbos",),
    "temporal": (
        "temporalio.worker",
        "temporalio.service",
        "tests.peers.temporal_flows",
        "treadle.workers.engines.temporal",
    ),
}
"""What workers import."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    verdict: Verdict
    harms: dict[str, int]
    seconds: float
    woken: int
    """Runs that were parked, because one worker after the other died over them, and that somebody
    woke.
    """

    def table(self) -> str:
        v = self.verdict
        cells = {
            "runs": v.runs,
            "calls": v.calls,
            **{
                f"{name}s" if name != "cut" else "cuts": count for name, count in self.harms.items()
            },
            **{
                f"{kind} inside (struck)": f"{count:,} ({struck:,})"
                for kind, (count, struck) in v.faults.items()
            },
            "parked and woken": self.woken,
            "taken over": v.drivers,
            "unknown": v.unknown,
            "of which had happened": v.had_happened,
            "idempotent ones again": v.again,
            "seconds": round(self.seconds),
            "violations": len(v.violations),
        }
        return f"| {' | '.join(cells)} |\n|{'---|' * len(cells)}\n| {' | '.join(value if isinstance(value, str) else f'{value:,}' for value in cells.values())} |"


def chaos_of_workers(folder: Path, plan: Plan) -> Outcome:
    """Harm until every run has ended or the seconds are over; then the rest is run to its end in
    peace. `folder`: what they say is left in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_bytes(msgspec.json.encode(plan))
    environment = dict(os.environ)
    if plan.store == "postgres":
        environment[CLUSTER] = str(initialized())
    process = subprocess.Popen(command("tests.crash.crew", str(folder)), cwd=ROOT, env=environment)
    try:
        code = process.wait()
    finally:
        if process.poll() is None:
            process.terminate()  # it ends its workers and its server
            process.wait(60)
    if code:
        raise AssertionError(f"the crew ended with {code}: {said(folder)}")
    return msgspec.json.decode((folder / "outcome.json").read_bytes(), type=Outcome)


def said(folder: Path) -> str:
    """The last of what workers said."""
    log = folder / "log"
    return log.read_text(encoding="utf-8", errors="replace")[-6000:] if log.exists() else ""


# ---------------------------------------------------------------- the process that harms


class Crew:
    def __init__(
        self,
        folder: Path,
        plan: Plan,
        server: ChaosServer | ShardServers | None,
        proxies: Sequence[Proxy] = (),
        temporal: TemporalServer | None = None,
    ) -> None:
        """`proxies`: one for each worker, where they have lines of their own."""
        self._temporal = temporal
        self._folder, self._plan, self._server, self._proxies = folder, plan, server, proxies
        self.url = f"sqlite:///{folder / 'journal.db'}" if server is None else server.journal()
        """As workers reach it."""
        self.witness = folder / "witness"
        at = "" if temporal is None else temporal.address
        self._share = Share(
            url=self.url, witness=self.witness, parent=os.getpid(), plan=plan, temporal=at
        )
        self._world = World(self.witness)
        self.harms: Counter[str] = Counter()
        self.wrong: list[Violation] = []
        self._chance = random.Random(plan.seed)
        self._born = 0
        self._workers: set[int] = set()
        """Process ids of those that take runs, stopped ones too."""
        self._muted: dict[Proxy, float] = {}
        """Proxies through which nothing goes: until when."""
        self._asleep: dict[int, float] = {}
        """Of the stopped ones: when each is woken."""
        self._leaving: dict[int, float] = {}
        """Of those that were told to drain: when they were."""
        self._others: set[int] = set()
        """Processes that answer, read or copy."""
        self._submitter = self._waker = self._meddled = 0
        self._woken = 0
        # SQLite truncates the shared index that a process without its locks has mapped: SIGBUS.
        self._by_itself = [-signal.SIGKILL, -signal.SIGBUS] if "opener" in plan.inside else []
        self._harms: list[Harm] = [harm for harm in plan.harms for _ in range(WEIGHTS[harm])]

    def work(self) -> None:
        begun = time.monotonic()
        try:
            if not self._plan.sessions:
                submits = submit if self._temporal is None else temporal_crew.submit
                self._submitter = self._child(lambda: anyio.run(submits, self._share))
            for _ in range(self._plan.workers):
                self._bear()
            while not self._is_over() and (
                time.monotonic() - begun < self._plan.seconds
                or self.harms.total() < LEAST_HARMS  # on a busy machine
            ):
                time.sleep(self._chance.uniform(0.02, 0.3))
                self._look_after()
                self._harm(self._chance.choice(self._harms))
            harmed_s = time.monotonic() - begun
            self._come_to_an_end()
        finally:
            for pid in (
                *self._workers,
                *self._leaving,
                *self._others,
                *filter(None, [self._submitter, self._waker]),
            ):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        past = self.url if self._server is None else self._server.past_the_proxy(self.url)
        self._examine(past)
        bounds = Bounds(
            cut_off=not ORDERLY.issuperset(self._plan.harms)
            or not HARMLESS.issuperset(self._plan.inside),
            slack_s=self._plan.slack_s,
            clocks="clock" in self._plan.inside,
        )
        verdict = check(
            self._folder / "journal.db" if self._server is None else past,
            self.witness,
            bounds=bounds,
        )
        verdict.violations += self.wrong
        outcome = Outcome(
            verdict=verdict,
            harms=dict(sorted(self.harms.items())),
            seconds=harmed_s,
            woken=self._woken,
        )
        (self._folder / "outcome.json").write_bytes(msgspec.json.encode(outcome))

    def _examine(self, url: str) -> None:
        """In a process that knows nothing of what has happened."""
        status = os.waitpid(self._child(lambda: anyio.run(examine, url, self.witness) or 0), 0)[1]
        if status:
            raise AssertionError(f"the journal cannot be examined: {said(self._folder)}")

    # ---- one harm

    def _harm(self, harm: Harm) -> None:
        awake = sorted(self._workers - self._asleep.keys())
        match harm:
            case "kill":
                self._kill(self._chance.choice(sorted(self._workers)))
            case "stop" if len(awake) > 1:
                self._stop(self._chance.choice(awake))
            case "drain" if awake:
                self._drain(self._chance.choice(awake))
                self._bear()
            case "restart" if self._server is not None:
                self._server.restart()
            case "engine" if self._temporal is not None:
                self._temporal.kill()
                self._temporal.start()
            case "jump" if self._server is not None:
                self._server.expire(self.url)
            case "answer" if self._plan.odd:
                for _ in range(2):
                    self._others.add(self._child(lambda: anyio.run(wake, self._share)))
            case "list" | "export" | "import" | "backup":
                self._meddle(harm)
            case "cut" | "tear" | "stall" | "swallow" | "lose" if proxies := self._lines():
                self._disturb(harm, self._chance.choice(proxies))
            case _:
                return
        self.harms[harm] += 1

    def _meddle(self, what: Meddling) -> None:
        self._meddled += 1
        run = f"{self._plan.names}{self._chance.randrange(self._plan.runs)}"
        copies = self.witness.with_name("copies")
        self._others.add(self._child(partial(meddle, what, self.url, run, copies, self._meddled)))

    def _lines(self) -> list[Proxy]:
        """Those that say nothing of their own are left alone."""
        shared = [] if self._server is None else self._server.lines
        return [proxy for proxy in self._proxies or shared if proxy not in self._muted]

    def _disturb(self, harm: Harm, proxy: Proxy) -> None:
        match harm:
            case "cut":
                proxy.cut()
            case "tear":
                proxy.tear(self._chance.choice(("there", "back")), self._chance.randrange(1, 30))
            case "stall":
                proxy.stall(self._chance.uniform(0.1, self._plan.lease_s * 1.5))
            case _:
                proxy.swallow() if harm == "swallow" else proxy.lose(self._chance.randrange(1, 30))
                self._muted[proxy] = time.monotonic() + self._plan.lease_s * self._chance.uniform(
                    0.5, 3.0
                )

    def _kill(self, pid: int) -> None:
        self._end(pid, signal.SIGKILL)
        self._workers.discard(pid)
        self._asleep.pop(pid, None)
        self._note(pid, os.waitpid(pid, 0)[1], expected=(0, UNREACHED, -signal.SIGKILL))
        self._bear()

    def _stop(self, pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        self._asleep[pid] = time.monotonic() + self._plan.lease_s * self._chance.uniform(0.5, 2.0)

    def _end(self, pid: int, by: signal.Signals) -> None:
        self._world.saw("ending", str(pid), f"{time.time():.3f}")
        os.kill(pid, by)

    def _drain(self, pid: int) -> None:
        self._end(pid, signal.SIGTERM)
        self._workers.discard(pid)
        self._leaving[pid] = time.monotonic()

    # ---- what goes on meanwhile

    def _look_after(self) -> None:
        """Wakes up, and replaces those that ended; puts back what was parked, as a person would."""
        if not self._waker and not self._plan.sessions and any(held := self._held()):
            self._woken += held[0]
            self._waker = self._child(lambda: anyio.run(wake, self._share))
        now = time.monotonic()
        for pid in [pid for pid, at in self._asleep.items() if at <= now]:
            os.kill(pid, signal.SIGCONT)
            del self._asleep[pid]
        for proxy in [proxy for proxy, at in self._muted.items() if at <= now]:
            proxy.spit()
            proxy.cut()  # else connections from before would stay mute
            del self._muted[proxy]
        for pid in [
            *self._workers,
            *self._leaving,
            *self._others,
            *filter(None, [self._submitter, self._waker]),
        ]:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._went(pid, status)

    def _went(self, pid: int, status: int) -> None:
        self._asleep.pop(pid, None)  # it had ended by then
        if pid in (self._submitter, self._waker):
            self._submitter, self._waker = (
                one if one != pid else 0 for one in (self._submitter, self._waker)
            )
            self._note(pid, status, expected=(0,))
        elif pid in self._others:
            self._others.discard(pid)
            # 1: the journal is not there; 2: the run is not there yet
            self._note(pid, status, expected=(0, 1, 2))
        elif pid in self._leaving:
            del self._leaving[pid]
            # it may not have got as far as listening
            self._note(pid, status, expected=(0, UNREACHED, -signal.SIGTERM, *self._by_itself))
        else:
            self._workers.discard(pid)
            self._note(pid, status, expected=(UNREACHED, *self._by_itself))
            self.harms["not reached"] += os.waitstatus_to_exitcode(status) == UNREACHED
            self._bear()

    def _note(self, pid: int, status: int, *, expected: Sequence[int]) -> None:
        code = os.waitstatus_to_exitcode(status)
        if code not in expected:
            self.wrong.append(Violation("end", f"process {pid} ended with {code}"))

    def _bear(self) -> None:
        self._born += 1
        share = self._share
        if self._proxies and isinstance(self._server, ChaosServer):
            share = msgspec.structs.replace(
                share,
                url=self._server.through(self.url, self._proxies[self._born % len(self._proxies)]),
            )
        drives = live if self._plan.sessions else work
        drives = drives if self._temporal is None else temporal_crew.work
        self._workers.add(self._child(lambda: anyio.run(drives, share, self._born)))

    def _child(self, does: Callable[[], int]) -> int:
        # it is not to do in the child what we do
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
            return pid
        code = 1
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
            log = os.open(self._folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(log, 1)
            os.dup2(log, 2)
            logging.basicConfig(
                level=logging.WARNING,
                format="%(asctime)s %(process)d %(name)s %(message)s",
                force=True,
            )
            threading.Thread(target=self._beat, daemon=True).start()
            code = does()
        except BaseException:  # the edge of a process
            traceback.print_exc()
        os._exit(code)

    def _beat(self) -> None:
        """On a busy machine a process may not run for seconds, which is no fault of its own."""
        world = World(self.witness)
        while True:
            world.saw("alive", str(os.getpid()), f"{time.time():.3f}")
            time.sleep(BEAT_S)

    # ---- the end

    def _come_to_an_end(self) -> None:
        self._world.make_peace()
        self._asleep = dict.fromkeys(self._asleep, 0.0)
        self._muted = dict.fromkeys(self._muted, 0.0)
        deadline = time.monotonic() + self._plan.peace_s
        while not self._is_over():
            self._look_after()
            if time.monotonic() > deadline:
                self.wrong.append(
                    Violation(
                        "end",
                        f"after {self._plan.peace_s:.0f} s of peace not every run has ended: {self._left()}",
                    )
                )
                return
            time.sleep(0.1)
        for pid in list(self._workers):
            self._drain(pid)
        while self._leaving or self._others:
            self._look_after()
            if time.monotonic() > deadline + 30:
                self.wrong.append(
                    Violation(
                        "end", f"{len(self._leaving)} workers that were told to drain did not end"
                    )
                )
                return
            time.sleep(0.05)

    def _held(self) -> tuple[int, int]:
        """How many are parked, and how many wait for a person, or for an hour that a clock which
        was wrong has given them.
        """
        later = f"ready_at_us > {(time.time() + LATER_S) * 1e6:.0f}"
        found = self._ask(
            f"select count(parked), count(*) - count(parked) from runs where finished is null and (parked is not null or waiting = 1 or {later})"
        )
        return (found[0][0], found[0][1] if self._plan.odd else 0) if found else (0, 0)

    def _is_over(self) -> bool:
        return self._ask("select count(*) from runs where finished is not null") == [
            (self._plan.runs,)
        ]

    def _left(self) -> object:
        return self._ask(
            "select id, owner, head, sent_to, deliveries, fruitless, parked from runs where finished is null order by num limit 5"
        )

    def _ask(self, statement: str) -> list[tuple[Any, ...]]:
        if self._server is not None:
            import psycopg

            with suppress(psycopg.OperationalError):  # it is just starting
                return self._server.sql_of(self.url, statement.replace(" runs ", " treadle.runs "))
            return []
        return asked(self._folder / "journal.db", statement)


def _main(folder: Path) -> None:
    plan = msgspec.json.decode((folder / "plan.json").read_bytes(), type=Plan)
    signal.signal(signal.SIGTERM, _told_to_end)
    with ExitStack() as stack:
        server: ChaosServer | ShardServers | None = None
        proxies: list[Proxy] = []
        if plan.shards:
            server = stack.enter_context(
                ShardServers(folder, plan.shards, synced=plan.synced, seed=plan.seed)
            )
        elif plan.store == "postgres":
            server = stack.enter_context(ChaosServer(proxied=True) if plan.synced else unsynced())
            proxies = [
                stack.enter_context(server.line()) for _ in range(plan.workers if plan.apart else 0)
            ]
        print(
            *described(plan.seed, longest_s=plan.longest_s) if plan.odd else (),
            sep="\n",
            flush=True,
        )
        temporal = None
        if plan.engine == "temporal":
            temporal = stack.enter_context(TemporalServer(folder))
        of_shards = ["treadle.journal.shards"] if plan.shards else []
        loaded = "anyio._backends._asyncio", "encodings.ascii", *OF_ENGINES[plan.engine], *of_shards
        for module in loaded:
            with suppress(ImportError):  # a worker that needs it says so
                import_module(module)
        gc.collect()
        gc.freeze()  # a child's collector would copy every page that it writes its marks on
        collapse()
        Crew(folder, plan, server, proxies, temporal).work()


def _told_to_end(number: int, frame: object) -> None:
    sys.exit(5)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
