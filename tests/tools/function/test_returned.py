"""What a function returned, as the model is shown it."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import decimal
import enum
import json
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from treadle.messages.message import MediaPart, TextPart
from treadle.tools.function.returned import to_output
from treadle.tools.tool import ToolFailed


class Model(BaseModel):
    a: int
    when: dt.date = dt.date(2026, 1, 2)


class Struct(msgspec.Struct):
    a: int


@dataclasses.dataclass
class Data:
    a: int
    models: list[Model] = dataclasses.field(default_factory=list)


class Pair(NamedTuple):
    a: int
    b: str


class Shade(enum.StrEnum):
    DARK = "dark"


class Level(enum.Enum):
    HIGH = 3


class Loud(str):
    def __str__(self) -> str:
        return "LOUD"


class OwnInt(int): ...


class OwnFloat(float): ...


class OwnMapping(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n", "as it is\n"),
        (Shade.DARK, "dark"),
        (Level.HIGH, "3"),
        (Loud("quiet"), "quiet"),
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (2.5, "2.5"),
        (10**30, str(10**30)),
        ({"n": [10**30]}, '{"n":[' + str(10**30) + "]}"),
        ({"ä": "\ud800"}, '{"\\u00e4":"\\ud800"}'),
        ([], "[]"),
        (["a", 1], '["a",1]'),
        ((1, 2), "[1,2]"),
        ({"ä": 1, 2: "b"}, '{"ä":1,"2":"b"}'),
        ({1}, "[1]"),
        (Model(a=1), '{"a":1,"when":"2026-01-02"}'),
        (Data(a=1, models=[Model(a=2)]), '{"a":1,"models":[{"a":2,"when":"2026-01-02"}]}'),
        ([Struct(a=1)], '[{"a":1}]'),
        (Pair(1, "x"), '[1,"x"]'),
        (
            {"at": dt.datetime(2026, 1, 2, tzinfo=dt.UTC), "id": uuid.UUID(int=1)},
            '{"at":"2026-01-02T00:00:00Z","id":"00000000-0000-0000-0000-000000000001"}',
        ),
        ({"of": decimal.Decimal("1.10"), "in": Path("/x")}, '{"of":"1.10","in":"/x"}'),
        ([OwnInt(1), OwnFloat(1.5), Loud("quiet")], '[1,1.5,"quiet"]'),
        (OwnMapping(), '{"a":1}'),
        (b"plain text", "plain text"),
        (bytearray("grün".encode()), "grün"),
    ],
    ids=lambda value: repr(value).split(" object at ")[0],
)
def test_a_value_becomes_text(value: object, text: str) -> None:
    assert to_output(value) == text
    assert type(to_output(value)) is str


def test_none_becomes_what_it_stands_for() -> None:
    assert to_output(None, "done") == "done"


IMAGE = MediaPart(media_type="image/png", url="https://example.com/a.png")


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        (IMAGE, (IMAGE,)),
        (TextPart(text="a"), (TextPart(text="a"),)),
        ([TextPart(text="a"), IMAGE], (TextPart(text="a"), IMAGE)),
        (("here:", IMAGE), (TextPart(text="here:"), IMAGE)),
    ],
)
def test_parts_stay_parts(value: object, parts: object) -> None:
    assert to_output(value) == parts


def test_a_list_with_a_part_and_something_else_is_json() -> None:
    told = to_output([IMAGE, 1])
    assert isinstance(told, str)
    assert json.loads(told)[1] == 1


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\x00", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a..", "image/gif"),
        (b"GIF87a..", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"%PDF-1.7\n", "application/pdf"),
    ],
)
def test_bytes_of_an_image_or_a_pdf_are_media(data: bytes, kind: str) -> None:
    assert to_output(data) == (MediaPart(media_type=kind, data=base64.b64encode(data).decode()),)


class Unwritable: ...


class BreaksItself(BaseModel):
    def model_dump(self, **options: Any) -> Any:
        raise RuntimeError("mine")


def _endless() -> object:
    own: list[object] = []
    own.append(own)
    return own


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b"\xff\xfe\x00", "returned 3 bytes that are neither text nor an image or PDF"),
        (b"a\x00b", "returned 3 bytes that are neither text"),
        (
            Unwritable(),
            r"returned a Unwritable that cannot be written as JSON \(.*test_returned.Unwritable has no JSON form\)",
        ),
        (
            [Unwritable()],
            r"returned a list that cannot be written as JSON \(.*test_returned.Unwritable has no JSON form\)",
        ),
        ({(1, 2): 3}, "returned a dict that cannot be written as JSON"),
        ((i for i in ()), "returned a generator"),
        (ValueError("no"), "returned a ValueError"),
        (BreaksItself(), r"returned a BreaksItself that cannot be written as JSON \(mine\)"),
        (_endless(), "returned a list"),
        (10**5000, "returned a int"),
    ],
    ids=[
        "bytes",
        "nul",
        "object",
        "inner",
        "key",
        "generator",
        "error",
        "broken",
        "endless",
        "digits",
    ],
)
def test_what_no_model_can_be_shown_is_told_by_its_type(value: object, says: str) -> None:
    with pytest.raises(ToolFailed, match=says) as e:
        to_output(value)
    assert e.value.happened is True


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.lists(JSON) | st.dictionaries(st.text(), JSON))
def test_json_values_come_out_as_they_went_in(value: object) -> None:
    told = to_output(value)
    assert isinstance(told, str)
    assert json.loads(told) == value
