"""The witness: a text file outside the journal, one line for each thing that the world saw. Entry:
`read_witness`, `Witness`.

    did MARK [KEY]                      an effect took place; its call has the word MARK, which
                                        begins with `mark-`, in its arguments
    entered MARK CALL PID AT            a tool began this call
    returned MARK CALL PID AT           a tool is about to return from this call
    left MARK CALL PID AT               a tool was cancelled in this call, or put its result off
                                        (only people look at it)
    told {"call": …, …}                 a model was shown this result: call, is_error, content
    asked [RUN]                         a model was asked
    answered RUN RESPONSE PID AT        a model finished this response
    billed RUN TOKENS                   a model charges for a response, or for the part that it sent
    shown {"run": …, "pid": …, …}       the messages of a request (`Shown`)
    published RUN ENTRY.K TYPE          a subscriber received this durable event
    result {"run": …, …}                what a caller got from `run` or `resume`
    ending PID AT                       the harness is about to kill a process, or to tell it to
                                        drain
    alive PID AT                        a thread of a process ran, every fifth of a second (`BEAT_S`)
    fault KIND PID AT HITS              a fault inside of a process is over, and struck so often
    replay {"id": …, "run": …, …}       what `Runtime.replay` gives, once all is over
    view {"session": …, …}              what a list of sessions counts, and how many messages there
                                        are

RUN in the lines of a model is the name that its prompt gives (`run NAME`). AT is the wall clock, in
seconds. Standard library only.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple


class At(NamedTuple):
    """A moment in a process."""

    pid: str
    time_s: float


BEAT_S = 0.2


class Seen(NamedTuple):
    """One message of a request: its role, a digest of its bytes, the ids of the calls it asks for
    and of the results it brings.
    """

    role: str
    digest: str
    calls: Sequence[str]
    results: Sequence[str]


@dataclass
class Witness:
    did: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Mark -> the key of each time that it happened, empty where it was not given."""
    told: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    published: list[tuple[str, int, str]] = field(default_factory=list[tuple[str, int, str]])
    """Run, sequence of the entry, type of the event."""
    asked: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Name of a run -> responses of a model that began; the empty name where none was given."""
    answered: dict[str, dict[str, At]] = field(default_factory=lambda: defaultdict(dict))
    """Name of a run -> response id -> when a model finished it."""
    entered: dict[str, list[At]] = field(default_factory=lambda: defaultdict(list))
    """Call id -> each time that its tool began."""
    returned: dict[str, list[At]] = field(default_factory=lambda: defaultdict(list))
    billed: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    shown: list[tuple[str, Sequence[Seen]]] = field(
        default_factory=list[tuple[str, Sequence[Seen]]]
    )
    """Name of a run, and the messages of one request."""
    results: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    ended: dict[str, float] = field(default_factory=dict[str, float])
    """Process id -> when the harness began to end it, by a kill or a drain."""
    beats: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Process id -> when the system let a thread of it run that wakes up every `BEAT_S`."""
    faults: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Kind -> how often each of it struck."""
    replays: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    views: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def lived_on(self, at: At, until_s: float, least_s: float) -> bool:
        """Whether the process of `at` had more than so many seconds from there until it was ended, or
        `until_s`, and the system let it run for as many of them.
        """
        until_s = min(until_s, self.ended.get(at.pid, float("inf")))
        beats = [beat_s for beat_s in self.beats.get(at.pid, ()) if at.time_s < beat_s < until_s]
        was_let_run = at.pid not in self.beats or len(beats) * BEAT_S >= least_s
        return at.time_s + least_s < until_s and was_let_run


def chain(digests: Iterable[str]) -> str:
    """One digest for a sequence of messages."""
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()[:16]


def read_witness(path: Path) -> Witness:
    seen, last = Witness(), dict[tuple[str, str], list[Seen]]()
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        what, _, rest = line.partition(" ")
        if what in _JSON:
            _read_json(seen, what, json.loads(rest), last)
        elif what in _WORDS:
            _read_words(seen, what, rest.split())
    return seen


_JSON = {"told", "shown", "result", "replay", "view"}
_WORDS = {
    "did",
    "entered",
    "returned",
    "asked",
    "answered",
    "billed",
    "published",
    "ending",
    "alive",
    "fault",
}


def _read_json(
    seen: Witness, what: str, body: dict[str, Any], last: dict[tuple[str, str], list[Seen]]
) -> None:
    if what == "shown":
        by = (str(body["pid"]), body["run"])
        messages = [*last.get(by, [])[: body["kept"]], *(Seen(*each) for each in body["more"])]
        last[by] = messages
        seen.shown.append((body["run"], messages))
    else:
        {"told": seen.told, "result": seen.results, "replay": seen.replays, "view": seen.views}[
            what
        ].append(body)


def _read_words(seen: Witness, what: str, words: list[str]) -> None:
    match what, words:
        case "did", [mark, *key]:
            seen.did[mark].append("".join(key))
        case (("entered" | "returned"), [_, call, pid, at]):
            (seen.entered if what == "entered" else seen.returned)[call].append(At(pid, float(at)))
        case "asked", names:
            seen.asked["".join(names)] += 1
        case "answered", [run, response, pid, at]:
            seen.answered[run][response] = At(pid, float(at))
        case "billed", [run, tokens]:
            seen.billed[run] += int(tokens)
        case "published", [run, place, kind]:
            seen.published.append((run, int(place.partition(".")[0]), kind))
        case "ending", [pid, at]:
            seen.ended[pid] = float(at)
        case "alive", [pid, at]:
            seen.beats[pid].append(float(at))
        case "fault", [kind, _, _, hits]:
            seen.faults[kind].append(int(hits))
        case _:
            raise ValueError(f"the witness has a line that cannot be read: {what} {words}")
