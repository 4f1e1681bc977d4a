"""Arguments of an isolated call together with their text. Entry: `ParsedText`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ParsedText(dict[str, Any]):
    """Parsed arguments with the text they came as: values that JSON cannot carry are parsed once
    more in the process.
    """

    def __init__(self, arguments: Mapping[str, Any], text: str) -> None:
        super().__init__(arguments)
        self.text = text
