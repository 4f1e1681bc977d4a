"""Commands of a line in the small language, provided that two parsers agree on them: language.py,
and bash's grammar (syntax.py). Entry point: `agreed`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from treadle.policy.shell.language import read_line
from treadle.policy.shell.options import names
from treadle.policy.shell.plain_line import OutsideLanguage, PlainCommand, PlainLine, PlainWord
from treadle.policy.shell.script import ParsedCommand, Redirect, Script
from treadle.policy.shell.words import ShellWord, read_word

if TYPE_CHECKING:
    from tree_sitter import Node


class Differ(Exception):
    """Raised if the two parsers find different words or operators."""


def agreed(text: str, script: Script, home: str) -> list[ParsedCommand] | OutsideLanguage:
    """Return the commands of `text`, or the reason why it is outside the language. Raises Differ.

    `script`: `text` as parsed by the grammar.
    """
    line = read_line(text, home)
    if isinstance(line, OutsideLanguage):
        return line
    if script.root is None or script.problems or not _is_read_alike(line, text, script.root):
        raise Differ
    commands: list[ParsedCommand] = []
    for plain in line.commands:
        command = _command(plain, text, home)
        if plain.is_fed:
            command.fed_by, commands[-1].feeds = commands[-1], True
        commands.append(command)
    return commands


def _command(plain: PlainCommand, text: str, home: str) -> ParsedCommand:
    return ParsedCommand(
        [_word(word, text, home) for word in plain.words],
        redirects=[Redirect("<", _word(word, text, home)) for word in plain.reads],
    )


def _word(word: PlainWord, text: str, home: str) -> ShellWord:
    other = read_word(text[word.start : word.end], home)
    if other.value != word.value or not other.is_literal or other.has_glob != bool(word.wild):
        raise Differ
    return ShellWord(word.value, word.is_exact, bool(word.wild), word.wild)


_WORDS = names(
    "word string raw_string concatenation number test_operator simple_expansion expansion"
)
"""Needed by: `ls` (allow)."""
_PARTS = names(
    "program list pipeline command command_name redirected_statement file_redirect test_command "
    "unary_expression binary_expression file_descriptor"
)
"""Needed by: `ls | wc -l` (allow)."""


def _is_read_alike(line: PlainLine, text: str, root: Node) -> bool:
    """Return True if the syntax tree `root` has exactly the words and operators of `line`, and the
    same words in each command.
    """
    at = (
        [0, *accumulate(len(c.encode(errors="surrogatepass")) for c in text)]
        if not text.isascii()
        else range(len(text) + 1)
    )
    commands: list[list[tuple[int, int]]] = []
    tokens: list[tuple[int, int, bool]] = []
    for node, is_word in _tokens(root, commands):
        if node is None:
            return False
        tokens.append((node.start_byte, node.end_byte, is_word))
    if [(at[token.start], at[token.end]) for token in line.tokens] != [
        (start, end) for start, end, _ in tokens
    ]:
        return False
    return commands == [
        [(at[word.start], at[word.end]) for word in command.words] for command in line.commands
    ]


def _tokens(
    node: Node, commands: list[list[tuple[int, int]]]
) -> Iterator[tuple[Node | None, bool]]:
    """Yield the leaves below `node`, in order, and True for a word; None for a leaf that is not in
    the language. Adds the words of each command to `commands`.
    """
    if node.type in ("command", "test_command"):
        commands.append([])
    in_test = node.type in ("test_command", "unary_expression", "binary_expression")
    for child in node.children:
        if child.type in _WORDS or (child.type == "file_descriptor"):
            is_word = child.type != "file_descriptor"
            if (
                node.type
                in (
                    "command",
                    "command_name",
                    "test_command",
                    "unary_expression",
                    "binary_expression",
                )
                and is_word
            ):
                commands[-1].append((child.start_byte, child.end_byte))
            yield child, is_word
        elif child.type in _PARTS:
            yield from _tokens(child, commands)
        elif child.is_named or child.child_count:
            yield None, False
        elif child.type != "\n":
            if in_test:
                commands[-1].append((child.start_byte, child.end_byte))
            yield child, in_test
