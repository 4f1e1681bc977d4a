"""Arguments of an isolated call together with their text. Entry: `ParsedText`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ParsedText(dict[str, Any]):
    """Parsed arguments together with their JSON text. The child process parses the text again for
    values that JSON cannot represent.
    """

    def __init__(self, arguments: Mapping[str, Any], text: str) -> None:
        super().__init__(arguments)
        self.text = text
