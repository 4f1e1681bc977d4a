"""Long texts are kept once, and entries are read back byte by byte."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.journal.runs import begun, entries_of, finished, gives, started
from tests.journal.sqlite.conftest import Look
from tests.strategies import values_of
from treadle._internal.json_text import encode_json
from treadle.journal.entries import Entry
from treadle.journal.sqlite import SqliteJournal
from treadle.journal.tables.bodies import LONG_BYTES, BodyPiece, cut, whole

LONG = st.builds(
    lambda unit, count, ends: unit * (LONG_BYTES // max(len(unit), 1) + count) + ends,
    st.sampled_from(
        ["x", "\\", '"', "\n", "é", "\ud800", "🧵", '\\\\"', "\\u0041", "{}[],:", "\x00"]
    ),
    st.integers(-3, 3),
    st.sampled_from(["", "\\", '"', "\\\\", "\ud83e"]),
)
VALUES = st.recursive(
    LONG | st.text(max_size=5) | st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3) | LONG, inner, max_size=3)
    ),
    max_leaves=5,
)


def read_back(data: bytes) -> bytes:
    left, pieces = cut(data)
    return whole(left, [(piece.at, piece.text) for piece in pieces])


@given(VALUES)
def test_any_json_is_read_back_byte_by_byte(value: object) -> None:
    for data in (
        json.dumps(value).encode(),
        json.dumps(value, indent=1, ensure_ascii=False).encode("utf-8", "surrogatepass"),
        encode_json(value),
    ):
        assert read_back(data) == data
        assert all(len(piece.text) >= LONG_BYTES for piece in cut(data)[1])


@given(values_of(Entry))
def test_any_entry_is_read_back_byte_by_byte(entry: Entry) -> None:
    assert read_back(entry.to_json()) == entry.to_json()


def test_what_is_left_of_an_entry_is_json_still() -> None:
    left, pieces = cut(gives("c", 'say "hi"\\\n' * 2_000).to_json())
    assert json.loads(left)["result"]["content"] == ""
    assert [json.loads(b'"' + piece.text + b'"') for piece in pieces] == ['say "hi"\\\n' * 2_000]


@pytest.mark.parametrize(("size", "kept"), [(LONG_BYTES - 1, 0), (LONG_BYTES, 1)])
def test_only_long_texts_are_cut_out(size: int, kept: int) -> None:
    assert len(cut(json.dumps(["x" * size, "y" * 100]).encode())[1]) == kept


def test_the_same_text_is_the_same_piece_wherever_it_stands() -> None:
    text = json.dumps({"code": "print('hi')\n" * 1_000})
    first, second = (
        cut(gives("c", text).to_json())[1],
        cut(json.dumps({"other": [1, text]}).encode())[1],
    )
    assert isinstance(first[0], BodyPiece)
    assert (first[0].hash, first[0].text) == (second[0].hash, second[0].text)


async def test_a_long_text_is_in_the_file_once(journal: SqliteJournal, look: Look) -> None:
    text = "line\n" * 4_000
    for name in ("run_1", "run_2"):
        writer = await journal.begin(started(name, text))
        entries = [begun("c"), gives("c", text), finished()]
        await writer.append(entries)
        assert await entries_of(journal, name, after=1) == entries
        assert (await journal.read_bytes(name))[2] == gives("c", text).to_json()
    assert look("select count(*) from blobs") == [(1,)]
    assert look("select count(*) from cuts") == [(4,)]
    assert look("select max(length(body)) < 1000 from entries") == [(1,)]
