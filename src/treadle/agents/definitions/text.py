"""Text of a definition: a YAML document, or Markdown with YAML front matter. Lines are counted in
the file.

keys.py validates the keys. Entry points: `read`, `document_of`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from treadle.agents.definitions.places import DefinitionFile
from treadle.config.document import YamlDocument, parse
from treadle.config.file import Broken, decoded, read_bytes
from treadle.config.trust import command

DEPTH_MAX = 40
"""Maximum YAML depth. Each nested object of an output schema takes two levels."""

_FENCE = re.compile(r"---[ \t]*\r?(?:\n|\Z)")
_END = re.compile(r"^---[ \t]*\r?$", re.MULTILINE)


class DefinitionText(NamedTuple):
    document: YamlDocument
    body: str | None
    """Text after the front matter; None if the whole file is YAML."""
    lines: list[str]
    """Lines of the whole file."""


def read(file: DefinitionFile) -> DefinitionText:
    """Read the text of a definition.

    Raises Broken, with a line number, if the file cannot be read, if it links to a file outside the
    project, or if it has changed since the project was trusted.
    """
    real = Path(os.path.realpath(file.path))
    if file.root is not None and not real.is_relative_to(file.root):
        raise Broken(1, f"the link leaves the project {file.root}")
    content = read_bytes(real, own=file.root is None)
    if content is None:
        raise Broken(1, "does not exist")
    if file.trust is not None and not file.trust.admits(file.path, content.data):
        raise Broken(
            1, f"has changed since you trusted it: review it, then run: {command(file.trust.root)}"
        )
    return document_of(
        decoded(content.data, "contains the invisible character {!r}"),
        markdown=file.path.suffix == ".md",
    )


def document_of(text: str, *, markdown: bool) -> DefinitionText:
    """Split a text into document and body. Raises Broken."""
    lines = text.split("\n")
    if not markdown:
        return DefinitionText(parse(text, depth_max=DEPTH_MAX), None, lines)
    if (begin := _FENCE.match(text)) is None:
        raise Broken(
            1,
            (
                "must begin with a line `---`, then the keys, like `description: …`, and a line "
                "`---` before the instructions"
            ),
        )
    if (end := _END.search(text, begin.end())) is None:
        raise Broken(1, "needs a second line `---` between the keys and the instructions")
    matter = text[begin.end() : end.start()]
    return DefinitionText(
        parse(f"\n{matter}", depth_max=DEPTH_MAX),
        text[end.end() :].replace("\r\n", "\n").strip(),
        lines,
    )
