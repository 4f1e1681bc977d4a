"""A yes or no at the bottom of the screen: what answers it, and what does not."""

from __future__ import annotations

import anyio
import pytest

from tests.tui.standing import THEME, standing
from treadle.tui.confirm import DEAF_S, Confirm

pytestmark = pytest.mark.anyio


async def said(*keys: str, danger: bool = False) -> bool:
    async with standing() as stage:
        given: list[bool] = []
        slot = Confirm(THEME, "Go on?", danger=danger, clock=lambda: now[0])
        now = [0.0]

        async def ask() -> None:
            given.append(await stage.screen.ask(slot))

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                await stage.sees("Go on?")
                now[0] = DEAF_S
                stage.press(*keys)
        return given[0]


@pytest.mark.parametrize(
    ("keys", "is_yes"),
    [
        ("y", True),
        ("n", False),
        ("1", True),
        ("2", False),
        ("\r", True),
        ("\t\r", False),
        ("\x1b[C\x1b[D\r", True),
        ("\x1b", False),
        ("\x03", False),
    ],
)
async def test_what_is_typed_answers(keys: str, is_yes: bool) -> None:
    assert await said(keys) is is_yes


async def test_where_it_is_dangerous_enter_alone_means_no() -> None:
    assert not await said("\r", danger=True)
    assert await said("\t\r", danger=True)


async def test_what_is_typed_on_when_it_appears_does_not_answer_but_escape_does() -> None:
    async with standing() as stage:
        now, given = [100.0], list[bool]()
        slot = Confirm(THEME, "Delete it?", clock=lambda: now[0])

        async def ask() -> None:
            given.append(await stage.screen.ask(slot))

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                await stage.sees("Delete it?")
                stage.press("y", "\r", "\t")
                now[0] += DEAF_S - 0.01
                stage.press("1")
                await anyio.wait_all_tasks_blocked()
                assert given == []
                stage.press("\x1b")
        assert given == [False]


async def test_a_long_question_is_cut_to_the_rows_there_are_and_keeps_its_answers() -> None:
    async with standing(columns=40, rows=10) as stage:
        slot = Confirm(
            THEME,
            "\n".join(f"file {n}" for n in range(50)) + "\nPut them back?",
            words=("Put back", "Leave"),
            columns=lambda: 40,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(stage.screen.ask, slot)
            shown = await stage.sees("Put back (y)")
            assert "Put them back?" in shown
            assert "more lines" in shown
            assert len(stage.rows()) <= 8
            group.cancel_scope.cancel()


async def test_a_question_hides_nothing_and_draws_no_escapes() -> None:
    slot = Confirm(THEME, "Overwrite \x1b[2Jfile\u202e?")
    slot.opened(5)
    text = "".join(text for _, text, *_ in slot._drawn())  # pyright: ignore[reportPrivateUsage]  what would be drawn
    assert "\x1b" not in text
    assert "\u202e" not in text
