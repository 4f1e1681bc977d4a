"""One guard after the other is broken in a copy of the tree, and its tests are run there.

Never touches the tree itself. Entry: `Tree`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from tests.guards.catalogue import ROOT, Break, Guard, standing

COPIED = (
    "src",
    "tests",
    "docs",
    "pyproject.toml",
    "AGENTS.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
)
MOST_S = 90.0
"""For the tests of one guard; a break may make them hang."""
_times = count(int(time.time()) + 1_000)


class Verdict(StrEnum):
    RED = "red"
    GREEN = "GREEN: broken, and no test noticed"
    LOST = "LOST: its text does not stand exactly once in its file"
    SKIPPED = "skipped: what its tests need is not here"
    TROUBLE = "TROUBLE: its tests could not be run"

    @property
    def is_well(self) -> bool:
        return self in (Verdict.RED, Verdict.SKIPPED)


class Ran(NamedTuple):
    """What a run of tests came to."""

    verdict: Verdict
    red: Sequence[str]
    """The tests that failed."""
    took_s: float
    said: str = ""
    """By pytest, where the tests could not be run."""


class Tree:
    """A copy of the repository `source`, in `folder`."""

    def __init__(self, folder: Path, source: Path = ROOT) -> None:
        self.root = folder / "treadle"
        self.root.mkdir(parents=True)
        for name in filter(lambda name: (source / name).exists(), COPIED):
            copy = shutil.copytree if (source / name).is_dir() else shutil.copy2
            copy(source / name, self.root / name)
        self._report = folder / "report.xml"
        self._python = self._made_python(folder / "python")

    def _made_python(self, folder: Path) -> Path:
        """An environment whose programs, too, import the copy; everything else is where it is in
        ours.
        """
        venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
        base = {"base": str(folder), "platbase": str(folder)}
        others = [
            path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")
        ]
        Path(sysconfig.get_path("purelib", "venv", base), "copy.pth").write_text(
            "\n".join([str(self.root / "src"), *others]), encoding="utf-8"
        )
        return Path(sysconfig.get_path("scripts", "venv", base), "python")

    def without(self, guard: Guard) -> Ran:
        """Its tests, with the guard broken."""
        if any(standing(one, self.root) != 1 for one in guard.breaks):
            return Ran(Verdict.LOST, (), 0.0)
        with self._broken(guard.breaks):
            return self.run(guard.tests, "-x")

    @contextmanager
    def _broken(self, breaks: Sequence[Break]) -> Generator[None]:
        whole = {one.file: (self.root / one.file).read_text(encoding="utf-8") for one in breaks}
        try:
            for one in breaks:
                self._write(
                    one.file,
                    (self.root / one.file)
                    .read_text(encoding="utf-8")
                    .replace(one.text, one.broken),
                )
            yield
        finally:
            for file, text in whole.items():
                self._write(file, text)

    def _write(self, name: str, text: str) -> None:
        """With a time of its own: compiled modules are told apart by size and second."""
        file, at = self.root / name, next(_times)
        file.write_text(text, encoding="utf-8")
        os.utime(file, (at, at))

    def run(self, tests: Sequence[str], *options: str, within_s: float = MOST_S) -> Ran:
        begun = time.monotonic()
        self._report.unlink(missing_ok=True)
        command = (
            str(self._python),
            "-m",
            "pytest",
            "-n0",
            "--timeout=30",
            "-p",
            "no:cacheprovider",
            f"--junitxml={self._report}",
            *options,
            *tests,
        )
        process = subprocess.Popen(
            command,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        with process:
            try:
                said, _ = process.communicate(timeout=within_s)
            except subprocess.TimeoutExpired:
                said = b"they were ended after %.0f s" % within_s
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        return self._read(
            process.returncode, said.decode("utf-8", "replace"), time.monotonic() - begun
        )

    def _read(self, code: int, said: str, took_s: float) -> Ran:
        """By the exit code: 0 where nothing failed, 1 where tests did, and otherwise where it could
        not run them.
        """
        if code not in (0, 1) or not self._report.exists():
            return Ran(Verdict.TROUBLE, (), took_s, said)
        cases = list(ElementTree.parse(self._report).iter("testcase"))
        red = [
            f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
            for case in cases
            if _has(case, "failure", "error")
        ]
        if red:
            return Ran(Verdict.RED, red, took_s, said)
        return Ran(
            Verdict.SKIPPED if all(_has(case, "skipped") for case in cases) else Verdict.GREEN,
            (),
            took_s,
            said,
        )


def _has(case: ElementTree.Element, *names: str) -> bool:
    return any(case.find(name) is not None for name in names)
