"""Parsing of a command line into simple commands, and descriptions of all other syntax.

Uses tree-sitter with bash's grammar, within the limits of tree.py. Entry points: `parse`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from treadle.policy.shell.options import names
from treadle.policy.shell.script import ParsedCommand, Redirect, Script
from treadle.policy.shell.tree import EDGES, INSTALL, MAX_BYTES, is_covered, nodes_of, parse_tree
from treadle.policy.shell.words import ShellWord, read_word, split

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DEPTH = 60


def parse(text: str, home: str) -> Script:
    """Parse a command line. Never raises.

    The result contains every command in the tree, at any depth, or has `is_whole` False.
    """
    data = text.encode(errors="surrogatepass")
    if len(data) > MAX_BYTES:
        return Script(problems=[f"it is longer than {MAX_BYTES:,} bytes"], is_whole=False)
    try:
        tree = parse_tree(data)
    except ModuleNotFoundError as e:
        return Script(problems=[f"it cannot be parsed without {e.name}: {INSTALL}"], is_whole=False)
    if tree is None:
        return Script(problems=["it is too complex to parse in time"], is_whole=False)
    walker = _Walker(data, home)
    if tree.root_node.has_error or not is_covered(tree, data):
        walker.fail(_IN_DOUBT)
    walker.visit(tree.root_node, 0)
    walker.script.root = tree.root_node
    return walker.script


_IN_DOUBT = "it cannot be parsed with certainty"
_IN_A_LINE = re.compile(rb"(?:[ \t]|\\\n)*")
_MAKES_WORDS = re.compile(r"[$`<>{]")
_DESCRIPTOR = re.compile(rb"\{\w+\}|\d+")
_PLAIN_NODES = names(
    "program list pipeline subshell compound_statement negated_command if_statement "
    "elif_clause else_clause comment"
)
"""Needed by: `(ls)` (contained)."""
_KNOWN_NODES = names(
    'word string raw_string ansi_c_string concatenation number string_content " command_name '
    "simple_expansion expansion variable_name special_variable_name $ ${ }"
)
"""Node types that `read_word` can read. A word with any other node is not literal. Needed by: `(ls
"a.txt")` (contained).
"""
LEAVES_RUNNING = "it leaves something running"
_WORDS = {
    "function_definition": "it defines a function",
    **dict.fromkeys(
        ("for_statement", "c_style_for_statement", "while_statement", "variable_name", "do_group"),
        "it has a loop",
    ),
    "case_statement": "it has a case",
    "variable_assignment": "it sets a variable",
    "variable_assignments": "it sets variables",
    "declaration_command": "it sets or shows variables",
    "unset_command": "it unsets variables",
    "command_substitution": "it uses the output of a command as part of a word",
    "process_substitution": "it uses the output of a command as part of a word",
    "arithmetic_expansion": "arithmetic can run commands",
    "&": LEAVES_RUNNING,
}
"""Needed by: `x=1` (ask, "it sets a variable")."""


class _Walker:
    def __init__(self, data: bytes, home: str) -> None:
        self.script = Script()
        self._data, self._home = data, home
        self._function = ""
        self._heredoc_line = -1

    def fail(self, problem: str) -> None:
        self.problem(problem)
        self.script.is_whole = False

    def problem(self, text: str) -> None:
        if text not in self.script.problems:
            self.script.problems.append(text)

    def text(self, node: Node) -> str:
        data = self._data[node.start_byte : node.end_byte]
        try:
            return data.decode(errors="surrogatepass")
        except UnicodeDecodeError:  # the grammar splits words within non-ASCII characters
            self.fail(_IN_DOUBT)
            return data.decode(errors="replace")

    # ------------------------------------------------------------ structure

    def visit(self, node: Node, depth: int) -> list[ParsedCommand]:
        """Visit a node. Returns the commands at its top level, for the enclosing pipeline."""
        if depth > MAX_DEPTH:
            self.fail("it is nested too deeply")
            return []
        kind = node.type
        if kind == "command":
            return [self._command(node, depth)]
        if kind == "redirected_statement":
            return self._redirected(node, depth)
        if kind == "pipeline":
            return self._pipeline(node, depth)
        if kind == "test_command":
            self._test(node, depth)
            return []
        if kind in ("declaration_command", "unset_command"):
            self.problem(_WORDS[kind])
            words = split(self.text(node)) or []
            self.script.commands.append(
                ParsedCommand([read_word(word, self._home) for word in words])
            )
            return self._children(node, depth)
        if kind == "function_definition":
            return self._function_definition(node, depth)
        if kind == "compound_statement" and node.child_count and node.children[0].type != "{":
            self.problem("arithmetic can run commands")
        elif kind == "compound_statement" and node.named_child_count == 0:
            self.fail(_IN_DOUBT)
        elif kind not in _PLAIN_NODES and (node.is_named or kind in _WORDS):
            self.problem(_WORDS.get(kind, f"it contains unsupported syntax ({kind})"))
        return self._children(node, depth)

    def _children(self, node: Node, depth: int) -> list[ParsedCommand]:
        return [command for child in node.children for command in self.visit(child, depth + 1)]

    def _pipeline(self, node: Node, depth: int) -> list[ParsedCommand]:
        stages = [
            self.visit(child, depth + 1) for child in node.named_children if child.type != "comment"
        ]
        for left, right in pairwise(stages):
            for command in left:
                command.feeds = True
            for command in right:
                command.fed_by = left[-1] if left else ParsedCommand([])
        return [command for stage in stages for command in stage]

    def _function_definition(self, node: Node, depth: int) -> list[ParsedCommand]:
        self.problem(_WORDS["function_definition"])
        name = node.child_by_field_name("name")
        outer, self._function = self._function, self.text(name) if name else ""
        self.script.functions.add(self._function)
        found = self._children(node, depth)
        self._function = outer
        return found

    # ------------------------------------------------------------ commands

    def _command(self, node: Node, depth: int) -> ParsedCommand:
        command = ParsedCommand([], in_function=self._function)
        self.script.commands.append(command)
        self._must_be_one_line(node)
        for i, child in enumerate(node.children):
            kind = child.type
            if kind == "variable_assignment":
                self._assignment(child, command, depth)
            elif kind == "command_name":
                command.words.append(self._word(child, depth))
            elif kind in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                self._redirect(child, command, depth)
            elif node.field_name_for_child(i) == "argument":
                command.words.append(self._word(child, depth))
            else:
                self.problem(f"it contains unsupported syntax ({kind})")
                self.visit(child, depth + 1)
        if command.words and command.words[0].value in _KEYWORDS:
            self.fail(f"{command.words[0].value} begins more than a simple command")
        return command

    def _assignment(self, node: Node, command: ParsedCommand, depth: int) -> None:
        name, _, value = self.text(node).partition("=")
        command.assignments.append((name, read_word(value, self._home)))
        self._inner_commands(node, depth)

    def _word(self, node: Node, depth: int) -> ShellWord:
        word = read_word(self.text(node), self._home)
        if not self._stands_alone(node) or (
            not word.is_literal
            and not _MAKES_WORDS.search(self.text(node))
            and len(split(self.text(node)) or ()) != 1
        ):
            self.fail(_IN_DOUBT)
        if not all(inner.type in _KNOWN_NODES for inner in nodes_of(node)) or node.has_error:
            self._inner_commands(node, depth, itself=True)
            word = replace(word, is_literal=False, has_glob=False)
        return word

    def _descriptor(self, node: Node) -> str:
        text = self.text(node)
        if (
            not text.isdecimal()
            or self._data[max(node.start_byte - 1, 0) : node.start_byte] not in EDGES
        ):
            self.fail(_IN_DOUBT)
        return text

    def _must_be_one_line(self, node: Node) -> None:
        """Fail at an unescaped line break, which ends a command in bash but not in the grammar."""
        for left, right in pairwise(node.children):
            if _IN_A_LINE.fullmatch(self._data, left.end_byte, right.start_byte) is None:
                self.fail(_IN_DOUBT)

    def _stands_alone(self, node: Node) -> bool:
        """Return True if bash, too, begins and ends a word at the bounds of the node."""
        before = self._data[max(node.start_byte - 1, 0) : node.start_byte]
        after = self._data[node.end_byte : node.end_byte + 1]
        names_a_descriptor = (
            after in (b"<", b">")
            and _DESCRIPTOR.fullmatch(self._data, node.start_byte, node.end_byte) is not None
        )
        return before in EDGES and after in EDGES and not names_a_descriptor

    def _inner_commands(self, node: Node, depth: int, *, itself: bool = False) -> None:
        """Visit the commands in substitutions inside a word."""
        if depth > MAX_DEPTH:
            self.fail("it is nested too deeply")
            return
        for child in [node] if itself else node.children:
            if child.type in ("command_substitution", "process_substitution"):
                self.visit(child, depth + 1)
            else:
                self._inner_commands(child, depth + 1)

    # ------------------------------------------------------------ redirects

    def _redirected(self, node: Node, depth: int) -> list[ParsedCommand]:
        found: list[ParsedCommand] = []
        self._must_be_one_line(node)
        holder = ParsedCommand([], in_function=self._function)
        for child in node.children:
            if child.type.endswith("_redirect"):
                self._redirect(child, holder, depth)
            else:
                found += self.visit(child, depth + 1)
        if found:
            target = found[-1]
            target.words += holder.words
            target.redirects += holder.redirects
            target.body = holder.body if holder.body is not None else target.body
        elif holder.redirects or holder.words:
            self.script.commands.append(holder)
        return found

    def _redirect(self, node: Node, command: ParsedCommand, depth: int) -> None:
        if node.type == "heredoc_redirect":
            self._heredoc(node, command, depth)
            return
        operator, descriptor, targets = "", "", list[ShellWord]()
        self._must_be_one_line(node)
        for child in node.children:
            if child.type == "file_descriptor":
                descriptor = self._descriptor(child)
            elif child.is_named:
                targets.append(self._word(child, depth))
            elif operator:
                self.fail(_IN_DOUBT)
            else:
                operator = child.type
        if operator in (">&-", "<&-"):
            command.words += targets
            return
        target = targets[0] if targets else ShellWord("", False)
        if operator in (">&", "<&") and re.match("-.", target.value):
            self.fail(_IN_DOUBT)
        # words after the target are further targets in the grammar, but arguments in bash
        command.words += targets[1:]
        if node.type == "herestring_redirect":
            command.body = target.value
            command.redirects.append(Redirect("<<<", target))
        else:
            command.redirects.append(Redirect(operator, target, descriptor))

    def _heredoc(self, node: Node, command: ParsedCommand, depth: int) -> None:
        start = next((child for child in node.children if child.type == "heredoc_start"), None)
        if not self._ends_where_bash_ends_it(node):
            self.fail(_IN_DOUBT)
        quoted = start is not None and any(c in self.text(start) for c in "'\"\\")
        for child in node.children:
            if child.type == "file_descriptor":
                self._descriptor(child)
            if child.type == "heredoc_body":
                command.body = self.text(child)
                if not quoted and re.search(r"[`$\\]", command.body):
                    command.redirects.append(Redirect("<<", ShellWord(command.body, False)))
                    self._inner_commands(child, depth)
                else:
                    command.redirects.append(Redirect("<<", ShellWord("")))
            elif child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                self._redirect(child, command, depth)
            elif (
                child.type not in ("heredoc_start", "heredoc_end", "<<", "<<-", "file_descriptor")
                and child.is_named
            ):
                self.problem(f"it contains unsupported syntax ({child.type})")
                following = self.visit(child, depth + 1)
                for other in following:
                    other.fed_by = other.fed_by or command

    def _ends_where_bash_ends_it(self, node: Node) -> bool:
        """Return True if the here-document ends at the first line that equals the delimiter, as in
        bash. The grammar also accepts a line that only begins with it.
        """
        parts = {child.type: child for child in node.children}
        start, end = parts.get("heredoc_start"), parts.get("heredoc_end")
        if start is None or end is None or self._heredoc_line == start.start_point.row:
            return False
        # a second here-document of the same line would begin after this one
        self._heredoc_line = start.start_point.row
        delimiter = read_word(self.text(start), self._home)
        first = self._data.find(b"\n", start.end_byte) + 1
        lines = self._data[first:].decode(errors="surrogatepass").split("\n")
        lines = [line.lstrip("\t") for line in lines] if "<<-" in parts else lines
        ends = lines.index(delimiter.value) if delimiter.value in lines else None
        return (
            delimiter.is_literal
            and first > 0
            and ends is not None
            and end.end_point.row == start.start_point.row + 1 + ends
        )

    # ------------------------------------------------------------ tests

    def _test(self, node: Node, depth: int) -> None:
        words = split(self.text(node))
        if words is None or (words[0], words[-1]) not in (("[", "]"), ("[[", "]]")):
            self.fail("it contains an unsupported test")
        else:
            self.script.tests.append([read_word(word, self._home) for word in words])
        self._inner_commands(node, depth)


_KEYWORDS = names("coproc for while until select case function do done esac in { } ]] !")
"""Needed by: `ROW; rm $x` (ask in mode full), `! ROW rm *.txt -- x` (ask in mode full)."""
