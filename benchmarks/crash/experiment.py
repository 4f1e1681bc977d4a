"""Kill an agent that charges orders at every named point in turn, resume it in a new process, and
count the effects.

    python benchmarks/crash/experiment.py [--install] [--only NAME] [--boundaries] [--folder DIR] [--jobs N] [--json FILE]

The agent is the same on every framework (shop.py). Each framework has a worker in this folder and a
virtual environment of its own. Effects are counted from a witness file that no framework uses, and
for the records from the framework's own log. Entry point: `main`.
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
"""Last answer of a run that is not killed."""
_BOUNDARIES_MAX = 500


@dataclass(frozen=True)
class Peer:
    name: str
    title: str
    worker: str
    options: tuple[str, ...] = ()
    environment: str = ""
    """Name of its virtual environment; "" for the Python that runs this experiment."""
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
    """A framework that cannot be tried here, with the next step."""


# ---------------------------------------------------------------- processes


class Lab:
    """The folder of the experiment: the environments, and a folder for every trial of this
    execution.
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
        """Run a worker. Return its exit code, None if it did not end, and the last line of its
        errors.
        """
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
    """One kill and its outcome."""

    point: str
    trouble: str = ""
    """Reason why the run was not completed, as the worker reported it."""
    begun_anew: bool = False
    twice: tuple[str, ...] = ()
    """Orders that were charged more than once."""
    lost: tuple[str, ...] = ()
    """Orders that were not charged although the run ended."""
    again: int = 0
    """Responses of the model that were paid for more than once."""
    more: int = 0
    """Responses beyond those of an undisturbed run: the model looks up unclear results, and may
    call again.
    """
    in_flight: tuple[str, ...] = ()
    """Charges that had begun and not returned when the process died."""
    told: tuple[str, ...] = ()
    """Charges that were reported to the model, but not as done."""
    logged: tuple[str, ...] = ()
    """Charges that are unknown in the framework's own records."""

    @property
    def words(self) -> str:
        found = [f"{order} charged twice" for order in self.twice] + [
            f"{order} never charged" for order in self.lost
        ]
        found += [f"{_counted(self.again, 'response')} paid twice"] * bool(self.again)
        found += ["restarted"] * self.begun_anew
        if self.told:
            found += ["reported as unknown: " + ", ".join(call.split("-")[1] for call in self.told)]
        found += [_counted(self.more, "extra response")] * bool(self.more)
        return self.trouble or "; ".join(found) or "ok"


def attempt(lab: Lab, peer: Peer, point: str, variables: Mapping[str, str]) -> Trial | None:
    """Run one trial. Return None if the process was not killed, because it never passed this point."""
    trial = lab.trial(peer)
    code, complaint = lab.run(peer, trial, "start", variables)
    if code == 0:
        return None
    if code != -signal.SIGKILL:
        return Trial(point=point, trouble=f"it ended before the kill: {complaint}")
    before = _witness(trial)
    (trial / "end.json").unlink(missing_ok=True)
    code, complaint = lab.run(peer, trial, "resume", {})
    trouble = (
        ""
        if code == 0
        else "it did not finish"
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
    """Return the charges in flight, from the witness: a charge is recorded when it is called, and
    right before it returns.
    """
    entered, returned = (
        {seen["of"] for seen in witness if seen["what"] == what} for what in ("entered", "returned")
    )
    return tuple(
        f"charge-{order}-1" for order in _ORDERS if f"charge {order}" in entered - returned
    )


# ---------------------------------------------------------------- all trials


def points_of(lab: Lab, peer: Peer) -> list[str]:
    """Return the points that an undisturbed run passes."""
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
    """Kill at Treadle's own points, before and after every commit and every execution, until the
    run survives.
    """
    for number in range(1, _BOUNDARIES_MAX):
        trial = attempt(lab, peer, f"boundary {number}", {"TREADLE_CRASH_AT": str(number)})
        if trial is None:
            return
        yield trial


# ---------------------------------------------------------------- the tables


MEASURES: tuple[tuple[str, Callable[[Trial], int]], ...] = (
    ("kills", lambda trial: 1),
    ("completed runs", lambda trial: not trial.trouble),
    ("of these, restarted from the prompt", lambda trial: trial.begun_anew),
    ("charges executed twice", lambda trial: len(trial.twice)),
    ("charges never executed", lambda trial: len(trial.lost)),
    ("charges in flight at a kill", lambda trial: len(trial.in_flight)),
    ("charges reported to the model as unknown", lambda trial: len(trial.told)),
    ("charges unknown in the framework's records", lambda trial: len(trial.logged)),
    ("responses of the model paid twice", lambda trial: trial.again),
    ("extra responses, compared with an undisturbed run", lambda trial: trial.more),
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
        description="Kill the same agent on several frameworks, resume it, and print which effects were repeated, lost or reported."
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
        help="only this framework; repeatable",
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
        help="folder of environments and trials (%(default)s)",
    )
    options.add_argument(
        "--jobs", type=int, default=2, help="number of parallel trials (%(default)s)"
    )
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
                swept[f"{peer.title}, at its own boundaries"] = list(boundaries(lab, peer))
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
