"""What the bodies of the task routes are made of, so that what is refused stands in the schema.

Entry: `Title`, `Description`, `Day`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints

from treadle.apps.assistant.fields import DESCRIPTION_CHARS, TITLE_CHARS, due_of
from treadle.errors import AgentError
from treadle.service.forms import INVISIBLE, NO_LINE, NO_TEXT

Title = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=TITLE_CHARS,
        pattern=rf"^[^{NO_LINE}]*[^{INVISIBLE}][^{NO_LINE}]*$",
    ),
]
Description = Annotated[
    str, StringConstraints(max_length=DESCRIPTION_CHARS, pattern=rf"^[^{NO_TEXT}]*$")
]


def _date(value: Any) -> Any:
    if value is not None and not isinstance(value, str):
        raise ValueError("give a date as YYYY-MM-DD, like 2026-12-01")
    try:
        due = due_of(value)
    except AgentError as e:
        raise ValueError(e.message) from e
    return None if due is None else due.isoformat()


Day = Annotated[str, BeforeValidator(_date), Field(json_schema_extra={"format": "date"})]
