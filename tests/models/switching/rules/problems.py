"""What the rules have in common: a list of what is wrong, each with the place where it is. Entry:

`Problems`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Collection
from typing import Any

Json = dict[str, Any]

IDENTIFIER = re.compile(r"[a-zA-Z0-9_-]+")


class Problems(list[str]):
    def unless(self, fine: object, where: str, what: str) -> None:
        if not fine:
            self.append(f"{where}: {what}")

    def fields(
        self, value: Json, where: str, *, needs: Collection[str], may: Collection[str] = ()
    ) -> None:
        """An API of this kind refuses extra inputs as well as missing ones."""
        self.unless(set(needs) <= value.keys(), where, f"lacks {sorted(set(needs) - value.keys())}")
        self.unless(
            value.keys() <= {*needs, *may},
            where,
            f"has {sorted(value.keys() - {*needs, *may})}, which the API does not know",
        )

    def text(self, value: object, where: str) -> None:
        self.unless(
            isinstance(value, str) and value,
            where,
            f"must be a text that is not empty, not {value!r}",
        )

    def identifier(self, value: object, where: str, longest: int) -> None:
        fine = isinstance(value, str) and IDENTIFIER.fullmatch(value) and len(value) <= longest
        self.unless(fine, where, f"{value!r} is not 1 to {longest} letters, digits, '_' and '-'")

    def arguments(self, value: object, where: str) -> None:
        """A text that is a JSON object."""
        try:
            fine = isinstance(json.loads(str(value)), dict)
        except (ValueError, RecursionError):
            fine = False
        self.unless(fine, where, f"{value!r:.80} is no JSON object")

    def base64(self, value: object, where: str) -> None:
        try:
            fine = (
                isinstance(value, str)
                and value
                and base64.b64decode(value.replace("-", "+").replace("_", "/"), validate=True)
                is not None
            )
        except binascii.Error:
            fine = False
        self.unless(fine, where, f"{value!r:.80} is not base64")
