"""Another process swaps a directory for a link to a secret place, again and again: what was judged
is what is opened, or nothing is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import treadle
from tests.doubles import PlainTool, asks, call, says
from tests.tools.conftest import MakeContext
from treadle import Agent, ToolContext
from treadle.testing import ScriptedModel
from treadle.tools.builtin import ripgrep
from treadle.tools.builtin.edit import Edit
from treadle.tools.builtin.glob import Glob
from treadle.tools.builtin.grep import Grep
from treadle.tools.builtin.ls import Ls
from treadle.tools.builtin.read import Read
from treadle.tools.builtin.write import Write
from treadle.tools.tool import ToolFailed

READS = 5_000
FLIPPER = """
import itertools, os
made, turns = itertools.count(), itertools.cycle((("link", "aside"), ("aside", "link")))

def swap():
    appears, goes = next(turns)
    os.rename("sub", goes)
    while True:
        try:
            return os.rename(appears, "sub")
        except OSError:  # somebody has made the directory that was missing just now
            os.rename("sub", f"made-{next(made)}")
"""
LEAF_FLIPPER = """
import itertools, os
turns = itertools.cycle((True, False))

def swap():
    if next(turns):
        os.symlink(os.path.abspath("../outside/f"), "sub/new")
    else:
        with open("sub/new", "w") as file:
            file.write("mine\\n")
    os.replace("sub/new", "sub/f")
"""
TURNS = """
import sys
os.chdir(sys.argv[1])
print("flipping", flush=True)
while os.read(0, 65_536):
    for _ in range(int(sys.argv[2])):
        swap()
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows opens by path")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work, outside = tmp_path.resolve() / "work", tmp_path.resolve() / "outside"
    (work / "sub").mkdir(parents=True)
    outside.mkdir()
    (work / "sub" / "f").write_text("mine\n")
    (outside / "f").write_text("secret\n")
    (outside / "hidden").write_text("secret\n")
    (work / "link").symlink_to(outside)
    return work


@contextmanager
def flipping(work: Path, program: str = FLIPPER, *, swaps: int) -> Iterator[Callable[[], object]]:
    """Another process that swaps while calls are made; the function says that one begins.

    `swaps`: for the calls that have begun since the last ones, more than fit into a call. With an
    odd number it rests as often at the link as at what was there before.
    """
    with subprocess.Popen(
        [sys.executable, "-I", "-c", program + TURNS, str(work), str(swaps)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == b"flipping\n"
            yield partial(process.stdin.write, b"\n")
            assert process.poll() is None, "it flips until the end"
        finally:
            process.kill()


class Seen:
    """What came of calls."""

    def __init__(self, make_context: MakeContext, work: Path, place: str) -> None:
        self.context = make_context(work, places={place: str(work / place)})
        self.results: set[str] = set()
        self.words: set[str] = set()
        self.failures = 0

    async def call(self, tool: Any, **arguments: Any) -> None:
        try:
            self.results.add(
                str(await tool.execute(self.context, tool.parse(json.dumps(arguments))))
            )
        except ToolFailed as e:
            self.failures += 1
            self.words.add(e.message)

    def told_of(self, *words: str) -> bool:
        return any(word in text for word in words for text in self.words | self.results)


@pytest.mark.parametrize("program", [FLIPPER, LEAF_FLIPPER], ids=["a directory", "the file itself"])
async def test_five_thousand_reads_show_nothing_of_another_place(
    make_context: MakeContext, work: Path, program: str
) -> None:
    seen, read = Seen(make_context, work, "sub/f"), Read()
    with flipping(work, program, swaps=101) as begins:
        for _ in range(READS):
            begins()
            await seen.call(read, path="sub/f")
    assert seen.results == {"     1\tmine"}
    assert seen.failures > 0, "some calls met the link"
    assert not seen.told_of("secret", "hidden")


async def test_a_directory_is_listed_where_it_was_judged(
    make_context: MakeContext, work: Path
) -> None:
    seen, ls, glob = Seen(make_context, work, "sub"), Ls(), Glob()
    with flipping(work, swaps=101) as begins:
        for _ in range(300):
            begins()
            await seen.call(ls, path="sub")
            begins()
            await seen.call(glob, pattern="*", path="sub")
    assert seen.results <= {"f  5", "f (gone)", "sub/f", "No file matches '*' in 'sub'."}
    assert {"f  5", "sub/f"} <= seen.results
    assert not seen.told_of("secret", "hidden")


@pytest.mark.parametrize("program", [FLIPPER, LEAF_FLIPPER], ids=["a directory", "the file itself"])
@pytest.mark.parametrize("path", [".", "sub", "sub/f"])
@pytest.mark.skipif(
    ripgrep.find_ripgrep(os.environ, Path("/nowhere")) is None, reason="there is no ripgrep here"
)
async def test_a_search_by_another_program_shows_nothing_of_another_place(
    make_context: MakeContext, work: Path, program: str, path: str
) -> None:
    seen, grep = Seen(make_context, work, path), Grep()
    with flipping(work, program, swaps=2_001) as begins:
        for _ in range(100):
            begins()
            await seen.call(grep, path=path, pattern="secret$|mine$")
    assert not any(":secret" in text or "hidden" in text for text in seen.results | seen.words)


async def test_what_is_written_appears_nowhere_else(make_context: MakeContext, work: Path) -> None:
    seen, write, edit, outside = (
        Seen(make_context, work, "sub/new"),
        Write(),
        Edit(),
        work.parent / "outside",
    )
    before = {path.name: path.read_text() for path in outside.iterdir()}
    with flipping(work, swaps=301) as begins:
        for i in range(400):
            begins()
            await seen.call(write, path="sub/new", content=f"{i}\n")
            begins()
            await seen.call(edit, path="sub/new", edits=[{"old": f"{i}", "new": f"{i} edited"}])
    assert {path.name: path.read_text() for path in outside.iterdir()} == before
    assert not [path for path in work.rglob(".treadle-*")]
    assert len(seen.results) > 1


async def test_a_link_that_appears_between_the_decision_and_the_call_leads_nowhere(
    work: Path,
) -> None:
    """Both calls of the turn are judged; the first then does what the attacker would."""

    async def swap(ctx: ToolContext[Any], arguments: Any) -> str:
        (work / "sub").rename(work / "aside")
        (work / "link").rename(work / "sub")
        return "swapped"

    script = [
        asks(call("swap"), call("read", path="sub/f"), call("grep", path="sub", pattern="secret")),
        says("ok"),
    ]
    agent = Agent(
        name="a",
        model=ScriptedModel(script),
        tools=[PlainTool(name="swap", does=swap, parallel=False), Read(), Grep()],
    )
    result = await treadle.run(agent, "go", cwd=work)
    swapped, *others = [part for message in result.new_messages for part in message.tool_results]
    assert swapped.text == "swapped"
    assert all(part.is_error for part in others)
    assert not any("secret" in part.text for part in others)


async def test_without_a_judgement_a_path_leads_where_it_leads(
    make_context: MakeContext, work: Path
) -> None:
    read = Read()
    shown = await read.execute(make_context(work), read.parse('{"path": "link/f"}'))
    assert shown == "     1\tsecret"
    with pytest.raises(ToolFailed):
        await read.execute(
            make_context(work, places={"link/f": str(work / "link" / "f")}),
            read.parse('{"path": "link/f"}'),
        )
