"""One chunk of lines: judged, and the allowed ones run. Entry: `Trial`."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.oracle.jail import Jail, Ran
from tests.oracle.judge import DENIED, Decide, Judge, Judged, decided
from tests.oracle.leftovers import Leftovers
from tests.oracle.lines import CHUNK, Chunk
from tests.oracle.rules import DeniedLines, violated
from tests.oracle.sandboxed import BASE as SANDBOXED
from tests.oracle.sandboxed import Enclosure, Job
from tests.oracle.shrink import MOST_TRIALS, shrunk
from treadle.types import Mode

MOST_SHRUNK = 6
"""Lines of one chunk that are made shorter, of each effect one."""
_MODES: tuple[Mode, ...] = ("ask", "plan")


@dataclass(frozen=True, slots=True)
class Harm:
    """A line that did harm although it was allowed."""

    line: str
    mode: Mode
    effects: tuple[str, ...]
    seed: int
    chunk: int
    short: str = ""
    """A shorter line that does harm too; empty if none was looked for."""
    under: str = ""
    """The rules under which it was decided."""

    @property
    def effect(self) -> str:
        return effect_of(self.effects)


def effect_of(effects: tuple[str, ...]) -> str:
    """The kinds of harm, without paths."""
    return " ".join(sorted({text.split(" ")[0] for text in effects}))


@dataclass
class Counts:
    decided: int = 0
    allowed: int = 0
    contained: list[str] = field(default_factory=list[str])
    """Lines that only look, as far as the policy sees, and need the sandbox for it."""
    ran: int = 0
    harms: list[Harm] = field(default_factory=list[Harm])

    def add(self, other: Counts) -> None:
        self.decided += other.decided
        self.allowed += other.allowed
        self.ran += other.ran
        self.harms += other.harms


class Trial:
    """A judge and a jail at the same place. Use as a context manager."""

    def __init__(self, base: str, decide: Decide = decided, programs: str = "") -> None:
        self.base = base
        self._judge = Judge(base, decide)
        self._jail = Jail(base, programs=programs)
        self._shims = Jail(base, shims=True, programs=programs)
        self._enclosure = Enclosure()

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *_: object) -> None:
        self._jail.close()
        self._shims.close()
        self._enclosure.close()

    def chunk(self, seed: int, number: int, *, most_decided: int = CHUNK, most_run: int) -> Counts:
        """Judge the lines of a chunk and run a sample of the allowed ones."""
        counts, allowed, lines = Counts(), dict[str, Judged](), Chunk(seed, number)
        for i, line in enumerate(lines):
            if i >= most_decided:
                break
            counts.decided += 1
            judged = self._judge.of(line, _MODES[i % 2])
            if judged.problem:
                counts.harms.append(
                    Harm(line, judged.mode, (f"raised {judged.problem}",), seed, number)
                )
            if judged.verdict == "contained" and is_encodable(line):
                counts.contained.append(line)
            if judged.verdict == "allow":
                counts.allowed += 1
                lines.allowed(line)
                allowed.setdefault(line, judged)
        assert os.path.lexists(self._judge.cwd / "a.txt"), (
            f"{self.base} was removed, and the decisions were made without it"
        )
        sample = random.Random(f"{seed}:{number}:run").sample(
            list(allowed.values()), min(most_run, len(allowed))
        )
        shown = Counter[str]()
        for judged in sample:
            if not is_encodable(judged.line):
                continue
            counts.ran += 1
            ran = self._run(judged)
            if ran.harm:
                effect = effect_of(ran.harm)
                shown[effect] += 1
                most = 10 if "endless" in effect else MOST_TRIALS
                short = (
                    self._shorter(judged, most)
                    if shown[effect] == 1 and len(shown) <= MOST_SHRUNK
                    else ""
                )
                counts.harms.append(
                    Harm(judged.line, judged.mode, ran.harm[:8], seed, number, short)
                )
        return counts

    def confined(
        self, seed: int, number: int, contained: Sequence[str], *, most_run: int
    ) -> Counts:
        """Run sessions in our own sandbox: lines that only look, lines about denied paths, and
        lines that leave something behind.
        """
        counts, chance = Counts(), random.Random(f"{seed}:{number}:confined")
        leftovers, denied = (
            Leftovers(chance, SANDBOXED),
            iter(DeniedLines(f"{seed}:{number}:paths", "denied paths")),
        )
        for i in range(most_run):
            if i % 3 == 0 and contained:
                job = Job((chance.choice(contained),), _MODES[i % 2])
            elif i % 3 == 1:
                job = Job(
                    (next(line for line in denied if is_encodable(line)),), "full", ruled=True
                )
            else:
                job = Job(tuple(leftovers.session()), "full")
            counts.ran += 1
            if harm := self._enclosure.harm(job):
                under = " ".join(DENIED) if job.ruled else "sandbox"
                counts.harms.append(
                    Harm(
                        "\n---\n".join(job.lines),
                        job.mode,
                        harm[:8],
                        seed,
                        number,
                        self._shorter_confined(job, harm),
                        under,
                    )
                )
        return counts

    def _shorter_confined(self, job: Job, harm: tuple[str, ...]) -> str:
        def is_harmful(line: str) -> bool:
            return effect_of(self._enclosure.harm(replace(job, lines=(line,)))) == effect_of(harm)

        return shrunk(job.lines[0], is_harmful, most=30) if len(job.lines) == 1 else ""

    def denied(self, seed: int, number: int, *, most_run: int) -> Counts:
        """Run lines that mode full allows although rules deny commands, and see whether the
        commands ran.
        """
        counts = Counts()
        for i, line in enumerate(DeniedLines(f"{seed}:{number}:denied")):
            if counts.ran >= most_run or i >= most_run * 20:
                break
            ruled = i % 3 > 0
            judged = self._judge.in_full(line, ruled=ruled)
            counts.decided += 1
            if judged.verdict != "allow" or not is_encodable(line):
                continue
            counts.allowed += 1
            counts.ran += 1
            if broken := self._broken(judged):
                counts.harms.append(
                    Harm(
                        line,
                        "full",
                        broken,
                        seed,
                        number,
                        self._shorter_denied(judged, broken),
                        under=" ".join(DENIED) if ruled else "",
                    )
                )
        return counts

    def _broken(self, judged: Judged) -> tuple[str, ...]:
        found = violated(self._shims.run(judged, may_write=True).noted, f"{self.base}/home")
        return found if judged.is_ruled else tuple(each for each in found if each == "ran never")

    def _shorter_denied(self, judged: Judged, broken: tuple[str, ...]) -> str:
        def is_harmful(line: str) -> bool:
            other = self._judge.in_full(line, ruled=judged.is_ruled)
            return (
                other.verdict == "allow"
                and is_encodable(line)
                and set(broken) <= set(self._broken(other))
            )

        return shrunk(judged.line, is_harmful)

    def _run(self, judged: Judged) -> Ran:
        return self._jail.run(judged, private=judged.is_ruled)

    def _shorter(self, judged: Judged, most: int) -> str:
        def is_harmful(line: str) -> bool:
            other = self._judge.of(line, judged.mode)
            return other.verdict == "allow" and is_encodable(line) and bool(self._run(other).harm)

        return shrunk(judged.line, is_harmful, most)


def is_encodable(line: str) -> bool:
    """False for lone surrogates that stand for no byte: no process can be given them."""
    try:
        line.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
