"""The guards that are broken on purpose, as guards.toml lists them.

See also: breaking them (trial.py). Entry: `guards`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("guards.toml")


class Break(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One change of one file that takes a guard away."""

    file: str
    """Below the root of the repository."""
    text: str
    """Stands there exactly once."""
    broken: str
    """What stands there without the guard: still a program, as short a change as possible."""


class Guard(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that must hold, and the tests that must see it go."""

    name: str
    """One sentence: what holds as long as it stands."""
    file: str
    text: str
    broken: str
    tests: tuple[str, ...]
    """Node ids, fast ones, of which at least one turns red."""
    also: tuple[Break, ...] = ()
    """What guards the same a second time, and is broken together with it."""

    @property
    def breaks(self) -> tuple[Break, ...]:
        return (Break(file=self.file, text=self.text, broken=self.broken), *self.also)


class _List(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    guard: tuple[Guard, ...]


def guards(only: str = "") -> tuple[Guard, ...]:
    """Those whose name or file holds `only`, in the order of the list.

    Raises msgspec.ValidationError for a list that is none.
    """
    listed = msgspec.toml.decode(LIST.read_bytes(), type=_List).guard
    return tuple(guard for guard in listed if only in guard.name or only in guard.file)


def standing(broken: Break, root: Path) -> int:
    """How often its text stands in its file; 0 also where there is no such file."""
    file = root / broken.file
    return file.read_text(encoding="utf-8").count(broken.text) if file.is_file() else 0


def text_of_tests(file: Path) -> str:
    """The text of a test module, with the contracts whose tests it imports."""
    text = file.read_text(encoding="utf-8")
    if "from treadle.apps.testing.contracts." not in text:
        return text
    folder = ROOT / "src" / "treadle" / "apps" / "testing" / "contracts"
    return text + "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
