"""The JSON Schemas that ship beside this file: of what `treadle run` prints, made from the events
themselves, and of agents in files.

What the events are stands in events.py, the format of agents in definitions/. Entry:
`stream_json_schema`, `json_schema`; `python -m treadle.cli.stream_schema` writes the files.

Those of events are open: a later version may say more in an event, and a reader must pass over what
it does not know.

    __main__.py  writes the schemas beside this file
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import msgspec

from treadle.messages.events import Event, RunEnd
from treadle.types import any_json

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def stream_json_schema() -> dict[str, Any]:
    """Of one line of `--output stream-json`: an event."""
    return _schema(Event, "One line of treadle's stream-json: an event of a run.")


def json_schema() -> dict[str, Any]:
    """Of `--output json`: the last event of the run."""
    return _schema(RunEnd, "What treadle prints with --output json: the end of a run.")


def write(folder: Path) -> None:
    """All of them, as files in `folder`."""
    from treadle.agents.definitions.format import definition_schema  # noqa: PLC0415  it brings the library for YAML, and only this needs it

    for name, schema in (
        ("stream-json", stream_json_schema()),
        ("json", json_schema()),
        ("agent", definition_schema()),
    ):
        (folder / f"{name}.schema.json").write_text(
            json.dumps(schema, indent=2) + "\n", encoding="utf-8"
        )


def _schema(kind: Any, description: str) -> dict[str, Any]:
    made = msgspec.json.schema(kind, schema_hook=any_json)
    return {"$schema": DRAFT, "description": description, **_opened(made)}


def _opened(schema: Any) -> Any:
    """Without what forbids unknown fields, and without what only OpenAPI understands."""
    match schema:
        case dict():
            fields = cast("dict[str, Any]", schema).items()
            return {
                name: _opened(inner)
                for name, inner in fields
                if name != "discriminator" and (name, inner) != ("additionalProperties", False)
            }
        case list():
            return [_opened(inner) for inner in cast("list[Any]", schema)]
        case _:
            return schema
