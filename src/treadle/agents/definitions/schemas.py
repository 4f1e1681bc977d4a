"""Validation of output schemas: plain data must be a JSON Schema of an object.

No other module of this package imports the validator. Entry points: `fault_of`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jsonschema_rs

from treadle.tools.schemas.bounds import TooMuch
from treadle.tools.schemas.checked import compiled

TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")


class Fault(NamedTuple):
    path: tuple[str | int, ...]
    what: str

    def text(self, name: str) -> str:
        """Describe the fault with its path in the schema, which is called `name`."""
        return f"{'.'.join(map(str, (name, *self.path)))} {self.what}"


def fault_of(schema: Mapping[str, object]) -> Fault | None:
    """Return the first fault, or None. A reference to another document is a fault, and is not
    followed.
    """
    if (kind := schema.get("type")) != "object":
        return Fault(
            ("type",),
            f"must be 'object', not {kind!r}"
            if "type" in schema
            else "is missing: the answer is an object, so it is 'object'",
        )
    try:
        # jsonschema_rs.meta is not used: it fetches the URL in `$schema`
        compiled(schema)
    except TooMuch as e:
        return Fault((), f"is a JSON Schema that cannot be used: {e}")
    except jsonschema_rs.ValidationError as e:
        path = tuple(e.instance_path)
        why = _type(e.instance) if path[-1:] == ("type",) else e.message
        return Fault(path, f"is not a valid JSON Schema: {why}")
    except (ValueError, TypeError) as e:  # an unresolved reference, or a key that is not a string
        return Fault((), f"is not a usable JSON Schema: {str(e).partition(chr(10))[0]}")
    return None


def _type(given: object) -> str:
    return f"there is no type {given!r}: use one of {', '.join(TYPES)}"
