"""What of a call may be recorded and shown: nothing that names a user or looks like a credential.

Entry: `Redacted`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from treadle._internal.json_text import encode_json
from treadle._internal.redaction import MASK, SECRET_MIN_CHARS, without_secrets
from treadle.apps.assistant.user_names import may_name_user, names_user


class Redacted:
    """For the records of one user."""

    def __init__(self, user_id: str = "") -> None:
        """An id shorter than a secret is left alone: it is a word like any other."""
        self._user_id = (
            user_id if len(user_id) >= SECRET_MIN_CHARS and any(map(str.isdigit, user_id)) else None
        )

    def arguments(self, given: Mapping[str, object] | str) -> Mapping[str, Any]:
        """Of what a model sent; none where that was no object."""
        return {} if isinstance(given, str) else self.value(given)

    def value(self, value: Any) -> Any:
        """The same JSON value without members that name a user and without secrets in its texts;
        where there is nothing of these, itself.
        """
        text = encode_json(value).decode()
        suspect = may_name_user(text) or (self._user_id is not None and self._user_id in text)
        # all texts at once: a list may hold a thousand
        return self._inside(value) if suspect or without_secrets(text) != text else value

    def _inside(self, value: Any) -> Any:
        match value:
            case str():
                text = without_secrets(value)
                return text if self._user_id is None else text.replace(self._user_id, MASK)
            case Mapping():
                members = cast("Mapping[str, Any]", value)
                return {
                    self._inside(name): self._inside(item)
                    for name, item in members.items()
                    if not names_user(name)
                }
            case list() | tuple():
                return [self._inside(item) for item in cast("list[Any] | tuple[Any, ...]", value)]
            case _:
                return value
