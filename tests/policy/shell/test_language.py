"""The small command language: what is in it, what is not, and that bash reads each line of it as we
do.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.policy.shell.test_against_bash import run_by_bash
from tests.profiles import BY_CHANCE
from treadle.policy.shell.agreement import Differ, agreed
from treadle.policy.shell.globs import expand
from treadle.policy.shell.language import MAX_CHARS, MAX_COMMANDS, read_line
from treadle.policy.shell.plain_line import OutsideLanguage
from treadle.policy.shell.script import ParsedCommand
from treadle.policy.shell.syntax import parse

HOME = "/home/ada"
needs_bash = pytest.mark.skipif(
    shutil.which("bash") is None or not os.path.exists("/proc/self/fd"),
    reason="needs bash and descriptors to inherit",
)


def commands(text: str) -> list[list[str]] | None:
    """The words of each command; None where the line is outside the language or read in two ways."""
    try:
        found = agreed(text, parse(text, HOME), HOME)
    except Differ:
        return None
    return None if isinstance(found, OutsideLanguage) else [command.argv for command in found]


INSIDE: dict[str, list[list[str]]] = {
    "ls -la": [["ls", "-la"]],
    "ls|wc -l": [["ls"], ["wc", "-l"]],
    "a && b || c ; d\ne": [["a"], ["b"], ["c"], ["d"], ["e"]],
    "a;\nb\n\n": [["a"], ["b"]],
    "a 'b c' \"d e\" f\\ g": [["a", "b c", "d e", "f g"]],
    "a 'b'\"c\"d": [["a", "bcd"]],
    'a "\\$x \\` \\" \\\\ \\n"': [["a", '$x ` " \\ \\n']],
    'a "x$" "y$ z"': [["a", "x$", "y$ z"]],
    'a "$HOME/x" ~/y ~': [["a", "/home/ada/x", "/home/ada/y", "/home/ada"]],
    "a *.py ?x": [["a", "*.py", "?x"]],
    "a 2>/dev/null >&2 2>&1 &>/dev/null < b": [["a"]],
    "[ -f a ]": [["[", "-f", "a", "]"]],
    "a ! b": [["a", "!", "b"]],
    "a 'zażółć' größe": [["a", "zażółć", "größe"]],
    "a --x=y,z @+%:.-_/": [["a", "--x=y,z", "@+%:.-_/"]],
}


@pytest.mark.parametrize(("text", "words"), INSIDE.items())
def test_a_line_of_the_language_is_read_word_by_word(text: str, words: list[list[str]]) -> None:
    assert commands(text) == words


OUTSIDE = r"""
a # b
a #
[ a ]#; b
{ a;}#; b;}
a `b`
a $(b)
a $x
a ${x}
a "$x"
a "$(b)"
a "`b`"
a $'\x41'
a $"b"
a $((1))
a <(b)
a > b
a >> /dev/null
a >| /dev/null
a > /dev/null/x
a 3>/dev/null
a >&3
a >&b
a<b
a>/dev/null
a2>/dev/null
a <<X
a <<< b
a {b,c}
a {}
a [bc]
a [^b]
a ~x
a b~
a x=~/y
a \
a b\c
a &
a & b
a |& b
a;; b
a &&
| a
! a
(a)
{ a; }
if a; then b; fi
time a
coproc a
[[ -f a ]]
[ a
[ a > b ]
[ a ]b
x=1
x=1 a
x+=1 a
'a' b
"a"
\a
a* b
$a
2>/dev/null a
a 2>/dev/null b
""".strip("\n").split("\n")


@pytest.mark.parametrize(
    "text",
    [
        *OUTSIDE,
        "",
        " ",
        "a\\\nb",
        "a 'b\nc'",
        'a "b\nc"',
        "a\rb",
        "a\u00a0b",
        "a 'b\u200bc'",
        "a\0",
        "a '\x1b'",
        "a é\\|b",
        "f() { a; }",
    ],
)
def test_any_other_line_is_outside(text: str) -> None:
    assert isinstance(read_line(text, HOME), OutsideLanguage)


def test_a_line_beyond_a_limit_is_not_read_to_its_end() -> None:
    for text in ("a " + "b" * MAX_CHARS, "a;" * (MAX_COMMANDS + 1), "a " + "b " * 500):
        found = read_line(text, HOME)
        assert isinstance(found, OutsideLanguage)
        assert found.is_beyond


def test_a_home_folder_with_odd_letters_is_not_expanded() -> None:
    for home in ("", "/home/a b", "/home/*", "/home/$x"):
        assert isinstance(read_line("ls ~", home), OutsideLanguage)
        assert isinstance(read_line('ls "$HOME"', home), OutsideLanguage)


PIECES = [
    *(
        "p",
        "q",
        "r s",
        "'a b'",
        '"c d"',
        "e\\ f",
        "\\*",
        "'*'",
        '"$"',
        '"x$"',
        '"\\$y"',
        "\\;",
        "g'h'\"i\"",
        "-x",
        "--y=z",
        "2",
        "[",
        "]",
        "!",
        "~",
        "=",
        "a=b",
        "é",
    ),
    *(
        " ",
        " ",
        " ",
        ";",
        "&&",
        "||",
        "|",
        "\n",
        " 2>/dev/null",
        " >&2",
        " 2>&1",
        " &>/dev/null",
        " < f0",
        "#",
        "\\",
        "'",
        '"',
        "$",
        "`",
        "{",
        "}",
        "(",
        ")",
    ),
    *("$?", '"$?"', "[ p ]", "<", ">", "&", "\\\n", "\t", "*", "?", "f?", "*0"),
]


@st.composite
def texts(draw: st.DrawFn) -> str:
    chance = random.Random(draw(st.integers(0, 2**32)))
    commands = [
        " ".join(["p", *(chance.choice(PIECES) for _ in range(chance.randint(0, 4)))])
        for _ in range(chance.randint(1, 3))
    ]
    text = chance.choice([";", " && ", " || ", " | ", "\n"]).join(commands)
    for _ in range(chance.choice([0, 0, 1, 2])):
        at = chance.randint(0, len(text))
        text = text[:at] + chance.choice(PIECES) + text[at + chance.randint(0, 1) :]
    return text


def given_words(command: ParsedCommand, folder: Path) -> tuple[str, ...]:
    """What bash gives to the program, patterns replaced."""
    words = [
        expand(word.value, word.wild or frozenset(), str(folder), lambda place: True)
        if word.wild
        else [word.value]
        for word in command.words
    ]
    return tuple(each for names in words for each in names)


@needs_bash
@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[*BY_CHANCE, HealthCheck.function_scoped_fixture],
)
@given(text=texts())
def test_bash_reads_each_line_of_the_language_as_we_do(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "work"
    try:
        found = agreed(text, parse(text, str(folder)), str(folder))
    except Differ:
        return
    if isinstance(found, OutsideLanguage) or any(
        not word.is_literal for command in found for word in command.words
    ):
        return
    runs, files = run_by_bash(text, folder)
    expected = [given_words(command, folder) for command in found if command.argv[0] != "["]
    assert files == set(), text
    assert [run for run in runs if run not in expected] == [], text
    if not set(text) & set("|&<"):  # each command runs, one after the other
        assert runs == expected, text
