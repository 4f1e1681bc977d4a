"""What the parser finds is what bash runs: random command lines, run by bash with no program on its
PATH, so that each is only noted down.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.profiles import BY_CHANCE
from treadle.policy.shell.lexical import SPLICED, invisible_in
from treadle.policy.shell.script import Script
from treadle.policy.shell.syntax import parse

BASH = shutil.which("bash")
pytestmark = pytest.mark.skipif(
    BASH is None or not os.path.exists("/proc/self/fd"),
    reason="needs bash and descriptors to inherit",
)

NOTED = r"""command_not_found_handle() { local r; printf -v r '%s\x01' RUN "$@"; printf '%s\x02' "${r//$'\n'/$'\x03'}" >&9; return $((RANDOM % 2)); }
"""
SHAPES = [
    *(
        "p a",
        'q "b c"',
        "r 'd'",
        "p >f1 x",
        "q <f0 y",
        "r 2>&1 z",
        "p <<X\nh\nX\n",
        "q <<'X' w\n$(r)\nX\n",
        "p <<< s t",
        "! p u",
        "{ p v; }",
        "(q w)",
    ),
    *(
        "if p; then q; fi",
        "p \\\n k",
        "p # c\n",
        "p 'a\nb'",
        "p a\\;b",
        "p >f2 a >f3 b",
        ">f1 p",
        "2>f1 p a",
        "p a&>f1",
        "p -x --y=z",
        "p - b=~ c",
    ),
]
BETWEEN = [";", " && ", " || ", "|", "\n", " ; ", "&&", "||\n"]
PIECES = [
    *(
        "p",
        "q",
        " ",
        "\n",
        ";",
        "&&",
        "||",
        "|",
        "&",
        "(",
        ")",
        "{ ",
        "; }",
        "{",
        "}",
        "<",
        ">",
        ">>",
        ">|",
        "2>",
        ">&",
        "&>",
        "<&",
        "1",
        "a",
        "f1",
        "'",
        '"',
        "\\",
    ),
    *(
        "$",
        "`",
        "#",
        "!",
        "=",
        "x=1",
        "<<X\n",
        "\nX\n",
        "<<<",
        "[",
        "[[",
        "]",
        "~",
        "-",
        "\t",
        "if ",
        "fi",
        ";;",
        "2>&1",
        "\\\n",
        "{a,b}",
        "@",
        "()",
        "a=(",
        ">&-",
        "{fd}>",
    ),
]


def line(chance: random.Random) -> str:
    if chance.random() < 0.3:
        return "".join(chance.choice(PIECES) for _ in range(chance.randint(1, 9)))
    text = ""
    for i in range(chance.randint(1, 4)):
        shape = chance.choice(SHAPES)
        if chance.random() < 0.3:
            at = chance.randint(0, len(shape))
            shape = shape[:at] + chance.choice(PIECES) + shape[at:]
        text += (chance.choice(BETWEEN) if i else "") + shape
    return text


def is_understood(script: Script, text: str) -> bool:
    """Where the parser has the least doubt, the policy asks, and it need not be right."""
    if script.problems or not script.is_whole or SPLICED.search(text) or invisible_in(text):
        return False
    return all(word.is_fixed for command in script.commands for word in command.words) and not any(
        command.assignments for command in script.commands
    )


def run_by_bash(text: str, folder: Path) -> tuple[list[tuple[str, ...]], set[str]]:
    """The commands that it ran, and the files that it made."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "f0").write_text("x\n")
    noted = folder.parent / "noted"
    noted.write_bytes(b"")
    assert BASH is not None
    with noted.open("ab") as file:
        subprocess.run(
            [BASH, "-c", f"exec 9>&{file.fileno()} {file.fileno()}>&-; {NOTED}{text}"],
            cwd=folder,
            env={"PATH": "/nonexistent", "HOME": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[file.fileno()],
            timeout=10,
            check=False,
        )
    runs = [
        record.split(b"\1")
        for record in noted.read_bytes().split(b"\2")
        if record.startswith(b"RUN\1")
    ]
    return [tuple(word.replace(b"\3", b"\n").decode() for word in run[1:-1]) for run in runs], {
        entry.name for entry in folder.iterdir()
    } - {"f0"}


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[*BY_CHANCE, HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32))
def test_every_command_that_bash_runs_was_found(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    text = line(chance)
    script = parse(text, str(tmp_path / "work"))
    if not is_understood(script, text):
        return
    found = {tuple(command.argv) for command in script.commands}
    targets = {
        os.path.normpath(r.target.value)
        for c in script.commands
        for r in c.redirects
        if r.operator not in ("<", "<<", "<<<")
    }
    runs, files = run_by_bash(text, tmp_path / "work")
    assert [run for run in runs if run not in found] == [], text
    assert files <= targets or any(
        not r.target.is_literal for c in script.commands for r in c.redirects
    ), text


KNOWN = {
    "an argument behind the target of a redirect": ("p > f1 x", [("p", "x")]),
    "a word behind a closed descriptor": ("p >&- x", [("p", "x")]),
    "a line that begins with an escaped break": ("p \n\\\n q", None),
    "an escaped blank": ("p \\\n\\ x", None),
    "a delimiter with something behind it": ("p <<X\nX<<Y\n$(q)\nX\n", None),
    "a second here-document on the line": ("p <<X <<Y\na\nX\nb\nY\n", None),
    "a number beside a redirect": ("p 0<<<x", None),
    "a named descriptor": ("p {f}> f1", None),
    "a dollar and a blank": ("p <<<$ s t", None),
    "a bracket that is a word": ("[b] c", None),
    "quotes that follow one another": ("p 'a'\"b\"c", [("p", "abc")]),
    "a minus beside a here-document": ("p -<<X\nh\nX\n", None),
    "a tilde in an argument that looks like an assignment": ("p of=~/x", None),
}


@pytest.mark.parametrize(("text", "commands"), KNOWN.values(), ids=KNOWN)
def test_what_the_grammar_sees_otherwise_than_bash_is_seen_rightly_or_doubted(
    text: str, commands: list[tuple[str, ...]] | None
) -> None:
    script = parse(text, "/home/ada")
    if commands is None:
        assert not is_understood(script, text)
    else:
        assert [tuple(command.argv) for command in script.commands] == commands
