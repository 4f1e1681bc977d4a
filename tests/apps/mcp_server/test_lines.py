"""What a client writes, and what is answered to a line that is no message."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from treadle.apps.mcp_server.lines import LineSplitter, refusal_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)
MESSAGE = st.dictionaries(
    st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]), JSON
)


@given(st.lists(st.binary(max_size=40)), st.integers(1, 30))
def test_lines_are_the_same_however_they_come(pieces: list[bytes], longest: int):
    lines = LineSplitter(longest)
    found = [line for piece in pieces for line in lines.feed(piece)] + [lines.end()]
    whole = b"".join(pieces).split(b"\n")
    assert found == [
        line.decode(errors="replace") if len(line) <= longest else None for line in whole
    ]


@given(st.text() | (MESSAGE | JSON).map(json.dumps))
def test_every_refusal_can_be_written_and_none_answers_an_answer(line: str):
    refusal = refusal_of(line)
    if refusal is not None:
        assert json.loads(refusal.model_dump_json(by_alias=True, exclude_unset=True))["error"][
            "code"
        ] in (-32700, -32600)
    try:
        said = json.loads(line)
    except ValueError:
        return
    if isinstance(said, dict) and "method" not in said and ("result" in said or "error" in said):
        assert refusal is None


def test_an_id_that_cannot_be_written_is_not_given_back():
    for number in ('"\\ud800"', "9" * 100, "true", "[]", '"' + "x" * 2000 + '"'):
        refusal = refusal_of('{"method": "ping", "id": ' + number + "}")
        assert refusal is not None
        assert refusal.id is None
