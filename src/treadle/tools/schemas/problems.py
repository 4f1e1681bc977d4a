"""Validation problems, described for the model in one line each: place, error and expected value.

faults.py and checked.py find them; their callers add the surrounding text. Entry points:
`SchemaProblem`, `told`, `strict_json`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import msgspec

from treadle._internal.json_text import is_deeper
from treadle.tools.registry import closest

Path: TypeAlias = tuple[str | int, ...]
JsonSchema: TypeAlias = Mapping[str, Any]

MAX_PROBLEMS: Final = 10
MAX_SHOWN_CHARS: Final = 80
MAX_WORDS_CHARS: Final = 300
MAX_PLACE_CHARS: Final = 200
_AROUND_CHARS: Final = 30
_FORMS_MOST: Final = 200
_NEAR_MOST: Final = 200
"""Maximum number of names to compare when looking for the nearest. Each takes about 20 µs."""
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_]\w{0,60}")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


strict_json: Final = json.JSONDecoder(parse_constant=_no_constant)
"""Parse JSON with Python's parser, rejecting NaN and Infinity.

Raises ValueError, or RecursionError for JSON that is nested too deeply.
"""


def _finite(number: str) -> float:
    if math.isfinite(value := float(number)):
        return value
    raise ValueError(f"{number[:20]} is too large for a number")


finite_json: Final = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)
"""Parse JSON as `strict_json` does, also rejecting numbers beyond the range of a float, such as
1e400.
"""


_TOO_DEEP: Final = "it is nested too deeply"


class SchemaProblem(msgspec.Struct, frozen=True):
    path: Path
    """Keys and indices, outermost first."""
    text: str
    """Description of the error and of the expected value."""


def told(problems: Sequence[SchemaProblem], whole: str, chars_max: int | None = None) -> list[str]:
    """Format at most ten problems, each in a line of bounded length, in `chars_max` characters
    altogether. `whole`: the place of a problem with the whole value.
    """
    lines: list[str] = []
    for p in problems[:MAX_PROBLEMS]:
        line = (
            f"- {_cut(_place(p.path) or whole, MAX_PLACE_CHARS)}: "
            f"{_cut(' '.join(p.text.splitlines()), MAX_WORDS_CHARS)}"
        )
        if lines and chars_max is not None and sum(map(len, lines)) + len(line) > chars_max:
            break
        lines.append(line)
    return (
        [*lines, f"- and {len(problems) - len(lines)} more"]
        if len(problems) > len(lines)
        else lines
    )


def why_unparsable(text: str, reason: str) -> str:
    """Return the reason why a text is not JSON: the error of Python's parser, with its place, or
    else `reason`, another parser's error.
    """
    if is_deeper(text):  # which Python's parser may accept, from 3.12 on
        return _TOO_DEEP
    try:
        strict_json.decode(text)
    except json.JSONDecodeError as e:
        where = (
            f"{e.msg.removesuffix(' at')} at line {e.lineno}, column {e.colno}, near "
            f"{_piece(text, e.pos)}"
        )
        return (
            f"{where} (it seems to be cut off)"
            if e.msg.startswith("Unterminated") or not text[e.pos :].strip()
            else where
        )
    except RecursionError:
        return _TOO_DEEP
    except ValueError as e:
        return str(e)
    return reason


def missing(path: Path, schema: JsonSchema) -> SchemaProblem:
    expected = _expectation(_schema_at(path, schema), schema)
    return SchemaProblem(path, f"missing; expected {expected}" if expected else "missing")


def unknown(path: Path, schema: JsonSchema, noun: str) -> SchemaProblem:
    """Return the problem of an unknown name, with the nearest known one.

    `noun`: how messages refer to the name, such as "field".
    """
    names = [
        name
        for form in _forms(_schema_at(path[:-1], schema), schema)
        for name in form.get("properties", {})
    ]
    hint = nearest(str(path[-1]), names) or (
        f"known: {', '.join(names[:_NEAR_MOST])}" if names else "it takes none"
    )
    return SchemaProblem(path, f"there is no {noun} of this name; {hint}")


def nearest(word: str, words: Sequence[str]) -> str | None:
    """Return `did you mean "x"?`; None if no word is similar."""
    close = closest(word, words[:_NEAR_MOST])
    return None if close is None else f"did you mean {json.dumps(close, ensure_ascii=False)}?"


def as_string(value: object) -> str:
    """Return a hint for the most common mistake with arrays and objects, sending them as JSON
    inside a string; otherwise "".
    """
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        return "; send the JSON itself, not a string that contains it"
    return ""


def shown(value: object) -> str:
    """Format a value as shortened JSON."""
    if isinstance(value, str):
        value = value[: MAX_SHOWN_CHARS + 1]
    try:
        return _cut(json.dumps(value, ensure_ascii=False), MAX_SHOWN_CHARS)
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__}"


# ---------------------------------------------------------------- words


def _place(path: Path) -> str:
    text = ""
    for step in path:
        if isinstance(step, str) and _PLAIN_NAME.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{shown(step)}]"
    return text


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "…"


def _piece(text: str, at: int) -> str:
    before, after = text[max(0, at - _AROUND_CHARS) : at], text[at : at + _AROUND_CHARS]
    return f"{before!r} <here> {after!r}"


# ---------------------------------------------------------------- lookup in the schema


def _forms(schema: JsonSchema | None, root: JsonSchema) -> Iterator[JsonSchema]:
    """Yield the alternatives of a schema, references resolved: each part once, at most
    `_FORMS_MOST`.
    """
    seen = set[int]()
    waiting = [] if schema is None else [schema]
    while waiting and len(seen) < _FORMS_MOST:
        here = waiting.pop()
        if id(here) not in seen:
            seen.add(id(here))
            yield here
            waiting += reversed([*_parts(here, root)])


def _parts(schema: JsonSchema, root: JsonSchema) -> Iterator[JsonSchema]:
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        target: Any = root
        for step in reference[2:].split("/"):
            target = cast("JsonSchema", target).get(step) if isinstance(target, Mapping) else None
        if isinstance(target, Mapping):
            yield cast("JsonSchema", target)
    for keyword in ("anyOf", "oneOf", "allOf"):
        for form in cast("Iterable[Any]", schema.get(keyword) or ()):
            if isinstance(form, Mapping):
                yield cast("JsonSchema", form)


def _schema_at(path: Path, root: JsonSchema) -> JsonSchema | None:
    schema: JsonSchema | None = root
    for step in path:
        schema = next(
            (found for form in _forms(schema, root) if (found := _below(form, step)) is not None),
            None,
        )
    return schema


def _below(schema: JsonSchema, step: str | int) -> JsonSchema | None:
    found: Any = (
        schema.get("items")
        if isinstance(step, int)
        else schema.get("properties", {}).get(step, schema.get("additionalProperties"))
    )
    return cast("JsonSchema", found) if isinstance(found, Mapping) else None


def _expectation(schema: JsonSchema | None, root: JsonSchema) -> str:
    kinds: list[str] = []
    words = ""
    for form in _forms(schema, root):
        words = words or str(form.get("description", ""))
        if "enum" in form:
            kinds.append("one of " + ", ".join(shown(v) for v in form["enum"][:20]))
        elif "const" in form:
            kinds.append(shown(form["const"]))
        elif isinstance(kind := form.get("type"), str):
            kinds.append(kind)
        elif isinstance(kind, list):
            kinds.extend(cast("list[str]", kind))
    return ": ".join(filter(None, [" or ".join(dict.fromkeys(kinds)), words]))
