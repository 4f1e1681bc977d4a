"""Edits of the user's own configuration file that keep comments and order.

A change is written only if the whole file is valid afterwards. Entry points: `change`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from treadle.config.file import Broken, read_text, write_text
from treadle.config.keys import KeyPath
from treadle.config.layers import Layers
from treadle.config.places import ConfigFile
from treadle.errors import AgentError

if TYPE_CHECKING:
    from treadle.config.document import Plain


def change(file: Path, values: Sequence[tuple[KeyPath, Plain]]) -> None:
    """Set all values, or none.

    The file is written with mode 0600; a missing folder is created with mode 0700. Raises
    AgentError(invalid) if the file cannot be read, edited safely or written, or if the result would
    be invalid.
    """
    from treadle.config.editing import edited  # noqa: PLC0415  only who changes a file needs the library

    try:
        opened = read_text(Path(os.path.realpath(file)), own=True)
        text = opened.text if opened else ""
        for names, value in values:
            text = edited(text, names, value)
        layers = Layers({})
        layers.add_text(ConfigFile(file), text)
    except Broken as e:
        raise AgentError("invalid", f"{file}:{e.line}: {e.text}") from None
    layers.finish({})
    write_text(file, text)
