"""JSON Schemas of the output of `treadle run`, generated from the events, and of agent definitions.

The schemas of events are open: readers must ignore unknown fields, because later versions add some.
Entry points: `stream_json_schema`, `json_schema`; `python -m treadle.cli.stream_schema` writes the
files to this folder.

    __main__.py  writes the schema files
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import msgspec

from treadle._internal.value_schema import any_json, without_fields
from treadle.messages.events import Event, RunEnd

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def stream_json_schema() -> dict[str, Any]:
    """Return the schema of one line of `--output stream-json`, an event."""
    return _schema(Event, "One line of treadle's stream-json: an event of a run.")


def json_schema() -> dict[str, Any]:
    """Return the schema of `--output json`, the last event of a run."""
    return _schema(RunEnd, "What treadle prints with --output json: the end of a run.")


def write(folder: Path) -> None:
    """Write all schemas as files into `folder`."""
    from treadle.agents.definitions.format import definition_schema  # noqa: PLC0415  brings the library for YAML

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
    """Return the schema without closed objects, keys that only OpenAPI defines, and lists of fields
    in descriptions.
    """
    match schema:
        case dict():
            fields = cast("dict[str, Any]", schema).items()
            return {
                name: _opened(inner)
                for name, inner in fields
                if name != "discriminator" and (name, inner) != ("additionalProperties", False)
            }
        case str():
            return without_fields(schema)
        case list():
            return [_opened(inner) for inner in cast("list[Any]", schema)]
        case _:
            return schema
