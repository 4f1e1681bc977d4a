"""The tables of the shell judge, and the cases that need them: each table is emptied, or robbed of
one row, in memory, and the cases are decided again.

`python -m tests.policy.shell.tables [--rows] [TABLE …]` prints, for each table, how many cases get
another verdict without it, or another reason only; with `--rows`, the rows and options that no case
needs. Entry points: `tables`, `Needs`.
"""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import re
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, cast
from unittest import mock

from tests.oracle.lines import tables as strings_of_tests
from tests.policy.shell import corpus, test_hiding, test_judge
from treadle.config.rules import Rules
from treadle.policy import shell
from treadle.policy.decision import MODES, settle
from treadle.policy.permissions import Permissions
from treadle.policy.policy import reach_of
from treadle.policy.shell.judge import judge
from treadle.policy.shell.options import Options
from treadle.types import Mode

HOME = "/home/ada"
MODULES: dict[str, ModuleType] = {
    found.name: importlib.import_module(f"{shell.__name__}.{found.name}")
    for found in pkgutil.iter_modules(shell.__path__)
}


class Case(NamedTuple):
    line: str
    rules: Rules = Rules()


class Mark(NamedTuple):
    """A case in a table's docstring, and what is decided about it."""

    case: Case
    mode: Mode
    verdicts: tuple[str, ...]
    why: str


class Row(NamedTuple):
    """A row of a table, or an option in one."""

    label: str
    words: tuple[str, ...] = ()
    """A line that needs the row has these words."""
    without: Callable[[], AbstractContextManager[None]] = nullcontext


class Table(NamedTuple):
    module: str
    name: str
    value: Any
    docstring: str

    @property
    def rows(self) -> dict[str, Any] | None:
        return cast("dict[str, Any]", self.value) if type(self.value) is dict else None

    @property
    def label(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def marks(self) -> list[str]:
        """The cases in the docstring. `ROW` stands for each row."""
        return _MARK.findall(" ".join(self.docstring.split()).partition("Needed by: ")[2])


_RULE = r"(?:, (?:allow|ask|deny) `[^`]+`)"
_MARK = re.compile(rf"`[^`]+` \([^()`]+{_RULE}*(?:, \"[^\"]+\")?\)")
_PARTS = re.compile(
    r"`(?P<line>[^`]+)` \((?P<verdicts>[a-z ]+?)(?: in mode (?P<mode>[a-z-]+))?"
    rf"(?P<rules>{_RULE}*)(?:, \"(?P<why>[^\"]+)\")?\)"
)


def read(mark: str, row: str = "") -> Mark:
    """Read a mark, such as "`rm -r /ROW` (deny in mode full)", for a row."""
    found = _PARTS.fullmatch(mark)
    assert found is not None, mark

    def filled(text: str) -> str:
        return text.replace("ROW", row).replace("\\n", "\n")

    given: dict[str, list[str]] = {"allow": [], "ask": [], "deny": []}
    for effect, rule in re.findall(r", (allow|ask|deny) `([^`]+)`", found["rules"]):
        given[effect].append(filled(rule))
    case = Case(filled(found["line"]), Rules.read(**given))
    verdicts = tuple(found["verdicts"].split(" or "))
    return Mark(case, cast("Mode", found["mode"] or "ask"), verdicts, filled(found["why"] or ""))


@cache
def tables() -> list[Table]:
    """Every module-level collection or set of options of the shell judge, as its source has it."""
    found: list[Table] = []
    for name, module in MODULES.items():
        body = ast.parse(Path(str(module.__file__)).read_text()).body
        for node, following in zip(body, [*body[1:], None], strict=True):
            match node:
                case ast.Assign(targets=[*targets]):
                    assigned = targets[0]
                case ast.AnnAssign(target=assigned):
                    pass
                case _:
                    continue
            value = getattr(module, ast.unparse(assigned), None)
            if type(value) not in (frozenset, set, dict, tuple, Options) or not _rows_in(value):
                continue
            match following:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    docstring = text
                case _:
                    docstring = ""
            found.append(Table(name, ast.unparse(assigned), value, docstring))
    return found


# ---------------------------------------------------------------- without a table, or a row


def _rows_in(value: Any) -> list[Any]:
    if isinstance(value, Options):
        return [each for field in fields(value) for each in _options(getattr(value, field.name))]
    rows = list(cast("Iterable[Any]", value))
    return [row for row in rows if not isinstance(row, int)]  # str.maketrans is no table


def _options(value: Any) -> list[str]:
    return (value.split() if " " in value else list(value)) if isinstance(value, str) else []


@contextmanager
def without(table: Table) -> Generator[None]:
    """The judge with an empty table. Rows of another table that come from it are gone, too."""
    with ExitStack() as stack:
        if table.rows is not None:
            values = [value for value in table.rows.values() if is_dataclass(value)]
            for other in tables_of_rows():
                stack.callback(_restored, other, dict(other))
                for key, value in list(other.items()):
                    if other is table.rows or any(value is mine for mine in values):
                        del other[key]
        elif isinstance(table.value, Options):
            for field in fields(table.value):
                stack.enter_context(_set(table.value, field.name, field.default))
        else:
            stack.enter_context(_instead(table.value, type(table.value)()))
        yield


def tables_of_rows() -> list[dict[str, Any]]:
    return [table.rows for table in tables() if table.rows is not None]


def _restored(old: dict[str, Any], rows: Mapping[str, Any]) -> None:
    old.clear()
    old.update(rows)


@contextmanager
def _set(options: Any, name: str, value: Any) -> Generator[None]:
    before = getattr(options, name)
    object.__setattr__(options, name, value)
    try:
        yield
    finally:
        object.__setattr__(options, name, before)


@contextmanager
def _instead(old: Any, new: Any) -> Generator[None]:
    """Put `new` wherever the judge's modules and tables have `old`."""
    names = [
        (space, name)
        for space in (*(vars(module) for module in MODULES.values()), *tables_of_rows())
        for name, value in space.items()
        if value is old
    ]
    for space, name in names:
        space[name] = new
    try:
        yield
    finally:
        for space, name in names:
            space[name] = old


@contextmanager
def _without_row(rows: dict[str, Any], key: str) -> Generator[None]:
    before = dict(rows)
    del rows[key]
    try:
        yield
    finally:
        _restored(rows, before)


def rows_of(table: Table, *, options: bool = False) -> Iterator[Row]:
    """Yield the rows of a table; with `options`, also the options in each."""
    if table.rows is not None:
        for key, value in list(table.rows.items()):
            yield Row(key, (key,), partial(_without_row, table.rows, key))
            if options and isinstance(found := getattr(value, "options", None), Options):
                yield from _rows_of_options(found, key)
    elif isinstance(table.value, Options):
        yield from _rows_of_options(table.value, "")
    else:
        rows = cast("tuple[Any, ...]", table.value)
        for row in rows:
            rest = type(rows)(each for each in rows if each != row)
            yield Row(
                str(row), (row,) if isinstance(row, str) else (), partial(_instead, rows, rest)
            )


def _rows_of_options(options: Options, program: str) -> Iterator[Row]:
    for field in fields(options):
        value = getattr(options, field.name)
        for option in _options(value):
            rest = value.replace(option, "") if " " not in value else _but(value, option)
            words = (program, option.rstrip("=:"))
            yield Row(f"{program} {option}", words, partial(_set, options, field.name, rest))


def _but(names: str, name: str) -> str:
    return " ".join(each for each in names.split() if each != name)


# ---------------------------------------------------------------- cases


def cases() -> list[Case]:
    """The lines of the project's own tests, of the marks, and of the corpus beside the checkout."""

    def lines(text: str | Iterable[str]) -> Iterable[str]:
        return text.split("\n") if isinstance(text, str) else text

    own = [
        *((text, Rules()) for text in (*strings_of_tests(), *test_judge.HELD)),
        *((text, Rules.read(allow=test_judge.RULES)) for text in lines(test_judge.WITHIN)),
        *((text, Rules.read(allow=test_judge.RULES)) for text in lines(test_judge.BEYOND)),
        *((text, Rules.read(allow=(text.split()[0],))) for text in lines(test_judge.NO_MORE)),
        *((text, Rules.read(deny=(rule,))) for text, rule in test_judge.SPELLINGS.items()),
        *((text, Rules.read(deny=("rm",))) for text in test_hiding.REMOVE),
        *((text, Rules.read(deny=("git push",))) for text in test_hiding.PUSH),
        *((text, Rules.read(deny=("write(prod/**)",))) for text in test_hiding.WRITES),
        *((text, Rules.read(deny=("read(private/**)",))) for text in test_hiding.READS),
        *(
            read(mark, row.label).case
            for table in tables()
            for mark in table.marks
            for row in (rows_of(table) if "ROW" in mark else [Row("")])
        ),
        *(
            (case["input"], Rules.read(allow=case.get("rules", ()), deny=case.get("deny", ())))
            for case in corpus.cases("shell")
        ),
    ]
    return [Case(*each) for each in own if len(each[0]) < 2_000]


class Decided(NamedTuple):
    verdicts: tuple[str, ...]
    """One for each mode."""
    reasons: tuple[str, ...]


class Needs:
    """Decides the cases in one workspace."""

    def __init__(self, top: Path) -> None:
        self._place = corpus.workspace(top)
        (self._place / ".env").write_text("KEY=1")
        for folder in ("private", "prod"):
            (self._place / folder).mkdir()
            (self._place / folder / "y").write_text("y\n")
        (top / "bin").mkdir()
        (top / "bin/busybox").write_text("#!/bin/sh")
        (top / "bin/busybox").chmod(0o755)
        (top / "bin/rev").symlink_to("busybox")
        self._path = f"{top / 'bin'}:{os.environ['PATH']}"

    def decided(self, case: Case) -> Decided:
        reach = reach_of(self._place, Permissions(rules=case.rules, home=HOME))
        try:
            with mock.patch.dict(os.environ, PATH=self._path):
                found = judge(case.line, reach)
        except Exception as e:
            return Decided((), (repr(e),))
        all_found = found.all()
        return Decided(
            tuple(settle(all_found, mode).verdict for mode in MODES),
            (
                *dict.fromkeys(each.why for each in all_found),
                *(f"a rule for {rule!r} would allow it" for rule in found.patterns or ()),
            ),
        )

    def holds(self, mark: Mark) -> bool:
        found = self.decided(mark.case)
        verdict = dict(zip(MODES, found.verdicts, strict=False)).get(mark.mode)
        return verdict in mark.verdicts and any(mark.why in why for why in found.reasons or ("",))

    def needs(self, mark: Mark, without: Callable[[], AbstractContextManager[None]]) -> bool:
        """Return True if the case is decided as the mark says, and in another way `without`
        something.
        """
        before, holds = self.decided(mark.case), self.holds(mark)
        with without():
            return holds and self.decided(mark.case) != before

    def changed(
        self, those: Iterable[tuple[Case, Decided]], is_other: Callable[[Decided, Decided], bool]
    ) -> list[Case]:
        return [case for case, before in those if is_other(before, self.decided(case))]


def is_other_verdict(before: Decided, now: Decided) -> bool:
    return before.verdicts != now.verdicts


def is_other(before: Decided, now: Decided) -> bool:
    return before != now


_QUOTES = str.maketrans("", "", "'\"\\")


def main(arguments: list[str]) -> None:
    wanted = [word for word in arguments if not word.startswith("--")]
    with tempfile.TemporaryDirectory() as folder:
        needs = Needs(Path(folder))
        known = [(case, needs.decided(case)) for case in cases()]
        bare = [(case.line.translate(_QUOTES), case, before) for case, before in known]
        for table in tables():
            if wanted and not any(word in table.label for word in wanted):
                continue
            if "--rows" not in arguments:
                with without(table):
                    verdicts = needs.changed(known, is_other_verdict)
                    reasons = [] if verdicts else needs.changed(known, is_other)
                first = sorted(verdicts or reasons, key=lambda case: len(case.line))[:3]
                shown = [(case.line, [rule.text for rule in case.rules.deny]) for case in first]
                print(f"{table.label}: {len(verdicts)} verdicts, {len(reasons)} reasons: {shown}")
                continue
            unneeded: dict[str, None] = {}
            for row in rows_of(table, options=True):
                near = [
                    (case, before)
                    for line, case, before in bare
                    if all(word in line for word in row.words)
                ]
                with row.without():
                    needed = needs.changed(near, is_other)
                if not needed:
                    unneeded[row.label] = None
            print(f"{table.label}: no case needs {', '.join(unneeded) or 'none'}")


if __name__ == "__main__":
    main(sys.argv[1:])
