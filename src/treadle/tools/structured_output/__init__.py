"""Typed answers: the schema for the model, from a type or a JSON Schema, and the value parsed from
its text.

    contract.py   contract of a typed answer, which the loop uses
    kinds.py      the family of a type, and rejection of values that are not types
    answer.py     the part that all families share: lazy building, parsing, error reports
    shape.py      contract of a family
    typed.py      the family of all types that pydantic knows
    structs.py    the family of msgspec Structs
    given.py      the family of JSON Schemas
    words.py      finds JSON in a model's text
    beginning.py  parses the beginning of an answer
    roots.py      makes the root of a schema an object, as providers require

Entry point: `answer_type`.
"""

from __future__ import annotations

from treadle.tools.structured_output.kinds import answer_type as answer_type
