"""Syntax tree of a command line, from tree-sitter with bash's grammar, bounded in size and time.

Entry points: `parse_tree`, `is_covered`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Tree

INSTALL = "pip install 'treadle[coding]'"
MAX_BYTES = 20 * 1024
MAX_NODES = 6_000
MAX_SECONDS = 0.03
"""Maximum CPU time for parsing. Ordinary texts of `MAX_BYTES` take a tenth of it."""
MAX_BARS = 800
"""Maximum number of `|` in a text. After a syntax error the parser compares each with all others,
and cannot be stopped meanwhile.
"""
_PIECE = 256


@lru_cache(maxsize=1)
def _language() -> Language:
    import tree_sitter_bash  # noqa: PLC0415  needed only to judge commands
    from tree_sitter import Language  # noqa: PLC0415  slow to import

    return Language(tree_sitter_bash.language())


_PLAIN = bytes([*range(128), *([ord(":")] * 128)])
"""Translation of non-ASCII bytes, which the grammar's scanner would look up beyond the end of a
table, to a character that is part of words but not of names, as in bash.
"""


def parse_tree(data: bytes) -> Tree | None:
    """Parse a text; None if that exceeds the limits, as for some texts with errors."""
    from tree_sitter import Parser  # noqa: PLC0415  slow to import

    if data.count(b"|") > MAX_BARS:
        return None
    data = data.translate(_PLAIN)
    until = time.thread_time() + MAX_SECONDS

    def piece(at: int, _: object) -> bytes:
        return data[at : at + _PIECE]

    def is_late(_: int, __: bool) -> bool:
        return time.thread_time() > until

    try:
        tree = Parser(_language()).parse(piece, progress_callback=is_late)
    except ValueError:  # stopped by `is_late`
        return None
    return None if tree.root_node.descendant_count > MAX_NODES else tree


_BETWEEN = re.compile(rb"(?:[ \t\n]|\\\n)*")

_TEXTS = frozenset({"string", "raw_string", "ansi_c_string", "heredoc_body", "comment"})
r"""Needed by: `cat <<X\nrm $x\nX` (allow in mode full)."""


def is_covered(tree: Tree, data: bytes) -> bool:
    """Return True if the tree covers all of the text except blanks. The grammar skips some text
    that bash reads.
    """
    cursor, at = tree.walk(), 0
    while True:
        node = cursor.node
        assert node is not None
        if (
            node.type == "simple_expansion"
            and len(data[node.start_byte : node.end_byte].split()) != 1
        ):
            return False
        if (
            node.type == "comment"
            and data[max(node.start_byte - 1, 0) : node.start_byte] not in EDGES
        ):
            return False  # in bash, `#` after a letter or a bracket is part of the word
        if node.type not in _TEXTS and cursor.goto_first_child():
            continue
        if node.start_byte > at and _BETWEEN.fullmatch(data, at, node.start_byte) is None:
            return False
        if (
            not node.is_named
            and data[node.start_byte : node.end_byte].strip() != node.type.encode().strip()
        ):
            return False
        at = max(at, node.end_byte)
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return _BETWEEN.fullmatch(data, at) is not None


EDGES = frozenset([bytes([c]) for c in b" \t\n;|&()<>`"]) | {b""}
"""Bytes at which a word can begin and end. Needed by: `ls a.txt` (allow)."""


def nodes_of(node: Node) -> Iterator[Node]:
    """Yield a node and its descendants, children first, without the content of strings."""
    if node.is_named and node.type != "string_content" and node.child_count:
        for child in node.children:
            yield from nodes_of(child)
    yield node
