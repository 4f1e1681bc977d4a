"""Values as JSON and back, and texts taken apart without being parsed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import json_value, nasty_text
from treadle._internal.json_text import (
    LEVELS_MAX,
    decode_json,
    encode_json,
    is_deeper,
    items,
    members,
    object_of,
    parse_json,
)

DEEP = "[" * 10_000 + "]" * 10_000


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


TWO_THREADS = """
import threading
import msgspec

looking, done = threading.Event(), threading.Event()

def look():
    looking.set()
    done.wait(0.5)
    return int

class Inner(msgspec.Struct):
    a: "look()" = 0

class Outer(msgspec.Struct):
    inner: Inner
    b: int

def read():
READ

threads = [threading.Thread(target=read) for _ in range(2)]
threads[0].start()
looking.wait()
threads[1].start()
threads[1].join(0.25)
done.set()
for thread in threads:
    thread.join()
print("read")
"""


READS = {
    "a value": """
    from treadle._internal.json_text import decode_json
    assert decode_json(b'{"inner":{"a":1},"b":2}', Outer).b == 2
""",
    "an argument of a tool": """
    from pydantic import TypeAdapter
    from treadle.tools.schemas.structs import with_structs
    assert TypeAdapter(with_structs(Outer)).validate_python({"inner": {"a": 1}, "b": 2}).b == 2
""",
    "a provider's answer": """
    from contextlib import nullcontext
    import anyio
    from treadle.models.providers.documents import asked_once
    from treadle.models.providers.refusals import Refusals

    class Scripted:
        status = 200
        headers = {"content-type": "application/json"}

        def __init__(self):
            self.pieces = [b'{"inner":{"a":1},"b":2}', b""]

        def get(self, path, headers):
            return nullcontext(self)

        async def read(self):
            return self.pieces.pop(0)

        def heard(self):
            pass

    async def ask():
        assert (await asked_once(Scripted(), "/", None, headers={}, refusals=Refusals("the key"), kind=Outer)).b == 2

    anyio.run(ask)
""",
}


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_two_threads_may_meet_a_kind_of_value_for_the_first_time(read: str) -> None:
    """The library shows the second one what the first has not finished: the process died where a
    run's end was read while it was being indexed.
    """
    told = subprocess.run(
        [sys.executable, "-c", TWO_THREADS.replace("READ", read)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.returncode, told.stdout) == (0, "read\n"), told.stderr


@given(json_value)
def test_encode_then_decode_is_the_identity(value: object) -> None:
    assert decode_json(encode_json(value), object) == value


def test_numbers_that_json_has_no_word_for_become_null_beside_a_lone_surrogate_too() -> None:
    """Else one of the two ways to encode writes NaN, which no other program reads."""
    value = {
        "a": float("inf"),
        "b": [float("nan"), -float("inf"), 1.5],
        "c": ("\ud800", 10**30, True, None),
    }
    assert (
        encode_json(value)
        == b'{"a":null,"b":[null,null,1.5],"c":["\\ud800",1000000000000000000000000000000,true,null]}'
    )


def test_half_pairs_that_meet_are_the_character_that_they_are() -> None:
    assert decode_json(encode_json("\ud83e" + "\uddf5"), str) == "🧵"


@pytest.mark.parametrize(
    "data",
    [b"", b"[1", b"\xff", b'"\\ud800', nested(10**6).encode()],
    ids=["empty", "cut", "no UTF-8", "cut escape", "a million levels"],
)
def test_decoding_what_is_no_json_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_json(data, object)


def test_decoding_another_kind_of_value_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="Expected `str`, got `int`"):
        decode_json(b'["\\ud800", 5]', list[str])


def test_parsing_stops_at_the_same_depth_on_every_python() -> None:
    assert parse_json(nested(LEVELS_MAX)) is not None
    with pytest.raises(ValueError, match="nested deeper than 200 levels"):
        parse_json(nested(LEVELS_MAX + 1))
    with pytest.raises(ValueError, match="nested deeper than 200 levels"):
        parse_json(DEEP)


def test_many_brackets_are_not_depth() -> None:
    assert parse_json("[" + ",".join(["[]"] * 1_000) + "]") == [[]] * 1_000
    assert parse_json(json.dumps("[" * 1_000)) == "[" * 1_000


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("1", 0),
        ("[]", 1),
        ('[{"a":[]},[]]', 3),
        ("[[],[],[]]", 2),
        ('["[[[["]', 1),
        ('["\\"[["]', 1),
    ],
)
def test_levels_are_those_of_brackets_outside_strings(text: str, levels: int) -> None:
    assert not is_deeper(text, levels)
    assert levels == 0 or is_deeper(text, levels - 1)


@given(st.lists(json_value, max_size=4), st.sampled_from([None, 1]))
def test_items_joined_are_the_array(values: list[object], indent: int | None) -> None:
    text = json.dumps(values, indent=indent)
    assert [json.loads(item) for item in items(text)] == json.loads(text)


@given(st.dictionaries(nasty_text, json_value, max_size=4), st.sampled_from([None, 1]))
def test_members_are_the_fields_of_the_object(
    values: dict[str, object], indent: int | None
) -> None:
    text = json.dumps(values, indent=indent)
    assert {name: json.loads(value) for name, value in members(text).items()} == json.loads(text)
    assert json.loads(object_of(members(text))) == json.loads(text)


def test_values_keep_the_text_they_came_as() -> None:
    assert items('[ 1e400 ,NaN, {"a" : 1.50, "a":2} ,"\\ud800"]') == [
        "1e400",
        "NaN",
        '{"a" : 1.50, "a":2}',
        '"\\ud800"',
    ]
    assert members(' {"a" :1.50 , "b,{": [ 1, 2 ] } ') == {"a": "1.50", "b,{": "[ 1, 2 ]"}
    assert members("{}") == {}
    assert items("[ ]") == []


@pytest.mark.parametrize(
    "text", ["", "1", "[1]", '{"a"}', "{1:2}", "{a:1}", '{"a" 1}', '{"a":1', "{,}", '{"\\x":1}']
)
def test_what_is_no_object_has_no_members(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        members(text)


@pytest.mark.parametrize("text", ["", "1", '{"a":1}', "[1"])
def test_what_is_no_array_has_no_items(text: str) -> None:
    with pytest.raises(ValueError, match="this is not a JSON array"):
        items(text)


def test_a_long_string_without_an_end_is_read_once() -> None:
    """Hours, if the search began again at each of its quotes; the suite's timeout sees that."""
    with pytest.raises(ValueError):
        members('{"a": "' + '\\"' * 1_000_000)
