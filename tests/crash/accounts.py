"""Rules on what models, callers and people were told and charged, against what the journal holds.
Entry: `ACCOUNTS`, `Bounds`.

They need the lines of witness.py that models, tools and callers write; a story that writes none of
them breaks none. Standard library only.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tests.crash.records import Run
from tests.crash.witness import Seen, Witness, chain

NAME = re.compile(r"run ([\w-]+)")
HOUR_S = 3600
FENCED_OFF = {"busy"}
"""Kinds of an error that says that another process drives the run: how the run ended is not known
to the caller.
"""


class Bounds(NamedTuple):
    """What the harness did that makes some rules say less."""

    cut_off: bool = False
    """Processes lost their journal, their lease or their run while they were alive: a result or an
    answer of theirs may have found no place.
    """
    torn: bool = False
    """The end of the journal was taken away: the request of a model may be gone with it."""
    slack_s: float = 1.0
    """From the return of a tool, or the end of an answer, to the moment from which it has to be in
    the journal.
    """
    clocks: bool = False
    """Clocks of processes were wrong by whole hours, and the harness took less than half of one."""


def name_of(run: Run) -> str:
    """The name that its prompt gives, else its id."""
    parts = run.started["input"]["parts"]
    found = NAME.fullmatch("".join(part.get("text", "") for part in parts))
    return found[1] if found is not None else run.id


# ---------------------------------------------------------------- requests


def _history(runs: Sequence[Run], seen: Witness, bounds: Bounds) -> Iterator[str]:
    """Every call of a request has its result in the next message, in order, and no result stands
    anywhere else.
    """
    for name, messages in seen.shown:
        for problem in _invalid(messages):
            yield f"a request of {name} with {len(messages)} messages: {problem}"


def _invalid(messages: Sequence[Seen]) -> Iterator[str]:
    asked: Sequence[str] = ()
    known: set[str] = set()
    for number, message in enumerate(messages):
        if list(message.results) != list(asked):
            yield f"message {number} brings the results {list(message.results)}, and the message before it asks for {list(asked)}"
        if again := known.intersection(message.calls):
            yield f"message {number} asks for {sorted(again)} once more"
        if message.calls and message.role != "assistant":
            yield f"message {number} of role {message.role} asks for calls"
        asked = message.calls
        known |= set(asked)
    if asked:
        yield f"the last message asks for {list(asked)}, which have no results"


def _replay(runs: Sequence[Run], seen: Witness, bounds: Bounds) -> Iterator[str]:
    """What a model was shown is what the journal gives at one of the requests; what a caller got is
    what `replay` gives.
    """
    requests: dict[str, set[str]] = defaultdict(set)
    by_id = {replay["id"]: replay for replay in seen.replays}
    late = {run.id for run in runs if run.entries[-1].type == "tool.late"}
    for replay in seen.replays:
        requests[replay["run"]] |= set(replay["requests"])
    for name, messages in seen.shown:
        if name in requests and chain(message.digest for message in messages) not in requests[name]:
            yield f"a model was shown {len(messages)} messages for {name}, and at no request does the journal give these"
    for result in seen.results:
        replay = by_id.get(result["id"])
        if (
            replay is None
            or result["error"] in FENCED_OFF
            or result["waiting"]
            or (bounds.cut_off and result["error"] is not None)
        ):
            continue
        told = [key for key in _TOLD if key != "messages" or result["id"] not in late]
        if wrong := [
            f"{key}: {result[key]!r}, replay: {replay[key]!r}"
            for key in told
            if result[key] != replay[key]
        ]:
            yield f"the caller of {result['id']} was told {'; '.join(wrong)}"


_TOLD = ("outcome", "text", "turns", "tool_calls", "messages")


def _caller(runs: Sequence[Run], seen: Witness, bounds: Bounds) -> Iterator[str]:
    """A caller that was told an end finds that end in the journal; one that was told of a question
    finds no end before its call.
    """
    by_id = {run.id: run for run in runs}
    for result in seen.results:
        run = by_id.get(result["id"])
        if run is None:
            if result["outcome"] != "error":
                yield f"the caller was told {result['outcome']} of {result['id']}, which is not there"
            continue
        ends = [entry.body["outcome"] for entry in run.of("run.finished")]
        if (
            not result["waiting"]
            and result["error"] not in FENCED_OFF
            and not bounds.cut_off
            and ends != [result["outcome"]]
        ):
            yield f"the caller of {result['id']} was told {result['outcome']} ({result['error']}), and the journal says {ends}"


def _view(runs: Sequence[Run], seen: Witness, bounds: Bounds) -> Iterator[str]:
    for view in seen.views:
        if view["count"] != view["messages"]:
            yield f"session {view['session']} counts {view['count']} messages, and has {view['messages']}"


# ---------------------------------------------------------------- bills


def _paid(runs: Sequence[Run], seen: Witness, bounds: Bounds) -> Iterator[str]:
    """A model is asked once for each request in the journal, and what it answered is not lost
    unless its process died soon after.
    """
    requested: dict[str, int] = defaultdict(int)
    kept: set[str] = set()
    stopped: set[str] = set()
    for run in runs:
        name = name_of(run)
        requested[name] += len(run.of("model.requested"))
        kept |= {
            entry.body["message"].get("response_id", "") for entry in run.of("model.responded")
        }
        if any(
            entry.body["outcome"] in ("cancelled", "timeout") for entry in run.of("run.finished")
        ):
            stopped.add(name)
    for name, times in () if bounds.torn else seen.asked.items():
        if name in requested and times > requested[name]:
            yield f"a model was asked {times} times for {name}, and the journal holds {requested[name]} requests"
    for name, responses in () if bounds.cut_off else seen.answered.items():
        for response, at in responses.items():
            if (
                name in requested
                and name not in stopped
                and response not in kept
                and seen.lived_on(at, float("inf"), bounds.slack_s)
            ):
                yield f"a model answered {name} with {response}, which is not in the journal, though its process lived on"


def _bill(runs: Sequence[Run], seen: Witness, bounds: Bounds) -> Iterator[str]:
    """Nothing is charged beyond the limit of a run, its children included: their names begin with
    its name.
    """
    limits = {name_of(run): run.started.get("limits", {}).get("tokens") for run in runs}
    total: dict[str, int] = defaultdict(int)
    for name, tokens in seen.billed.items():
        total[name.partition("-")[0]] += tokens
    for name, tokens in total.items():
        limit = limits.get(name)
        if limit is not None and tokens > limit:
            yield f"{name} was charged {tokens} tokens, and its limit is {limit}"


# ---------------------------------------------------------------- outcomes


def _unknown(runs: Sequence[Run], seen: Witness, bounds: Bounds) -> Iterator[str]:
    """A call is unknown only where its tool had not returned, or its process was ended too soon for
    the result to be stored.
    """
    if bounds.cut_off:
        return
    for run in runs:
        answered = {entry.call for entry in run.of("approval.answered")}
        for entry in run.of("tool.finished"):
            if entry.body["status"] != "unknown" or entry.call in answered:
                continue
            said_s = datetime.fromisoformat(entry.body["at"]).timestamp()
            for at in seen.returned.get(entry.call or "", ()):
                stood_s = _right(said_s, at.time_s) if bounds.clocks else said_s
                if seen.lived_on(at, stood_s, bounds.slack_s):
                    yield f"{run.id}: call {entry.call} is unknown, and had returned {stood_s - at.time_s:.1f} s before in process {at.pid}"


def _right(said_s: float, about_s: float) -> float:
    """The time, less than half an hour from the other one, at which a clock that is wrong by whole
    hours says this.
    """
    return about_s + (said_s - about_s + HOUR_S / 2) % HOUR_S - HOUR_S / 2


Account = Callable[[Sequence[Run], Witness, Bounds], Iterable[Any]]
ACCOUNTS: Mapping[str, Account] = {
    "history": _history,
    "replay": _replay,
    "caller": _caller,
    "view": _view,
    "paid": _paid,
    "bill": _bill,
    "unknown": _unknown,
}
