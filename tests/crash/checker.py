"""Judges a journal by what the world saw: `python -m tests.crash.checker JOURNAL WITNESS` prints
what is wrong, and exits with 1 if anything is.

It reads the database by plain SQL, and shares no code with what it judges: the standard library is
all that it imports, and psycopg where the journal is a PostgreSQL database, which is named by its
URL. The lines of the witness stand in witness.py, the rules about requests, callers and bills in
accounts.py. Entry: `check`.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from tests.crash.accounts import ACCOUNTS, Bounds
from tests.crash.copies import judged
from tests.crash.records import Entry, Run, Violation
from tests.crash.witness import Witness, read_witness

MARK = re.compile(r"mark-[\w-]+")
ORDINARY = Bounds()

OF_EVENT: Mapping[str, tuple[str, ...]] = {
    "run_start": ("run.started", "run.resumed"),
    "turn_start": ("model.requested",),
    "turn_end": ("model.requested", "run.finished"),
    "retry": ("model.requested",),
    "usage": ("model.responded",),
    "message": ("model.responded",),
    "tool_call": ("model.responded",),
    "tool_call_start": ("tool.started",),
    "tool_call_end": ("tool.finished",),
    "approval_requested": ("approval.asked",),
    "approval_resolved": ("approval.answered",),
    "input_added": ("input.added", "tool.late"),
    "compaction": ("compaction",),
    "output": ("run.finished",),
    "run_end": ("run.finished",),
}
"""Of which entries an event may speak. Others may speak of any."""


@dataclass
class Verdict:
    violations: list[Violation] = field(default_factory=list[Violation])
    runs: int = 0
    finished: int = 0
    calls: int = 0
    """That were started."""
    effects: int = 0
    unknown: int = 0
    had_happened: int = 0
    """Of the unknown ones."""
    again: int = 0
    """Effects of idempotent calls that took place once more."""
    asked: int = 0
    """Answers of models that were begun, those included that nobody got."""
    drivers: int = 0
    """Times that a run was taken over."""
    faults: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """Faults inside of processes, by kind: how many there were, and how many of them struck."""

    @property
    def rules(self) -> set[str]:
        """Those that are broken."""
        return {violation.rule for violation in self.violations}

    def __str__(self) -> str:
        return "\n".join(f"{rule}: {text}" for rule, text in self.violations) or "no violation"


def check(
    journal: Path | str,
    witness: Path,
    *,
    open_runs: bool = False,
    bounds: Bounds = ORDINARY,
    only: Sequence[str] = (),
) -> Verdict:
    """`journal`: a SQLite file, or the URL of a PostgreSQL database. `open_runs`: some runs may not
    have ended yet, or wait for a person.

    `bounds`: what the harness did that makes a rule say less. `only`: ids of runs, if the others
    and the file are not to be read.
    """
    verdict = Verdict()
    broken, runs = journal_of(journal, only)
    verdict.violations += [Violation("file", text) for text in broken]
    seen = read_witness(witness)
    for run in runs:
        for rule, judge in RULES.items():
            verdict.violations += [Violation(rule, f"{run.id}: {text}") for text in judge(run)]
        if run.finished is None and not open_runs:
            verdict.violations.append(Violation("end", f"{run.id} has not ended"))
    verdict.violations += _world(runs, seen)
    for rule, account in ACCOUNTS.items():
        verdict.violations += [Violation(rule, text) for text in account(runs, seen, bounds)]
    copies = judged(witness.with_name("copies"), {run.id: run for run in runs})
    verdict.violations += [Violation("copy", text) for text in copies]
    _count(verdict, runs, seen)
    return verdict


def journal_of(journal: Path | str, only: Sequence[str] = ()) -> tuple[list[str], list[Run]]:
    """What is wrong with the file, and its runs."""
    broken: list[str] = []
    runs: list[Run] = []
    for part in _parts(journal):
        with _opened(part) as db:
            broken += [] if only else [*db.broken(), *_file(db)]
            runs += _runs(db, only)
    twice = [run_id for run_id, count in Counter(run.id for run in runs).items() if count > 1]
    return [*broken, *(f"run {run_id} is in two shards" for run_id in twice)], runs


def _parts(journal: Path | str) -> list[Path | str]:
    """Each database of a journal."""
    file = str(journal).removeprefix("postgresql+shards:///")
    if file == str(journal):
        return [journal]
    urls = re.findall(r'"(postgresql://[^"]*)"', Path(file).read_text(encoding="utf-8"))
    return [*urls]


# ---------------------------------------------------------------- reading


class _Database(AbstractContextManager["_Database"], Protocol):
    """For reading only, all of it at one moment."""

    def rows(self, statement: str) -> Iterable[tuple[Any, ...]]: ...

    def broken(self) -> Iterator[str]:
        """What the database says of itself."""
        ...


def _opened(journal: Path | str) -> _Database:
    return _Postgres(journal) if str(journal).startswith("postgresql:") else _Sqlite(Path(journal))


class _Sqlite:
    """What a killed process left in the log is seen."""

    def __init__(self, journal: Path) -> None:
        self._db = sqlite3.connect(f"{journal.absolute().as_uri()}?mode=ro", uri=True, timeout=30)

    def __enter__(self) -> _Sqlite:
        self._db.execute("begin")
        return self

    def __exit__(self, *exc: object) -> None:
        self._db.close()

    def rows(self, statement: str) -> Iterable[tuple[Any, ...]]:
        return self._db.execute(statement)

    def broken(self) -> Iterator[str]:
        found = [line for (line,) in self.rows("pragma integrity_check")]
        if found != ["ok"]:
            yield "; ".join(found[:5])


class _Postgres:
    def __init__(self, url: Path | str) -> None:
        import psycopg

        self._db = psycopg.connect(str(url))

    def __enter__(self) -> _Postgres:
        self._db.execute("set transaction isolation level repeatable read, read only")
        self._db.execute("set local search_path = treadle, pg_catalog")
        return self

    def __exit__(self, *exc: object) -> None:
        self._db.close()

    def rows(self, statement: str) -> Iterable[tuple[Any, ...]]:
        return self._db.execute(statement.encode())

    def broken(self) -> Iterator[str]:
        """Each of its own sums is looked at while the tables are read; what is left are its
        indexes.
        """
        for (name,) in self.rows(
            "select indexrelid::regclass::text from pg_index where not indisvalid or not indisready"
        ):
            yield f"the index {name} is not valid"


def _runs(db: _Database, only: Sequence[str]) -> list[Run]:
    names = ", ".join(f"'{name}'" for name in only)
    among = f"where place >> 32 in (select num from runs where id in ({names}))" if only else ""
    texts: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for place, at, text in db.rows(
        f"select place, at, blobs.body from cuts join blobs on blobs.num = cuts.blob {among} order by place, at"
    ):
        texts[place].append((at, text))
    entries: dict[int, list[Entry]] = defaultdict(list)
    for place, kind, call, body in db.rows(
        f"select place, type, call, body from entries {among} order by place"
    ):
        column = call.decode("utf-8", "surrogatepass") if isinstance(call, bytes) else call
        entries[place >> 32].append(
            Entry(place & 0xFFFFFFFF, kind, column, json.loads(_whole(body, texts.get(place, []))))
        )
    rows = list(
        db.rows(
            f"select num, id, head, fence, finished from runs {f'where id in ({names})' if only else ''} order by num"
        )
    )
    return [
        Run(name, head, fence, finished, entries[num]) for num, name, head, fence, finished in rows
    ]


def _whole(body: bytes, texts: Sequence[tuple[int, bytes]]) -> bytes:
    """The entry, with what was cut out of it put back where it stood."""
    for at, text in texts:  # in order: what stands before a place is whole by then
        body = body[:at] + text + body[at:]
    return body


def _file(db: _Database) -> Iterator[str]:
    for number, digest, body in db.rows("select num, hash, body from blobs"):
        if hashlib.sha256(body).digest() != digest:
            yield f"blob {number} is not what its hash says"
    for (place,) in db.rows("select place from cuts where blob not in (select num from blobs)"):
        yield f"entry {place} lacks a part of its body"
    for (place,) in db.rows(
        "select place from entries where place >> 32 not in (select num from runs)"
    ):
        yield f"entry {place} is of no run"


# ---------------------------------------------------------------- rules about one run


def _order(run: Run) -> Iterator[str]:
    seqs = [entry.seq for entry in run.entries]
    if seqs != list(range(1, len(seqs) + 1)):
        yield f"its entries are numbered {seqs[:50]}"
    if run.head != len(seqs):
        yield f"its head is {run.head}, and it has {len(seqs)} entries"
    types = [entry.type for entry in run.entries]
    if (
        types[:1] != ["run.started"]
        or "run.started" in types[1:]
        or run.entries[0].body["run_id"] != run.id
    ):
        yield f"it does not begin with its one run.started: {types[:5]}"
    for entry in run.entries:
        if entry.column != entry.call:
            yield f"entry {entry.seq} is about call {entry.call}, and the table says {entry.column}"


def _ends_once(run: Run) -> Iterator[str]:
    ends = [entry.seq for entry in run.of("run.finished")]
    if len(ends) > 1:
        yield f"it ends at {ends}"
    if (run.finished or None) != (ends[0] if ends else None):
        yield f"its row says that it ended at {run.finished}, its entries at {ends}"
    if ends and (
        after := [entry.type for entry in run.entries[ends[0] :] if entry.type != "tool.late"]
    ):
        yield f"after its end stand {after}"


def _fences(run: Run) -> Iterator[str]:
    """A run that was put into a queue has its first driver when it is first resumed."""
    queued = [entry.type for entry in run.entries[1:2]] in ([], ["run.resumed"])
    fences = [0 if queued else 1, *(entry.body["fence"] for entry in run.of("run.resumed"))]
    if any(later <= before for before, later in pairwise(fences)) or fences[-1] > run.fence:
        yield f"its fences are {fences}, and its row says {run.fence}"


def _one_result(run: Run) -> Iterator[str]:
    for call, count in Counter(entry.call for entry in run.of("tool.finished")).items():
        if count > 1:
            yield f"call {call} has {count} results"


def _one_start(run: Run) -> Iterator[str]:
    """A once-call starts again only where a person said so in between."""
    may_start: dict[str, bool] = {}
    for entry in run.of("tool.started", "approval.answered"):
        call = entry.call or ""
        if entry.type == "approval.answered":
            may_start[call] = entry.body["decision"] == "allow"
        elif entry.body["effect"] == "once":
            if not may_start.get(call, True):
                yield f"once-call {call} started again at {entry.seq}"
            may_start[call] = False


def _key(run: Run) -> Iterator[str]:
    keys: dict[str | None, set[str]] = defaultdict(set)
    for entry in run.of("tool.started"):
        keys[entry.call].add(entry.body["key"])
    for call, of_call in keys.items():
        if len(of_call) > 1:
            yield f"the attempts of call {call} have the keys {sorted(of_call)}"


def _turns(run: Run) -> Iterator[str]:
    """Both barriers: a call starts after its response, and the next request comes after every
    result.
    """
    asked: dict[str, dict[str, Any]] = {}
    still_open: set[str] = set()
    started: set[str] = set()
    by_hand: set[str] = set()
    for entry in run.entries:
        call = entry.call or ""
        if entry.type == "model.responded" and entry.body.get("stop_reason") is not None:
            parts = [part for part in entry.body["message"]["parts"] if part["type"] == "tool_call"]
            asked = {part["id"]: part for part in parts}
            still_open = set(asked)
        elif entry.type == "model.requested" and still_open:
            yield f"request {entry.seq} was made before {sorted(still_open)} had a result"
        elif entry.type == "tool.started":
            started.add(call)
            by_hand.discard(call)
            if call not in still_open or entry.body["arguments_json"] != asked[call].get(
                "arguments_json", "{}"
            ):
                yield f"call {call} started at {entry.seq}, which no response asks for"
        elif entry.type == "tool.finished":
            still_open.discard(call)
            if call not in asked or (
                entry.body.get("started", True) is not (call in started) and call not in by_hand
            ):
                yield f"the result {entry.seq} of call {call} is not of a call like that"
        elif entry.type == "approval.answered":
            by_hand.add(call)
        elif entry.type == "run.finished" and still_open:
            yield f"it ended before {sorted(still_open)} had a result"


def _counts(run: Run) -> Iterator[str]:
    for end in run.of("run.finished"):
        started = len({entry.call for entry in run.of("tool.started")})
        responses = sum(
            entry.body.get("stop_reason") is not None for entry in run.of("model.responded")
        )
        if end.body["tool_calls"] != started:
            yield f"its end counts {end.body['tool_calls']} calls, and {started} were started"
        if end.body["turns"] != responses:
            yield f"its end counts {end.body['turns']} turns, and there are {responses} responses"


RULES: Mapping[str, Callable[[Run], Iterator[str]]] = {
    "order": _order,
    "one end": _ends_once,
    "fence": _fences,
    "one result": _one_result,
    "one start": _one_start,
    "key": _key,
    "turn": _turns,
    "count": _counts,
}


# ---------------------------------------------------------------- rules about what the world saw


def _world(runs: Sequence[Run], seen: Witness) -> Iterator[Violation]:
    starts = _starts(runs)
    for mark, keys in seen.did.items():
        of_mark = starts.get(mark, [])
        if not of_mark:
            yield Violation(
                "no effect without a start", f"{mark} happened, and no call with it was started"
            )
        if len(keys) > 1 and all(start.body["effect"] != "idempotent" for start in of_mark):
            yield Violation("once", f"{mark} happened {len(keys)} times")
        given = {key for key in keys if key}
        if given and len(given | {start.body["key"] for start in of_mark}) > 1:
            yield Violation(
                "key", f"{mark} happened with the keys {sorted(given)}, and its starts have others"
            )
    yield from (Violation("no result without its effect", text) for text in _hollow(runs, seen))
    yield from (Violation("no effect of what was not run", text) for text in _denied(runs, seen))
    yield from (Violation("nothing acknowledged is lost", text) for text in _lost(runs, seen))


def _starts(runs: Sequence[Run]) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = defaultdict(list)
    for run in runs:
        for entry in run.of("tool.started"):
            for mark in set(MARK.findall(entry.body["arguments_json"])):
                found[mark].append(entry)
    return found


def _hollow(runs: Sequence[Run], seen: Witness) -> Iterator[str]:
    for run in runs:
        marks: dict[str | None, set[str]] = {}
        by_hand: set[str | None] = set()
        for entry in run.entries:
            if entry.type == "tool.started" and entry.body["effect"] != "pure":
                marks[entry.call] = set(MARK.findall(entry.body["arguments_json"]))
                by_hand.discard(entry.call)
            elif entry.type == "approval.answered":
                by_hand.add(entry.call)
            elif (
                entry.type == "tool.finished"
                and entry.body["status"] == "ok"
                and entry.call not in by_hand
            ):
                for mark in marks.get(entry.call, set()) - seen.did.keys():
                    yield f"{run.id}: call {entry.call} ended well, and {mark} never happened"


def _denied(runs: Sequence[Run], seen: Witness) -> Iterator[str]:
    """A once-call that may have had its effect is unknown, and not cancelled, unless a person said
    that it had not happened.
    """
    for run in runs:
        starts = {entry.call: entry.body for entry in run.of("tool.started")}
        for entry in run.of("tool.finished"):
            start = starts.get(entry.call, {})
            if (
                entry.body["status"] != "cancelled"
                or start.get("effect") != "once"
                or start.get("attempt", 1) > 1
            ):
                continue
            for mark in MARK.findall(start["arguments_json"]):
                if start["key"] in seen.did.get(mark, ()):
                    yield f"{run.id}: call {entry.call} was cancelled, and {mark} happened"


def _lost(runs: Sequence[Run], seen: Witness) -> Iterator[str]:
    by_id = {run.id: run for run in runs}
    results = {
        entry.call: entry.body["result"] for run in runs for entry in run.of("tool.finished")
    }
    changed: dict[str, str] = {}
    for run in runs:
        changed |= run.entries[0].body.get("fork", {}).get("results", {})
    for told in seen.told:
        result = results.get(told["call"])
        if told["content"] == changed.get(told["call"]):
            continue
        if result is None:
            yield f"a model was told the result of call {told['call']}, which is not in the journal"
        elif any(
            result.get(name, default) != told.get(name, default)
            for name, default in (("is_error", False), ("content", ""))
        ):
            yield f"a model was told {told}, and the journal says {result}"
    for name, seq, kind in seen.published:
        run = by_id.get(name)
        entry = run.entries[seq - 1] if run is not None and 0 < seq <= len(run.entries) else None
        if entry is None or entry.type not in OF_EVENT.get(kind, (entry.type,)):
            yield f"somebody saw {kind} of entry {seq} of {name}, which is {entry.type if entry else 'not there'}"


def _count(verdict: Verdict, runs: Sequence[Run], seen: Witness) -> None:
    verdict.runs = len(runs)
    verdict.finished = sum(run.finished is not None for run in runs)
    verdict.effects = sum(map(len, seen.did.values()))
    verdict.again = sum(len(keys) - 1 for keys in seen.did.values())
    verdict.asked = sum(seen.asked.values())
    verdict.drivers = sum(len(run.of("run.resumed")) for run in runs)
    verdict.faults = {
        kind: (len(hits), sum(hit > 0 for hit in hits))
        for kind, hits in sorted(seen.faults.items())
    }
    for run in runs:
        started = {entry.call: entry for entry in run.of("tool.started")}
        verdict.calls += len(started)
        for entry in run.of("tool.finished"):
            if entry.body["status"] == "unknown":
                verdict.unknown += 1
                marks = (
                    MARK.findall(started[entry.call].body["arguments_json"])
                    if entry.call in started
                    else []
                )
                verdict.had_happened += any(mark in seen.did for mark in marks)


if __name__ == "__main__":
    judged = check(sys.argv[1], Path(sys.argv[2]))
    print(judged)
    sys.exit(bool(judged.violations))
