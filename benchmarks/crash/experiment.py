"""Kills an agent that charges orders, at every named point in turn, resumes it in a new process,
and counts what the world saw.

    python benchmarks/crash/experiment.py [--install] [--only NAME] [--boundaries] [--folder DIR] [--jobs N] [--json FILE]

The agent is the same on every framework (shop.py); each has a worker beside this file, and a
virtual environment of its own. What is counted comes from a witness file that no framework knows
of, and, for the log, from what the framework's own records say. Entry: `main`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import venv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from shop import CRASH_POINT, DONE

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 60.0
QUIET = "nowhere"
_ORDERS = ("A", "B", "C", "D")
_ANSWERS = 4
"""What the model says in a run that nobody kills."""
_BOUNDARIES_MAX = 500


@dataclass(frozen=True)
class Peer:
    name: str
    title: str
    worker: str
    options: tuple[str, ...] = ()
    environment: str = ""
    """The name of its virtual environment; none for the Python that runs this experiment."""
    requirements: tuple[str, ...] = ()


_STEPS = ("pydantic-ai-harness==0.62.0", "pydantic-ai-slim==2.62.0")
PEERS = (
    Peer("treadle", "Treadle", "treadle_worker.py", ("once",)),
    Peer(
        "treadle-idempotent",
        "Treadle, `charge` declared idempotent",
        "treadle_worker.py",
        ("idempotent",),
    ),
    Peer(
        "langgraph",
        "LangGraph",
        "langgraph_worker.py",
        environment="langgraph",
        requirements=(
            "langgraph==1.2.22",
            "langgraph-checkpoint-sqlite==3.1.2",
            "langchain==1.4.7",
        ),
    ),
    Peer(
        "pydantic-ai-dbos",
        "Pydantic AI, DBOS",
        "pydantic_ai_worker.py",
        ("dbos",),
        environment="pydantic-ai-dbos",
        requirements=("pydantic-ai-slim[dbos]==2.68.0", "dbos==3.4.0"),
    ),
    Peer(
        "pydantic-ai-steps",
        "Pydantic AI, StepPersistence",
        "pydantic_ai_worker.py",
        ("steps",),
        "pydantic-ai-steps",
        _STEPS,
    ),
    Peer(
        "pydantic-ai-ledger",
        "Pydantic AI, its ledger read by the application",
        "pydantic_ai_worker.py",
        ("ledger",),
        "pydantic-ai-steps",
        _STEPS,
    ),
)


class Missing(Exception):
    """This framework cannot be tried here, and what to do."""


# ---------------------------------------------------------------- processes


class Lab:
    """Where the experiment happens: a folder with the environments, and one for every trial of this
    time.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._trials = folder / "trials"
        shutil.rmtree(self._trials, ignore_errors=True)
        self._trials.mkdir(parents=True)

    def trial(self, peer: Peer) -> Path:
        return Path(tempfile.mkdtemp(prefix=f"{peer.name}-", dir=self._trials))

    def python(self, peer: Peer) -> Path:
        if not peer.environment:
            return Path(sys.executable)
        found = (
            self.folder
            / "environments"
            / peer.environment
            / ("Scripts" if os.name == "nt" else "bin")
            / "python"
        )
        if not (found.parent.parent / "complete").exists():
            raise Missing(
                f"not installed: python {os.path.relpath(HERE / 'experiment.py')} --install"
            )
        return found

    def install(self, peer: Peer) -> None:
        where = self.folder / "environments" / peer.environment
        if not peer.environment or (where / "complete").exists():
            return
        print(f"installing {' '.join(peer.requirements)}", file=sys.stderr, flush=True)
        venv.create(where, with_pip=True, clear=True)
        subprocess.run(
            [where / "bin" / "python", "-m", "pip", "install", "-qq", *peer.requirements],
            check=True,
        )
        (where / "complete").touch()

    def versions(self, peer: Peer) -> str:
        names = [
            requirement.partition("==")[0].partition("[")[0] for requirement in peer.requirements
        ] or ["treadle"]
        code = f"import importlib.metadata as m; print(', '.join(f'{{n}} {{m.version(n)}}' for n in {names!r}))"
        return subprocess.run(
            [self.python(peer), "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()

    def run(
        self, peer: Peer, trial: Path, how: str, variables: Mapping[str, str]
    ) -> tuple[int | None, str]:
        """The exit code, None where it did not end, and the last line that it complained with."""
        command = [self.python(peer), HERE / peer.worker, trial, how, *peer.options]
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name not in (CRASH_POINT, "TREADLE_CRASH_AT")
        }
        with (trial / f"{how}.txt").open("w+", encoding="utf-8") as output:
            try:
                code = subprocess.run(
                    command,
                    env={**inherited, **variables},
                    stdout=output,
                    stderr=output,
                    timeout=TIMEOUT_S,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                code = None
            output.seek(0)
            lines = output.read().strip().splitlines()
        return code, lines[-1] if lines else ""


# ---------------------------------------------------------------- one trial


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One kill, and what came of it."""

    point: str
    trouble: str = ""
    """Why the run did not get to its end, in the worker's words."""
    begun_anew: bool = False
    twice: tuple[str, ...] = ()
    """Orders that were charged more than once."""
    lost: tuple[str, ...] = ()
    """Orders that were not charged although the run ended."""
    again: int = 0
    """Answers of the model that were paid for more than once."""
    more: int = 0
    """Answers that a quiet run has not: the model looks up what it is not sure of, and may call
    again.
    """
    in_flight: tuple[str, ...] = ()
    """Charges that had begun and not returned when the process died."""
    told: tuple[str, ...] = ()
    """Charges that the model was told of, but not as done."""
    logged: tuple[str, ...] = ()
    """Charges that the framework's own records have as unknown."""

    @property
    def words(self) -> str:
        found = [f"{order} charged twice" for order in self.twice] + [
            f"{order} never charged" for order in self.lost
        ]
        found += [f"{_counted(self.again, 'answer')} paid again"] * bool(self.again)
        found += ["restarted"] * self.begun_anew
        if self.told:
            found += ["reported as unknown: " + ", ".join(call.split("-")[1] for call in self.told)]
        found += [f"{_counted(self.more, 'answer')} more"] * bool(self.more)
        return self.trouble or "; ".join(found) or "ok"


def attempt(lab: Lab, peer: Peer, point: str, variables: Mapping[str, str]) -> Trial | None:
    """None where the process was not killed: it never passed this point."""
    trial = lab.trial(peer)
    code, complaint = lab.run(peer, trial, "start", variables)
    if code == 0:
        return None
    if code != -signal.SIGKILL:
        return Trial(point=point, trouble=f"it ended by itself: {complaint}")
    before = _witness(trial)
    (trial / "end.json").unlink(missing_ok=True)
    code, complaint = lab.run(peer, trial, "resume", {})
    trouble = (
        ""
        if code == 0
        else "it did not end"
        if code is None
        else f"it could not be resumed: {complaint}"
    )
    return _counted_trial(point, trouble, before, _witness(trial), trial)


def _counted_trial(
    point: str,
    trouble: str,
    before: Sequence[Mapping[str, str]],
    witness: Sequence[Mapping[str, str]],
    trial: Path,
) -> Trial:
    charges = Counter(seen["of"] for seen in witness if seen["what"] == "charge")
    answers = Counter(seen["of"] for seen in witness if seen["what"] == "answer")
    doubts = {seen["of"] for seen in witness if seen["what"] == "doubt"}
    end: dict[str, Any] = json.loads((trial / "end.json").read_text()) if not trouble else {}
    if end and end["text"] != DONE:
        trouble = f"it ended with {end['text']!r}"
    return Trial(
        point=point,
        trouble=trouble,
        begun_anew=end.get("begun_anew", False),
        twice=tuple(order for order in _ORDERS if charges[order] > 1),
        lost=tuple(order for order in _ORDERS if not trouble and not charges[order]),
        again=sum(answers.values()) - len(answers),
        more=max(0, len(answers) - _ANSWERS),
        in_flight=_in_flight(before),
        told=tuple(sorted(doubts)),
        logged=tuple(call for call in end.get("unknown_in_log", ()) if call.startswith("charge")),
    )


def _witness(trial: Path) -> list[dict[str, str]]:
    path = trial / "witness.jsonl"
    return (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if path.exists()
        else []
    )


def _in_flight(witness: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    """By what the tools said: a charge says so when it is called, and right before it returns."""
    entered, returned = (
        {seen["of"] for seen in witness if seen["what"] == what} for what in ("entered", "returned")
    )
    return tuple(
        f"charge-{order}-1" for order in _ORDERS if f"charge {order}" in entered - returned
    )


# ---------------------------------------------------------------- all trials


def points_of(lab: Lab, peer: Peer) -> list[str]:
    """Those that a quiet run passes."""
    trial = lab.trial(peer)
    code, complaint = lab.run(peer, trial, "start", {CRASH_POINT: QUIET})
    if code != 0:
        raise Missing(f"it does not run here: {complaint}")
    return [seen["of"] for seen in _witness(trial) if seen["what"] == "point"]


def named_points(lab: Lab, peer: Peer, jobs: int) -> list[Trial]:
    points = points_of(lab, peer)

    def killed_at(point: str) -> Trial | None:
        return attempt(lab, peer, point, {CRASH_POINT: point})

    with ThreadPoolExecutor(jobs) as pool:
        return [trial for trial in pool.map(killed_at, points) if trial is not None]


def boundaries(lab: Lab, peer: Peer) -> Iterator[Trial]:
    """Treadle's own points: before and after every commit and every execution, until the run
    survives.
    """
    for number in range(1, _BOUNDARIES_MAX):
        trial = attempt(lab, peer, f"boundary {number}", {"TREADLE_CRASH_AT": str(number)})
        if trial is None:
            return
        yield trial


# ---------------------------------------------------------------- the tables


MEASURES: tuple[tuple[str, Callable[[Trial], int]], ...] = (
    ("kills", lambda trial: 1),
    ("runs that got to their end", lambda trial: not trial.trouble),
    ("of them restarted from the prompt", lambda trial: trial.begun_anew),
    ("charges done twice", lambda trial: len(trial.twice)),
    ("charges never done", lambda trial: len(trial.lost)),
    ("charges in flight at a kill", lambda trial: len(trial.in_flight)),
    ("charges reported to the model as unknown", lambda trial: len(trial.told)),
    ("charges unknown in the framework's records", lambda trial: len(trial.logged)),
    ("answers of the model paid again", lambda trial: trial.again),
    ("answers more than a quiet run needs", lambda trial: trial.more),
)


def summary(done: Mapping[str, Sequence[Trial]]) -> str:
    lines = ["| | " + " | ".join(done) + " |", "|---" * (len(done) + 1) + "|"]
    for name, measure in MEASURES:
        lines.append(
            f"| {name} | "
            + " | ".join(str(sum(map(measure, trials))) for trials in done.values())
            + " |"
        )
    return "\n".join(lines)


def details(done: Mapping[str, Sequence[Trial]]) -> str:
    tried = {title: {trial.point: trial for trial in trials} for title, trials in done.items()}
    points = list(dict.fromkeys(point for trials in tried.values() for point in trials))
    lines = ["| killed at | " + " | ".join(tried) + " |", "|---" * (len(tried) + 1) + "|"]
    for point in points:
        lines.append(
            f"| {point} | "
            + " | ".join(
                trials[point].words if point in trials else "" for trials in tried.values()
            )
            + " |"
        )
    return "\n".join(lines)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


# ---------------------------------------------------------------- the command


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(
        description="Kills the same agent on several frameworks, resumes it, and prints what was done twice, lost or told."
    )
    options.add_argument(
        "--install",
        action="store_true",
        help="make the virtual environments of the frameworks first",
    )
    options.add_argument(
        "--only",
        action="append",
        choices=[peer.name for peer in PEERS],
        help="this one; repeatable",
    )
    options.add_argument(
        "--boundaries",
        action="store_true",
        help="kill Treadle at each of its own durable boundaries too",
    )
    options.add_argument(
        "--folder",
        type=Path,
        default=Path(tempfile.gettempdir()) / "treadle-crash",
        help="where environments and trials go (%(default)s)",
    )
    options.add_argument("--jobs", type=int, default=2, help="trials at a time (%(default)s)")
    options.add_argument("--json", type=Path, help="write every trial to this file")
    return options.parse_args()


def main() -> None:
    options = _options()
    lab = Lab(options.folder.resolve())
    done: dict[str, list[Trial]] = {}
    swept: dict[str, list[Trial]] = {}
    versions: list[str] = []
    troubles: list[str] = []
    for peer in PEERS:
        if options.only and peer.name not in options.only:
            continue
        try:
            if options.install:
                lab.install(peer)
            print(f"{peer.name} …", file=sys.stderr, flush=True)
            done[peer.title] = named_points(lab, peer, max(1, options.jobs))
            if options.boundaries and peer.name == "treadle":
                swept[f"{peer.title}, its own boundaries"] = list(boundaries(lab, peer))
            versions.append(lab.versions(peer))
        except (Missing, subprocess.CalledProcessError) as why:
            troubles.append(f"{peer.title}: {why}")
    if options.json:
        found = {
            title: [asdict(trial) for trial in trials] for title, trials in (done | swept).items()
        }
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if done:
        print(summary(done | swept))
        print(
            f"\n{date.today()}, Python {platform.python_version()}; {'; '.join(dict.fromkeys(versions))}.\n"
        )
        print(details(done))
    print(*(f"\n{trouble}" for trouble in troubles), sep="")


if __name__ == "__main__":
    main()
