from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import AgentError, ErrorKind
from treadle.models.providers import sse
from treadle.models.providers.sse import EventSplitter

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=12).map(str.encode)
LINE_END = st.sampled_from([b"\n", b"\r\n", b"\r"])
LINE = st.one_of(
    TEXT.map(lambda value: b"data: " + value),
    TEXT.map(lambda value: b"data:" + value),
    TEXT.map(lambda value: b"event: " + value),
    TEXT.map(lambda value: b": " + value),
    st.sampled_from([b"", b"data", b"id: 7", b"retry: 5", b"unknown: x", b"event"]),
)
PLAIN = st.tuples(TEXT, TEXT).map(lambda event: b"event: %b\ndata: %b\n" % event)
PIECE = st.one_of(
    st.tuples(LINE, LINE_END).map(b"".join), PLAIN, PLAIN.map(lambda event: event + b"\n")
)


def reference(stream: str) -> list[tuple[bytes, bytes]]:
    """The standard's algorithm, line by line."""
    events: list[tuple[bytes, bytes]] = []
    name, data = "", list[str]()
    lines = stream.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for line in lines[:-1]:
        if not line:
            if data:
                events.append((name.encode(), "\n".join(data).encode()))
            name, data = "", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
    return events


def split(chunks: list[bytes]) -> list[tuple[bytes, bytes]]:
    splitter = EventSplitter()
    return [event for chunk in chunks for event in splitter.feed(chunk)]


def cut_at(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    return [stream[a:b] for a, b in pairwise(places)]


@given(st.booleans(), st.lists(PIECE, max_size=12), st.lists(st.integers(0, 300), max_size=8))
def test_any_cut_of_any_stream_gives_the_events_of_the_standard(
    bom: bool, pieces: list[bytes], cuts: list[int]
) -> None:
    stream = (b"\xef\xbb\xbf" if bom else b"") + b"".join(pieces)
    assert split(cut_at(stream, cuts)) == reference(stream.decode())


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=9), st.integers(0, 200))
def test_plain_events_come_out_as_they_went_in(events: list[tuple[bytes, bytes]], cut: int) -> None:
    stream = b"".join(b"event: %b\ndata: %b\n\n" % event for event in events)
    assert split([stream[:cut], stream[cut:]]) == events


def test_every_byte_may_come_alone() -> None:
    stream = b"\xef\xbb\xbfevent: a\r\ndata: 1\r\ndata: 2\r\n\r\n: hello\rdata: 3\r\rdata:4\n\n"
    assert split([bytes([byte]) for byte in stream]) == [(b"a", b"1\n2"), (b"", b"3"), (b"", b"4")]


def test_an_event_without_its_blank_line_is_given_at_the_end_only() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: 1\n\ndata: 2") == [(b"", b"1")]
    assert splitter.finish() == [(b"", b"2")]
    assert splitter.finish() == []


def test_an_event_that_never_ends_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "EVENT_BYTES_MAX", 1000)
    splitter = EventSplitter()
    for _ in range(9):
        splitter.feed(b"x" * 100)
    assert splitter.feed(b"\n\n") == []
    splitter.feed(b"x" * 1000)
    with pytest.raises(AgentError, match="more than 1000 bytes") as raised:
        splitter.feed(b"x")
    assert raised.value.kind is ErrorKind.NETWORK


@given(st.lists(TEXT, min_size=1, max_size=9), LINE_END, st.lists(st.integers(0, 200), max_size=4))
def test_events_without_a_name_come_out_as_they_went_in(
    events: list[bytes], line_end: bytes, cuts: list[int]
) -> None:
    stream = b"".join(b"data: %b%b%b" % (data, line_end, line_end) for data in events)
    assert split(cut_at(stream, cuts)) == [(b"", data) for data in events]


@given(
    st.lists(
        st.tuples(TEXT, st.sampled_from([b"\r\n\r\n", b"\r\n\r\n", b"\n\n", b"\r\r", b"\r\n\n"])),
        max_size=9,
    ),
    st.lists(st.integers(0, 200), max_size=4),
)
def test_no_event_is_late_where_line_ends_change(
    events: list[tuple[bytes, bytes]], cuts: list[int]
) -> None:
    splitter = EventSplitter()
    fed, given_so_far = b"", list[tuple[bytes, bytes]]()
    for chunk in cut_at(b"".join(b"data: %b%b" % event for event in events), cuts):
        fed += chunk
        given_so_far += splitter.feed(chunk)
        assert given_so_far == reference(fed.decode("utf-8", "replace"))
