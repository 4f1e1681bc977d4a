"""The question about a call: which keys answer it, which do not, and what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.tui.standing import ESCAPE, THEME, standing
from treadle.tools.approval import ApprovalRequest
from treadle.tui.approval import DEAF_S, Approval, ApprovalReply, Around
from treadle.tui.preview import FileDifference, Patch, Preview, TextPreview, preview_of

pytestmark = pytest.mark.anyio

PATTERN = ("npm run *",)
UP, DOWN = "\x1b[A", "\x1b[B"


async def said(
    *steps: str | float,
    pattern: Sequence[str] | None = PATTERN,
    command: str = "npm run build",
    preview: Preview | None = None,
    seen: Sequence[str] = (),
    **asked: Any,
) -> tuple[ApprovalReply, str]:
    """The answer, and what went to the input.

    A number lets so many seconds pass; `seen` must stand on the screen before.
    """
    now, given, typed = [100.0], list[ApprovalReply](), list[str]()
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
        **asked,
    )
    async with standing() as stage:
        around = Around(
            view=lambda: typed.append("<all>"),
            typed=typed.append,
            columns=lambda: 80,
            cycle_mode=lambda: typed.append("<mode>"),
        )
        slot = Approval(
            request, preview or TextPreview(command), THEME, around, clock=lambda: now[0]
        )

        async def ask() -> None:
            given.append(await stage.screen.ask(slot))

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                await stage.sees("Run this command?")
                assert [text for text in seen if text not in stage.text] == [], stage.text
                for step in steps:
                    if not isinstance(step, str):
                        now[0] += step
                        continue
                    heard = len(typed)
                    stage.press(step)
                    while len(typed) == heard and not given:
                        await anyio.sleep(0)
    return given[0], "".join(typed)


@pytest.mark.parametrize(
    ("key", "scope"),
    [
        ("y", "once"),
        ("s", "session"),
        ("a", "always"),
        ("n", "no"),
        (f"{DOWN}{UP}\r", "once"),
        (ESCAPE, "no"),
        ("\x03", "no"),
    ],
)
async def test_each_answer_has_its_key(key: str, scope: str) -> None:
    assert (await said(DEAF_S, key))[0].scope == scope


async def test_enter_takes_no_choice_before_the_selection_was_moved() -> None:
    """C12: it ends what a person is typing, and the first choice is a yes."""
    assert await said(DEAF_S, "\rn") == (ApprovalReply("no"), "")


async def test_what_comes_before_half_a_second_has_passed_answers_nothing_and_goes_to_the_input() -> (
    None
):
    assert await said("y", "e", "s", DEAF_S, "n") == (ApprovalReply("no"), "yes")


async def test_each_key_that_is_not_heard_makes_it_deaf_for_another_half_second() -> None:
    assert await said(DEAF_S - 0.1, "y", DEAF_S - 0.1, "y", DEAF_S, "n") == (
        ApprovalReply("no"),
        "yy",
    )


async def test_escape_denies_at_once() -> None:
    assert await said(ESCAPE) == (ApprovalReply("no"), "")


async def test_a_paste_was_meant_for_the_input() -> None:
    assert await said("\x1b[200~y\ny\n\x1b[201~", DEAF_S, "n") == (ApprovalReply("no"), "y\ny\n")


async def test_where_no_rule_is_offered_its_letters_mean_nothing() -> None:
    assert await said(DEAF_S, "s", DEAF_S, "n", pattern=None) == (ApprovalReply("no"), "s")


def test_what_is_asked_about_shows_everything_but_secrets(tmp_path: Path) -> None:
    (tmp_path / "a.env").write_text("KEY=hunter2\n")
    shown = preview_of(
        "write",
        {"path": "a.env", "content": "KEY=hunter2\nMORE=\x1b[31m\u202e\n"},
        tmp_path,
        redact=lambda text: text.replace("hunter2", "[secret]"),
    )
    assert "hunter2" not in str(shown)
    assert isinstance(shown, FileDifference)
    assert "\\x1b[31m\\u202e" in shown.after


SCRIPT = "\n".join(
    ["cat > setup.sh <<'END'", *(f"echo step {n}" for n in range(60)), "rm -rf ~/important", "END"]
)
ONE_LINE = FileDifference("a.py", "", f"x = '{'a' * 300}'; import os; os.system('rm -rf ~')\n")
CHANGED = "    total = sum(price * quantity for _, price, quantity in self.lines if quantity > minimum and not price)"


@pytest.mark.parametrize(
    ("preview", "seen"),
    [
        (ONE_LINE, ["import os; os.system('rm -rf ~')"]),
        (FileDifference("a.py", "pass\n", f"{CHANGED}\n"), ["and not price)"]),
        (
            TextPreview(f"echo {'a' * 300}; rm -rf ~/important", is_command=True),
            ["rm -rf ~/important"],
        ),
    ],
)
async def test_a_long_line_is_wrapped_and_never_cut(preview: Preview, seen: list[str]) -> None:
    assert await said(DEAF_S, "y", preview=preview, seen=seen) == (ApprovalReply("once"), "")


async def test_a_line_longer_than_any_screen_is_shown_whole() -> None:
    stage = FileDifference("a.py", "", f"x = '{'a' * 5_000}'; import os\n")
    assert (await said(DEAF_S, "d", DEAF_S, "y", preview=stage))[0] == ApprovalReply("once")


@pytest.mark.parametrize("key", ["y", "s", "a", f"{DOWN}{UP}\r"])
async def test_what_is_not_all_on_the_screen_has_to_be_viewed_before_it_is_approved(
    key: str,
) -> None:
    """The unanswered yes is followed by a no, which must be the answer."""
    seen = ["more lines: d shows all", "rm -rf ~/important", "Not all of it is visible"]
    now, given = [100.0], list[ApprovalReply]()
    request = ApprovalRequest(
        run_id="r",
        session_id="s",
        parent_run_id=None,
        agent="a",
        call_id="c",
        name="bash",
        arguments={},
        reason="it writes",
        pattern=PATTERN,
    )
    viewed = list[str]()
    async with standing() as stage:
        around = Around(view=lambda: viewed.append("all"), typed=viewed.append, columns=lambda: 80)
        slot = Approval(
            request, TextPreview(SCRIPT, is_command=True), THEME, around, clock=lambda: now[0]
        )

        async def ask() -> None:
            given.append(await stage.screen.ask(slot))

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                await stage.sees("Run this command?")
                assert [text for text in seen if text not in stage.text] == [], stage.text
                now[0] += DEAF_S
                stage.press(key, "d")
                while not viewed:
                    await anyio.sleep(0)
                assert given == [], "nothing is approved that was not shown"
                await stage.sees("d view full")
                stage.press(key)
    assert given[0].scope != "no"


async def test_a_small_screen_says_why_a_yes_does_nothing() -> None:
    request = ApprovalRequest(
        run_id="r",
        session_id="s",
        parent_run_id=None,
        agent="a",
        call_id="c",
        name="bash",
        arguments={},
        reason="it writes",
    )
    for rows in range(3, 12):
        slot = Approval(
            request,
            TextPreview(SCRIPT, is_command=True),
            THEME,
            Around(view=lambda: None, typed=lambda _: None, columns=lambda: 80),
        )
        slot.opened(rows)
        drawn = ["".join(text for _, text, *_ in line) for line in slot._drawn()]  # pyright: ignore[reportPrivateUsage]
        assert len(drawn) <= rows
        assert any("Not all of it is visible" in line for line in drawn), drawn


@pytest.mark.parametrize("key", ["e", "\x1b[Z"])
async def test_edits_can_be_accepted_for_the_session_in_the_question(key: str) -> None:
    seen = ["e Yes, and accept edits from now on (Shift-Tab)"]
    assert (await said(DEAF_S, key, is_edit=True, seen=seen))[0] == ApprovalReply("edits")


async def test_shift_tab_changes_the_mode_where_the_question_is_not_about_an_edit() -> None:
    assert await said(DEAF_S, "\x1b[Z", DEAF_S, "n") == (ApprovalReply("no"), "<mode>")


async def test_the_question_says_how_many_calls_wait() -> None:
    await said(DEAF_S, "n", number=1, of=3, seen=["a asks (1 of 3): Run this command?"])


PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-one\n+1\n*** Add File: new/b.py\n+import os\n+\x1b[31mred\n*** Delete File: c.py\n*** End Patch"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("one\ntwo\n")
    (tmp_path / "c.py").write_text("all that goes\n")
    return tmp_path


async def test_a_patch_shows_each_file_with_what_becomes_of_it(tree: Path) -> None:
    preview = preview_of("apply_patch", {"input": PATCH}, tree)
    seen = [
        "a.py",
        "- one",
        "+ 1",
        "new/b.py (new file)",
        "+ import os",
        "+ \\x1b[31mred",
        "c.py (deleted)",
        "- all that goes",
    ]
    assert await said(DEAF_S, "y", preview=preview, seen=seen) == (ApprovalReply("once"), "")


def test_an_operation_of_the_responses_api_is_shown_as_a_patch_of_one_file(tree: Path) -> None:
    operation = {"type": "update_file", "path": "a.py", "diff": "@@\n-two\n+2"}
    assert preview_of("apply_patch", {"operation": operation}, tree) == Patch(
        (FileDifference("a.py", "one\ntwo\n", "one\n2\n"),)
    )
    moved = "*** Begin Patch\n*** Update File: a.py\n*** Move to: z.py\n*** End Patch"
    assert preview_of("apply_patch", {"input": moved}, tree) == Patch(
        (FileDifference("a.py", "one\ntwo\n", "one\ntwo\n", " (moved to z.py)"),)
    )


@pytest.mark.parametrize(
    "given",
    [
        "*** Begin Patch\n*** Update File: a.py\n@@\n-nowhere\n+1\n*** End Patch",
        "*** Begin Patch\n*** Update File: missing.py\n@@\n-one\n+1\n*** End Patch",
        "rm -rf ~ is no patch",
    ],
)
def test_a_patch_that_does_not_fit_is_shown_as_it_was_said(tree: Path, given: str) -> None:
    assert preview_of("apply_patch", {"input": given}, tree) == TextPreview(given)


@pytest.mark.parametrize("name", ["write", "apply_patch"])
def test_what_is_too_different_to_be_compared_is_shown_whole(tree: Path, name: str) -> None:
    lines = [f"line {n}" for n in range(5_000)]
    patched = "\n".join(
        ["*** Begin Patch", "*** Add File: b.py", *(f"+{line}" for line in lines), "*** End Patch"]
    )
    arguments = (
        {"path": "b.py", "content": "\n".join(lines)} if name == "write" else {"input": patched}
    )
    shown = preview_of(name, arguments, tree)
    assert isinstance(shown, TextPreview)
    assert all(line in shown.text for line in lines)
    assert "b.py" in shown.text


async def test_a_patch_that_is_not_all_on_the_screen_says_so(tree: Path) -> None:
    long = "\n".join(
        [
            "*** Begin Patch",
            "*** Add File: b.py",
            *(f"+line {n}" for n in range(60)),
            "*** Delete File: c.py",
            "*** End Patch",
        ]
    )
    preview = preview_of("apply_patch", {"input": long}, tree)
    assert (
        await said(
            DEAF_S,
            "d",
            DEAF_S,
            "y",
            preview=preview,
            seen=["more lines: d shows all", "- all that goes", "Not all of it is visible"],
        )
    )[0] == ApprovalReply("once")
