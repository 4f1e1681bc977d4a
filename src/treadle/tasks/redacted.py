"""What of a call may be recorded and shown: nothing that names a user or looks like a credential. Entry: `Redacted`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from treadle.redaction import MASK, SECRET_MIN_CHARS, without_secrets

_USER_ID: Final = re.compile(r"(?i)user[-_ ]?(?:id|identifier|uuid)|owner(?:[-_ ]?id)?|tenant(?:[-_ ]?id)?|account[-_ ]?id")
"""Names under which a model may send what it has not been told."""


class Redacted:
    """For the records of one user."""

    def __init__(self, user_id: str = "") -> None:
        """An id shorter than a secret is left alone: it is a word like any other."""
        self._user_id = user_id if len(user_id) >= SECRET_MIN_CHARS and any(map(str.isdigit, user_id)) else None

    def arguments(self, given: Mapping[str, object] | str) -> dict[str, Any]:
        """Of what a model sent; none where that was no object."""
        return {} if isinstance(given, str) else self.value(given)

    def value(self, value: Any) -> Any:
        """The same JSON value, fresh, without members that name a user and without secrets in its texts."""
        match value:
            case str():
                text = without_secrets(value)
                return text if self._user_id is None else text.replace(self._user_id, MASK)
            case Mapping():
                members = cast("Mapping[str, Any]", value)
                return {self.value(name): self.value(item) for name, item in members.items() if not _USER_ID.fullmatch(name)}
            case list() | tuple():
                return [self.value(item) for item in cast("list[Any] | tuple[Any, ...]", value)]
            case _:
                return value
