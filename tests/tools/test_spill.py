"""Files for what is too long: private, readable again, and gone when the runtime closes."""

from __future__ import annotations

import re
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import PlainTool, agent, asks, call, gives, says
from treadle import RunResult, Runtime, ToolContext
from treadle.tools.builtin.read import Read
from treadle.tools.spill import Spill


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def spill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = Spill()
    yield made
    made.close()


def test_nothing_is_made_before_it_is_needed(spill: Spill, tmp_path: Path) -> None:
    spill.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "one\r\ntwo\n\tthree", "café 🧵", "x" * 3_000_000])
def test_what_is_written_can_be_read_on_as_it_was(spill: Spill, text: str) -> None:
    assert spill.write(text).read_bytes().decode() == text


def test_what_utf8_cannot_hold_is_replaced(spill: Spill) -> None:
    assert spill.write("a\ud800b").read_text() == "a?b"


def test_only_the_user_can_read_it(spill: Spill) -> None:
    path = spill.write("secret")
    assert mode(path) == 0o600
    assert mode(path.parent) == 0o700
    assert path.parent == spill.directory()


def test_two_texts_are_two_files(spill: Spill) -> None:
    paths = [spill.write(f"{n}") for n in range(20)]
    assert len(set(paths)) == 20
    assert [path.read_text() for path in paths] == [f"{n}" for n in range(20)]


def test_threads_share_one_directory(spill: Spill) -> None:
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(spill.write, [f"{n}" for n in range(64)]))
    assert {path.parent for path in paths} == {spill.directory()}
    assert sorted(int(path.read_text()) for path in paths) == list(range(64))


def test_closing_takes_everything_away_once_and_for_all(spill: Spill, tmp_path: Path) -> None:
    path = spill.write("x")
    spill.close()
    spill.close()
    assert not path.exists()
    assert list(tmp_path.iterdir()) == []


def test_after_closing_nothing_is_left_behind_by_a_late_thread(
    spill: Spill, tmp_path: Path
) -> None:
    """A sync tool's thread cannot be stopped, and may still write when nobody is there to clean up."""
    spill.close()
    with pytest.raises(OSError, match="closed"):
        spill.write("late")
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- whose they are


OUTPUT = re.compile(r"/\S*/output-\w+\.txt")
MUCH = gives("much", "a word of mine\n" * 5_000, effect="pure")


async def has_a_child_say_much(ctx: ToolContext[Any], arguments: object) -> str:
    result = await ctx.spawn(agent([asks(call("much", "m1")), says("done")], MUCH), "go")
    return OUTPUT.findall(told(result))[0]


def told(result: RunResult[Any]) -> str:
    return [one.text for message in result.messages for one in message.tool_results][-1]


@pytest.mark.parametrize(
    "saying",
    [MUCH, PlainTool(name="ask", does=has_a_child_say_much, effect="pure")],
    ids=["itself", "its child"],
)
async def test_the_long_outputs_of_a_session_are_read_by_it_and_by_nobody_else(
    tmp_path: Path, saying: PlainTool
) -> None:
    """One runtime for many users, of whom one tells another the path."""
    async with Runtime.open() as runtime:

        async def run(session: str, asked: dict[str, Any], tool: Any) -> str:
            return told(
                await runtime.run(
                    agent([asks(asked), says("done")], tool),
                    "go",
                    session=session,
                    mode="ask",
                    cwd=tmp_path,
                )
            )

        (path,) = set(OUTPUT.findall(await run("ada", call(saying.name, "c1"), saying)))
        assert "a word of mine" in await run("ada", call("read", "c2", path=path), Read())
        assert "a word of mine" not in await run("eve", call("read", "c3", path=path), Read())
