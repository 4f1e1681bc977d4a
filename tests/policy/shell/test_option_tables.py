"""The tables of options say what the programs' own parsers say: each program is asked for the table
that it gives to getopt.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.policy.decision import FindingKind
from treadle.policy.shell.filters import SED
from treadle.policy.shell.options import Options
from treadle.policy.shell.programs import PROGRAMS
from treadle.policy.shell.wrappers import WRAPPERS

SOURCE = Path(__file__).parent / "getopt_noted.c"
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("cc") is None,
    reason="needs Linux and a C compiler",
)

WITHOUT_GETOPT = {
    "echo": "a builtin",
    "printf": "a builtin",
    "type": "a builtin",
    "exit": "a builtin",
    ":": "a builtin",
    "true": "a builtin",
    "false": "a builtin",
    "which": "a script: getopts a, which reads -a and -s",
    "rg": "reads letters and names as getopt does, without abbreviations",
    "jq": "letters in clusters, names without '='; no option with a value but --indent, whose value is the next word",
    "xxd": "words that begin with a letter; only letters alone are in the table",
    "tree": "letters in clusters, a value is the next word; none of the names in the table has one",
    "getconf": "words by itself: -a, -v SPEC",
    "locale": "argp, which reads as getopt does",
    "ps": "three kinds of options; runs contained only",
    "cal": "getopt; often not installed",
}
"""Programs that do not hand a table to getopt, with how they read their options."""
TABLES = {
    **{
        name: program.options
        for name, program in PROGRAMS.items()
        if not program.takes_anything and name not in WITHOUT_GETOPT
    },
    "sed": SED,
    "timeout": WRAPPERS["timeout"].options,
    "nice": WRAPPERS["nice"].options,
}


@pytest.fixture(scope="module")
def noting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("getopt") / "noting.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", str(library), str(SOURCE)], check=True, timeout=200
    )
    return library


def own_table(program: str, noting: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Letters and names, each with "" for a flag, "=" for a value, "?" for one that may be glued to
    it.
    """
    done = subprocess.run(
        [program, "--no-such-option"],
        env={"LD_PRELOAD": str(noting), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    letters, *long = done.stdout.rstrip("\n").split("\t")
    marks = {"": "", ":": "=", "::": "?"}
    short = {
        found[1]: marks[found[2]] for found in re.finditer(r"([^:])(:{0,2})", letters.lstrip("+-"))
    }
    return short, {name.rstrip("=?"): name[len(name.rstrip("=?")) :] for name in long}


def wrong(table: Options, short: dict[str, str], long: dict[str, str]) -> list[str]:
    """Options that the program has and that take their values otherwise than the table says."""
    ours = {
        **dict.fromkeys(table.short, ""),
        **dict.fromkeys(table.short_values + table.short_paths, "="),
        **dict.fromkeys(table.glued, "?"),
    }
    named = {
        name.rstrip("=:"): "=" if name.endswith(("=", ":")) else "" for name in table.long.split()
    }
    letters = [f"-{letter}" for letter, mark in ours.items() if short.get(letter) != mark]
    return letters + [
        f"--{name}"
        for name, mark in named.items()
        if name in long and (long[name] == "=") != (mark == "=")
    ]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_says_what_the_program_itself_says(name: str, noting: Path) -> None:
    program = shutil.which(name, path="/usr/bin:/bin")
    if program is None:
        pytest.skip(f"{name} is not installed")
    short, long = own_table(program, noting)
    assert short or long, f"{name} asks no getopt: say in WITHOUT_GETOPT how it reads its options"
    assert wrong(TABLES[name], short, long) == []


def test_what_has_no_such_table_says_why() -> None:
    assert {name for name in WITHOUT_GETOPT if name not in PROGRAMS} == set()
    assert all(
        PROGRAMS[name].kind is FindingKind.HELD
        for name, why in WITHOUT_GETOPT.items()
        if "contained only" in why
    )
