"""Changing the user's own file: values are set in its text, whose comments and order stay, and only
what is right as a whole is written.

Entry: `change`.
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
    """All of them, or none. The file is the user's alone afterwards (0600), in a folder that is
    made so (0700) where there is none.

    Raises AgentError(invalid) for a file that cannot be read, edited safely or written, and for one
    that would be wrong with these values.
    """
    from treadle.config.document import edited  # noqa: PLC0415  only who changes a file needs the library

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
