"""The full-screen view, over a real screen: what it shows, what keys do, and that it lays out no
more than is seen.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest
from rich.console import RenderableType
from rich.text import Text

from tests.tui.standing import DOWN, END, ESCAPE, HOME, PAGE_DOWN, THEME, UP, Stage, standing
from treadle.tui.blocks import AnswerBlock, Block, CallBlock, NoticeBlock, PromptBlock
from treadle.tui.calling import Calling
from treadle.tui.drawing import Drawing
from treadle.tui.pages import Pages, RowPlace
from treadle.tui.viewer import view, view_text

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def viewing(
    blocks: Sequence[Block], columns: int = 60, rows: int = 10, *, at_end: bool = True
) -> AsyncGenerator[Stage]:
    """The view is open inside; it must be left by a key."""
    async with standing(columns, rows) as stage:
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:

                async def look() -> None:
                    await view(stage.screen, "Everything", blocks, at_end=at_end)

                group.start_soon(look)
                await stage.sees("Everything")
                yield stage


def notices(number: int) -> list[Block]:
    return [NoticeBlock(f"notice {n}", spaced=False) for n in range(number)]


def called(result: str) -> CallBlock:
    return CallBlock(
        call=Calling("Running", "Ran", "make"), name="bash", result=result, status="ok", seconds=0
    )


async def test_it_begins_at_the_end_or_at_the_beginning_and_goes_back_to_the_screen_below():
    async with viewing(notices(100)) as stage:
        assert stage.rows()[:9] == [f"notice {n}" for n in range(91, 100)]
        assert "\x1b[?1049h" in stage.out.getvalue()
        stage.press("q")
        await stage.sees("ask · no model")
    assert "\x1b[?1049l" in stage.out.getvalue()
    async with viewing(notices(100), at_end=False) as stage:
        assert stage.rows()[0] == "notice 0"
        stage.press(ESCAPE)


async def test_keys_move_by_rows_pages_and_to_the_ends():
    async with viewing(notices(100), at_end=False) as stage:
        for keys, first in (
            (DOWN, 1),
            (PAGE_DOWN, 9),
            (UP, 8),
            ("G", 91),
            (DOWN, 91),
            ("g", 0),
            (UP, 0),
            (END, 91),
            (HOME, 0),
            ("  ", 16),
            ("b", 8),
        ):
            stage.press(keys)
            await stage.sees(lambda text, first=first: text.startswith(f"notice {first}\n"))
        stage.press("\x0f")


async def test_a_search_finds_the_next_and_the_previous_and_goes_around_the_end():
    blocks = [
        *notices(50),
        PromptBlock("the Needle of a person"),
        AnswerBlock("an **answer** with a needle"),
        called("a needle in the haystack"),
        *notices(50),
    ]
    async with viewing(blocks, at_end=False) as stage:
        stage.press("/needle\r")
        for key, found in (
            ("", "Needle of a person"),
            ("n", "answer with a needle"),
            ("n", "haystack"),
            ("n", "Needle of a"),
            ("N", "haystack"),
        ):
            stage.press(key) if key else None
            await stage.sees(lambda text, found=found: found in text)
        stage.press("/nowhere\r")
        await stage.sees("'nowhere' was not found")
        stage.press("/\x1b", "q")


async def test_it_is_laid_out_anew_where_the_terminal_is_resized():
    blocks = [NoticeBlock("word " * 40), *notices(30)]
    async with viewing(blocks, at_end=False) as stage:
        assert stage.rows()[0] == ("word " * 12).strip()
        stage.resize(30, 8)
        await stage.sees(lambda text: text.startswith(("word " * 6).strip() + "\n"))
        stage.resize(100, 20)
        await stage.sees(lambda text: text.startswith(("word " * 20).strip() + "\n"))
        stage.press("q")


async def test_what_a_text_would_have_the_terminal_do_is_not_drawn():
    async with viewing(
        [called("\x1b]0;owned\x07a\x1b[2Jb\n" * 500), PromptBlock("\x1b[2J\u202esaid")]
    ) as stage:
        await stage.sees("said")
        stage.press("g")
        await stage.sees("ab")
        stage.press("q")
    assert "owned" not in stage.out.getvalue()
    assert "\u202e" not in stage.out.getvalue()


async def test_text_that_rich_draws_is_shown_from_its_beginning():
    async with standing(40, 8) as stage, anyio.create_task_group() as group:
        group.start_soon(
            view_text, stage.screen, "A diff", Text("\n".join(f"line {n}" for n in range(50)))
        )
        await stage.sees("A diff")
        assert stage.rows()[0] == "line 0"
        stage.press("q")


async def test_nothing_to_see_is_seen():
    async with viewing([]) as stage:
        stage.press("/x\r", "n")
        await stage.sees("was not found")
        stage.press(UP, "G", "q")


# ---------------------------------------------------------------- what is laid out


class Counting:
    spaced = True

    def __init__(self) -> None:
        self.drawn = 0

    def draw(self, drawing: Drawing, *, full: bool = False) -> RenderableType:
        assert full
        self.drawn += 1
        return Text("one\ntwo\nthree")


async def test_of_a_thousand_blocks_only_those_that_are_seen_are_laid_out_and_each_once():
    blocks = [Counting() for _ in range(1_000)]
    async with viewing(blocks, rows=20) as stage:
        assert 0 < sum(block.drawn for block in blocks) < 10
        stage.press(UP, DOWN, UP)
        await stage.sees("Everything")
        stage.press("q")
    assert max(block.drawn for block in blocks) == 1


def test_of_a_long_result_only_the_pieces_that_are_seen_are_laid_out():
    pages = Pages(THEME, [called("\n".join(f"line {n}" for n in range(50_000)))], 80)
    top = pages.end(20)
    assert [line[0][1] for _, line in pages.shown(top, 20)][-1] == "  │ line 49999"
    assert sum(piece.kept is not None for piece in pages._pieces) <= 2  # pyright: ignore[reportPrivateUsage]  what it must not have done is seen nowhere else
    found = pages.find("line 25000", RowPlace(0, 0), 1)
    assert found is not None
    assert pages.shown(found, 1)[0][1][0][1] == "  │ line 25000"


def test_words_are_found_where_a_line_was_broken_between_them():
    pages = Pages(
        THEME,
        [AnswerBlock("some words **before** a line that is broken between two of its words")],
        30,
    )
    for words in ("before a line", "that is broken between two", "between two of"):
        assert pages.find(words, RowPlace(0, -1), 1) is not None
    assert pages.find("Between two", RowPlace(0, -1), 1) is None


def test_moving_is_the_same_by_one_row_as_by_many():
    pages = Pages(
        THEME, [*notices(7), called("\n".join("xy" * n for n in range(500))), *notices(3)], 20
    )
    place, seen = RowPlace(0, 0), list[RowPlace]()
    while not seen or seen[-1] != place:
        seen.append(place)
        place = pages.moved(place, 1)
    assert len(seen) == len(set(seen))
    for at in range(0, len(seen), 97):
        assert pages.moved(RowPlace(0, 0), at) == seen[at]
        assert pages.moved(seen[-1], at - len(seen) + 1) == seen[at]
