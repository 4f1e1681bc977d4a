"""No secret passes a sink: known values in every form in which they travel, and what looks like a
credential.
"""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle._internal.redaction import Redactor, Secret
from treadle._internal.secret_patterns import MASK
from treadle.messages.message import Message, TextPart, ToolCall
from treadle.types import Outcome

CANARY = "sk-ant-api03-CANARY-9f3b2c7d1e"
ODD = 'pa"ss\\wörd /+%x'
CONTEXTS = ("", "key is ", "äöü", '{"a": "', "x" * 1000)


@pytest.mark.parametrize("before", CONTEXTS)
@pytest.mark.parametrize("secret", [CANARY, ODD])
def test_a_known_value_is_taken_out_of_any_context(before: str, secret: str) -> None:
    assert Redactor([secret]).exact(f"{before}{secret}{before}") == f"{before}{MASK}{before}"


@pytest.mark.parametrize("secret", [CANARY, ODD, "12345678"])
def test_a_known_value_is_found_in_the_forms_in_which_it_travels(secret: str) -> None:
    forms = [
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        quote(secret, safe=""),
        quote(secret, safe="").lower() if secret == ODD else secret,
    ]
    for form in forms:
        assert Redactor([secret]).exact(f"<{form}>") == f"<{MASK}>"


@pytest.mark.parametrize("user", ["", "a:", "ab:", "abc:", "user name:"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("secret", [CANARY, ODD, "??>>~~ÿÿ"])
def test_a_known_value_is_found_in_base64_wherever_it_begins(
    user: str, encode: type[bytes], secret: str
) -> None:
    text = encode(f"{user}{secret}@host".encode()).decode()
    clean = Redactor([secret]).exact(text)
    assert MASK in clean
    kept = clean.split(MASK)
    assert len(kept[0]) <= len(user.encode()) * 4 // 3 + 2


def test_short_values_are_left_alone() -> None:
    assert Redactor(["1234567", "", "a"]).exact("1234567 a") == "1234567 a"


def test_a_value_that_the_mask_contains_cannot_be_hidden_by_it() -> None:
    assert Redactor(["redacted", "[redacted]"]).exact("redacted") == "redacted"


def test_of_overlapping_values_nothing_is_left() -> None:
    assert (
        Redactor(["abcdefgh", "bcdefghijkl", "efghijklmnop"]).exact("_abcdefghijklmnop_")
        == f"_{MASK}_"
    )
    assert Redactor(["abcdefghijklmnop", "cdefghij"]).exact("_abcdefghijklmnop_") == f"_{MASK}_"


def test_every_occurrence_is_taken_out_and_nothing_beside_it() -> None:
    assert Redactor([CANARY]).exact(f"{CANARY}, " * 100) == f"{MASK}, " * 100


@pytest.mark.parametrize(
    "secret", ["x[redacted]", "[redacted][", "]abcdefgh", "abcdefg[", "d][redac"]
)
def test_a_value_that_looks_like_the_mask_does_not_come_back(secret: str) -> None:
    redactor = Redactor([secret, "a-plain-secret"])
    for text in (
        secret * 50,
        f"x{secret}[",
        "xa-plain-secret[",
        "a-plain-secretabcdefgha-plain-secret[[[[[[[[[[[[[[[[[[",
    ):
        clean = redactor.exact(text)
        assert secret not in clean
        assert redactor.exact(clean) == clean


SECRETS = st.lists(
    st.text(min_size=8, max_size=40).filter(lambda s: s not in MASK), min_size=1, max_size=4
)


@given(
    secrets=SECRETS,
    pieces=st.lists(st.one_of(st.text(max_size=30), st.integers(0, 3)), max_size=12),
)
def test_no_known_value_survives_in_any_text(secrets: list[str], pieces: list[str | int]) -> None:
    text = "".join(p if isinstance(p, str) else secrets[p % len(secrets)] for p in pieces)
    redactor = Redactor(secrets)
    clean = redactor.exact(text)
    assert not [s for s in secrets if s in clean]
    assert redactor.exact(clean) == clean
    if (
        not any(s in text for s in secrets)
        and not any(isinstance(p, int) for p in pieces)
        and MASK not in clean
    ):
        assert clean == text


@given(st.text())
def test_text_without_known_values_is_not_touched_by_exact(text: str) -> None:
    assert Redactor([CANARY]).exact(text) == text


# ---------------------------------------------------------------- in pieces


def masked(redactor: Redactor, pieces: list[str]) -> list[str]:
    """What leaves with each piece, and at the end."""
    masking = redactor.masking()
    return [*map(masking.add, pieces), masking.end()]


def test_a_value_that_is_cut_anywhere_does_not_leave() -> None:
    for cut in range(len(CANARY) + 1):
        left = masked(Redactor([CANARY]), [f"my key: {CANARY[:cut]}", f"{CANARY[cut:]}, said he"])
        assert "".join(left) == f"my key: {MASK}, said he"


def test_only_what_may_be_the_beginning_of_a_value_waits() -> None:
    left = masked(Redactor(["sk-ant-1234"]), ["no", " s", "o", " sk-", "a", "x", "sk"])
    assert left == ["no", " ", "so", " ", "", "sk-ax", "", "sk"]


def test_what_waits_is_given_at_the_end_and_the_next_text_is_another() -> None:
    masking = Redactor(["sk-ant-1234"]).masking()
    assert (masking.add("x sk-ant-12"), masking.end(), masking.add("34"), masking.end()) == (
        "x ",
        "sk-ant-12",
        "34",
        "",
    )


def test_the_longest_of_several_values_is_waited_for() -> None:
    redactor = Redactor(["abcdefgh", "abcdefghijkl", "efghijklmnop"])
    assert masked(redactor, ["_abcdefgh", "_"]) == ["_", f"{MASK}_", ""]
    assert masked(redactor, ["_abcdefgh", "ijkl", "mno", "p_"]) == ["_", "", "", f"{MASK}_", ""]
    assert masked(redactor, ["_abcdefgh", "ijkl", "mno"]) == ["_", "", "", f"{MASK}mno"]


@pytest.mark.parametrize(
    "secret", ["]abcdefgh", "abcdefg[", "d][redac", "[redacted][", "x[redacted]"]
)
def test_in_pieces_too_a_value_that_looks_like_the_mask_does_not_come_back(secret: str) -> None:
    redactor = Redactor([secret, "a-plain-secret"])
    for text in (
        secret * 7,
        f"x{secret}[",
        "xa-plain-secret[",
        "abcdefga-plain-secretabcdefgha-plain-secret[[[[[[",
    ):
        assert "".join(masked(redactor, list(text))) == redactor.exact(text)


@pytest.mark.parametrize("passes", range(1, 9))
def test_in_pieces_as_often_is_looked_again_as_in_the_whole(passes: int) -> None:
    """Each pass leaves a mask that makes the value anew with what stands behind it."""
    redactor = Redactor(["]abcdefgh"])
    text = "x]" + "abcdefgh" * passes + "."
    assert redactor.exact(text) == "x" + "[redacted" * (passes - 1) + f"{MASK}."
    assert "".join(masked(redactor, list(text))) == redactor.exact(text)
    assert redactor.exact("x]" + "abcdefgh" * 9) == MASK


ALIKE = st.lists(st.text(st.sampled_from("ab"), min_size=8, max_size=12), min_size=1, max_size=3)


@given(secrets=st.one_of(SECRETS, ALIKE), said=st.data(), size=st.integers(1, 12))
def test_however_a_text_is_cut_its_pieces_leave_as_the_whole_would(
    secrets: list[str], said: st.DataObject, size: int
) -> None:
    value = st.sampled_from(secrets)
    part = st.one_of(
        value,
        value.map(lambda s: s[: len(s) // 2]),
        value.map(lambda s: s[len(s) // 2 :]),
        st.text(max_size=8),
        st.text("ab", max_size=8),
    )
    text = "".join(said.draw(st.lists(part, max_size=12)))
    redactor = Redactor(secrets)
    left = masked(redactor, [text[i : i + size] for i in range(0, len(text), size)])
    assert "".join(left) == redactor.exact(text)
    assert not [s for s in secrets if s in "".join(left)]


@given(st.lists(st.text(st.characters(exclude_characters="sczN"))))
def test_pieces_in_which_no_form_of_a_value_begins_leave_at_once(pieces: list[str]) -> None:
    assert masked(Redactor([CANARY]), pieces) == [*pieces, ""]


# ---------------------------------------------------------------- texts that were cut


@pytest.mark.parametrize("secret", [CANARY, "AbCdEfGh0123456789xYz"])
def test_half_a_value_does_not_survive_where_a_text_was_cut(secret: str) -> None:
    redactor = Redactor([secret])
    for size in range(8, len(secret)):
        assert redactor.shortened(f"key {secret[:size]}…") == f"key {MASK}…"
        assert redactor.shortened(f"…{secret[-size:]} is it") == f"…{MASK} is it"
    assert (
        redactor.shortened(f"…{secret[-9:]} and {secret} and {secret[:9]}…")
        == f"…{MASK} and {MASK} and {MASK}…"
    )
    assert redactor.shortened(f"…{secret[2:-2]}…") == f"…{MASK}…"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "…",
        "……",
        f"key {CANARY[:9]}",
        f"{CANARY[:9]} and more…",
        f"…more {CANARY[-9:]}",
        f"{CANARY[:7]}…",
        *(f"…{CANARY[2:-2]}", f"{CANARY[2:-2]}…", f"…{CANARY[2:9]}…"),
    ],
)
def test_what_is_no_half_of_a_value_stays(text: str) -> None:
    assert Redactor([CANARY]).shortened(text) == text


# ---------------------------------------------------------------- inside values


def test_texts_inside_values_are_redacted_wherever_they_stand() -> None:
    call = ToolCall(id="c", name="send", arguments_json=f'{{"to": "{CANARY}"}}')
    message = Message.assistant([TextPart(text=f"It is {CANARY}."), call])
    clean = Redactor([CANARY]).inside(message)
    assert (clean.text, clean.tool_calls[0].arguments) == (f"It is {MASK}.", {"to": MASK})
    assert (clean.id, clean.role, clean.created_at) == (
        message.id,
        message.role,
        message.created_at,
    )


def test_keys_and_numbers_of_json_are_texts_too() -> None:
    value = {"pin": 12345678, "12345678": [True, None, 1.5, "x12345678"], "n": 1234567}
    assert Redactor(["12345678"]).inside(value) == {
        "pin": MASK,
        MASK: [True, None, 1.5, f"x{MASK}"],
        "n": 1234567,
    }


def test_a_tuple_inside_of_json_is_a_list() -> None:
    assert Redactor([CANARY]).inside({"a": ({"b": f"x {CANARY}"}, 1)}) == {
        "a": [{"b": f"x {MASK}"}, 1]
    }


def test_a_value_in_which_nothing_is_found_is_the_same_object() -> None:
    message = Message.assistant("All is well.")
    assert Redactor([CANARY]).inside(message) is message
    assert Redactor(["completed"]).inside(Outcome.COMPLETED) is Outcome.COMPLETED


def test_a_secret_shows_at_most_its_end() -> None:
    assert CANARY not in f"{Secret(CANARY)} {Secret(CANARY)!r} {[Secret(CANARY)]}"
    assert str(Secret(CANARY)) == "set (ends …7d1e)"
    assert str(Secret("only15characte")) == "set"
    assert Secret(CANARY).reveal() == CANARY
    assert Secret(CANARY) == Secret(CANARY)
    assert Secret(CANARY) != CANARY
    assert len({Secret(CANARY), Secret(CANARY), Secret("x")}) == 2
