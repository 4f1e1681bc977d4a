"""The question about a call: which keys answer it, which do not, and what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from tests.tui.standing import ESCAPE, THEME, standing
from treadle.asking import ApprovalRequest
from treadle.tui.approval import DEAF_S, Approval, Said
from treadle.tui.preview import Difference, Words, preview_of

pytestmark = pytest.mark.anyio

PATTERN = ("npm run *",)


async def said(*steps: str | float, pattern: Sequence[str] | None = PATTERN, command: str = "npm run build") -> tuple[Said, str]:
    """What was answered, and what went to the input. A number lets so many seconds pass."""
    now, given, typed = [100.0], list[Said](), list[str]()
    request = ApprovalRequest(
        run_id="r",
        session_id="s",
        parent_run_id=None,
        agent="a",
        call_id="c",
        name="bash",
        arguments={},
        reason="it runs",
        pattern=tuple(pattern) if pattern else None,
    )
    async with standing() as stage:
        slot = Approval(request, Words(command), THEME, view=lambda: None, typed=typed.append, columns=lambda: 80, clock=lambda: now[0])

        async def ask() -> None:
            given.append(await stage.screen.ask(slot))

        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                await stage.sees("may it run this command?")
                for step in steps:
                    if not isinstance(step, str):
                        now[0] += step
                        continue
                    heard = len(typed)
                    stage.press(step)
                    while len(typed) == heard and not given:
                        await anyio.sleep(0)
    return given[0], "".join(typed)


@pytest.mark.parametrize(("key", "scope"), [("y", "once"), ("s", "session"), ("a", "always"), ("n", "no"), ("\r", "once"), (ESCAPE, "no"), ("\x03", "no")])
async def test_each_answer_has_its_key(key: str, scope: str) -> None:
    assert (await said(DEAF_S, key))[0].scope == scope


async def test_what_comes_before_half_a_second_has_passed_answers_nothing_and_goes_to_the_input() -> None:
    assert await said("y", "e", "s", DEAF_S, "n") == (Said("no"), "yes")


async def test_each_key_that_is_not_heard_makes_it_deaf_for_another_half_second() -> None:
    assert await said(DEAF_S - 0.1, "y", DEAF_S - 0.1, "y", DEAF_S, "n") == (Said("no"), "yy")


async def test_escape_denies_at_once() -> None:
    assert await said(ESCAPE) == (Said("no"), "")


async def test_a_paste_was_meant_for_the_input() -> None:
    assert await said("\x1b[200~y\ny\n\x1b[201~", DEAF_S, "n") == (Said("no"), "y\ny\n")


async def test_where_no_rule_is_offered_its_letters_mean_nothing() -> None:
    assert await said(DEAF_S, "s", DEAF_S, "n", pattern=None) == (Said("no"), "s")


def test_what_is_asked_about_shows_everything_but_secrets(tmp_path: Path) -> None:
    (tmp_path / "a.env").write_text("KEY=hunter2\n")
    shown = preview_of(
        "write", {"path": "a.env", "content": "KEY=hunter2\nMORE=\x1b[31m\u202e\n"}, tmp_path, redact=lambda text: text.replace("hunter2", "[secret]")
    )
    assert "hunter2" not in str(shown)
    assert isinstance(shown, Difference)
    assert "\\x1b[31m\\u202e" in shown.after
