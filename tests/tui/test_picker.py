"""A list that is searched by typing, on a real screen whose keys come through a pipe."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tui.standing import (
    DOWN,
    END,
    ENTER,
    ESCAPE,
    HOME,
    PAGE_DOWN,
    THEME,
    UP,
    Stage,
    answered,
    standing,
)
from treadle.tui.matching import Matching
from treadle.tui.picker import Picker, PickerRow

MARK = THEME.glyphs.prompt

pytestmark = pytest.mark.anyio

FRUIT = ("apple", "banana", "cherry", "date", "elderberry")


def fruit(stage: Stage) -> Picker[str]:
    return Picker(
        stage.screen, "Which fruit?", [PickerRow(name, name, "a fruit") for name in FRUIT]
    )


async def test_enter_takes_the_row_under_the_cursor_and_escape_none():
    async with standing() as stage:
        assert await answered(stage, fruit(stage), ENTER) == "apple"
        assert await answered(stage, fruit(stage), DOWN, DOWN, UP, ENTER) == "banana"
        assert await answered(stage, fruit(stage), END, ENTER) == "elderberry"
        assert await answered(stage, fruit(stage), END, HOME, ENTER) == "apple"
        assert await answered(stage, fruit(stage), PAGE_DOWN, ENTER) == "elderberry"
        assert await answered(stage, fruit(stage), ESCAPE) is None
        assert await answered(stage, fruit(stage), DOWN, "\x03") is None


async def test_typing_keeps_the_rows_that_hold_all_words_then_those_with_the_letters_in_order():
    async with standing() as stage:
        assert await answered(stage, fruit(stage), "err", DOWN, ENTER) == "elderberry"
        assert await answered(stage, fruit(stage), "bnn", ENTER) == "banana"
        assert await answered(stage, fruit(stage), "FRUIT dat", ENTER) == "date"
        assert await answered(stage, fruit(stage), "zzz", ENTER, ESCAPE) is None


async def test_it_is_drawn_with_title_place_and_details():
    async with standing() as stage, anyio.create_task_group() as group:
        group.start_soon(stage.screen.ask, fruit(stage))
        text = await stage.sees("cherry")
        assert "Which fruit?  1 of 5   Enter selects, Esc cancels" in text
        assert f"{MARK} apple  a fruit" in text
        stage.press("zz")
        await stage.sees("No matches.")
        stage.press(ESCAPE)


async def test_it_works_in_a_terminal_of_twenty_columns_and_six_rows():
    async with standing(20, 6) as stage, anyio.create_task_group() as group:
        group.start_soon(
            stage.screen.ask,
            Picker(
                stage.screen,
                "T",
                [PickerRow("a label that is far too long " * 3, n, "x" * 50) for n in range(50)],
            ),
        )
        await stage.sees("a label")
        stage.press(END, UP)
        await stage.sees("a label")
        assert len(stage.rows()) <= 4
        assert all(len(row) < 20 for row in stage.rows())
        stage.press(ESCAPE)


async def test_a_preview_is_asked_for_when_its_row_is_reached_and_stands_beside_or_under_the_list():
    asked = list[str]()

    async def look(name: str) -> str:
        asked.append(name)
        return f"all about {name}\x1b[31m"

    for columns in (120, 60):
        asked.clear()
        async with standing(columns, 30) as stage, anyio.create_task_group() as group:
            group.start_soon(
                stage.screen.ask,
                Picker(
                    stage.screen, "Which?", [PickerRow(name, name) for name in FRUIT], preview=look
                ),
            )
            await stage.sees("all about apple")
            assert asked == ["apple"]
            stage.press(DOWN)
            text = await stage.sees("all about banana")
            assert any("│ all about banana" in row for row in text.splitlines()) is (columns == 120)
            assert "\x1b[31m" not in stage.out.getvalue()
            stage.press(ESCAPE)


async def test_rows_are_added_while_it_is_open_and_the_cursor_stays():
    got = list[str | None]()
    async with standing() as stage, anyio.create_task_group() as group:
        picker = fruit(stage)

        async def ask() -> None:
            got.append(await stage.screen.ask(picker))

        group.start_soon(ask)
        await stage.sees("apple")
        stage.press(DOWN)
        await stage.sees(f"{MARK} banana")
        picker.add([PickerRow("fig", "fig")])
        await stage.sees("fig")
        stage.press(ENTER)
    assert got == ["banana"]


async def test_what_a_search_finds_stands_behind_the_rows_that_hold_the_words():
    async def search(words: str) -> Sequence[PickerRow[str]]:
        return [PickerRow("date", "date"), PickerRow("a text with dat in it", "text")]

    got = list[str | None]()
    async with standing() as stage, anyio.create_task_group() as group:

        async def ask() -> None:
            got.append(
                await stage.screen.ask(
                    Picker(
                        stage.screen,
                        "Which?",
                        [PickerRow(name, name) for name in FRUIT],
                        search=search,
                    )
                )
            )

        group.start_soon(ask)
        await stage.sees("apple")
        stage.press("dat")
        text = await stage.sees("a text with dat in it")
        assert text.count("date") == 1
        stage.press(DOWN, ENTER)
    assert got == ["text"]


async def test_what_a_label_would_have_a_terminal_do_is_not_drawn():
    async with standing() as stage, anyio.create_task_group() as group:
        group.start_soon(
            stage.screen.ask,
            Picker(stage.screen, "T\x1b]0;x\x07", [PickerRow("a\x1b[2Jb\nc", 1, "d\u202ee")]),
        )
        assert f"{MARK} ab c  de" in await stage.sees("ab c")
        stage.press(ESCAPE)
    assert "\x1b]0;" not in stage.out.getvalue()


async def test_of_ten_thousand_rows_only_those_that_are_seen_are_drawn():
    drawn = list[int]()

    class Counted(PickerRow[int]):
        def __getattribute__(self, name: str) -> object:
            # which is read of every row that is under the cursor, and of none that is not
            if name == "preview":
                drawn.append(1)
            elif name == "label":
                drawn.append(0)
            return super().__getattribute__(name)

    async with standing() as stage, anyio.create_task_group() as group:
        picker = Picker(stage.screen, "Which?", [Counted(f"number {n}", n) for n in range(10_000)])
        drawn.clear()
        group.start_soon(stage.screen.ask, picker)
        await stage.sees("1 of 10,000")
        stage.press(END)
        await stage.sees("number 9999")
        assert 0 < len(drawn) < 1_000
        stage.press(ESCAPE)


def test_a_list_that_grows_is_searched_anew_and_a_shorter_word_finds_more():
    matching = Matching()
    matching.add([("alpha", ""), ("beta", "")])
    assert matching.find("alp") == ([0], [])
    assert matching.find("a") == ([0, 1], [])
    matching.add([("alpine", "eta")])
    assert matching.find("alp") == ([0, 2], [])
    assert matching.find("aln") == ([], [2])
    assert matching.find("eta") == ([1, 2], [])
    assert matching.find("alpt") == ([], [])
    assert matching.find("") == ([0, 1, 2], [])


@given(st.lists(st.text("abc ", max_size=6), max_size=8), st.text("abc ", max_size=6))
def test_what_is_typed_letter_by_letter_finds_what_is_typed_at_once(labels: list[str], words: str):
    slow, quick = Matching(), Matching()
    for matching in (slow, quick):
        matching.add((label, "") for label in labels)
    for end in range(len(words)):
        slow.find(words[:end])
    assert slow.find(words) == quick.find(words)
