"""A place to try escapes in, a sandbox that can be weakened, and what runs commands in it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.policy.sandboxes.leftovers import tried
from tests.policy.sandboxes.planting import Leave
from treadle.policy.sandboxes.bubblewrap import Bubblewrap, Protection
from treadle.policy.sandboxes.control_files import ControlFiles
from treadle.policy.sandboxes.mounts import MountView
from treadle.tools.confinement import CommandRoom

BWRAP = shutil.which("bwrap") or ""
needs_bubblewrap = pytest.mark.skipif(
    not BWRAP or not sys.platform.startswith("linux"), reason="bubblewrap is not installed"
)
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can become somebody else, and needs these protections"
)

INSTEAD = {"read-only disk": ["--bind", "/", "/"], "few devices": ["--dev-bind", "/dev", "/dev"]}
"""Without these there would be no disk and no devices at all."""


def _instead(protection: Protection) -> Sequence[str]:
    if protection.name == "read-only workspace":
        return [word.replace("--ro-bind", "--bind") for word in protection.arguments]
    return INSTEAD.get(protection.name, [])


class Weakened(Bubblewrap):
    """Bubblewrap without some of its protections."""

    without: Collection[str] = ()

    def protections(self, room: CommandRoom, view: MountView) -> list[Protection]:
        all_of_them = super().protections(room, view)
        return [
            p if p.name not in self.without else p._replace(arguments=_instead(p))
            for p in all_of_them
        ]

    def system_calls(self, room: CommandRoom) -> bytes:
        return b"" if "system calls" in self.without else super().system_calls(room)

    def twin(self, **other: Any) -> Weakened:
        twin = super().twin(**other)
        twin.without = self.without
        return twin


@pytest.fixture
def sandbox() -> Weakened:
    return tried(Weakened(BWRAP))


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder outside the temporary ones, which the sandbox replaces."""
    place = Path(
        tempfile.mkdtemp(
            prefix=".treadle-test-", dir="/var/lib" if os.geteuid() == 0 else Path.home()
        )
    )
    yield place
    shutil.rmtree(place)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "away").mkdir()
    return tmp_path / "work"


@pytest.fixture
def enter(work: Path) -> Callable[..., Leave]:
    """Begins a command; what it gives ends it."""

    def begin(*, is_open: bool = True) -> Leave:
        files = ControlFiles(work)
        files.enter(is_open=is_open)
        return lambda: files.leave(lambda: work.parent / "away", is_open=is_open)

    return begin
