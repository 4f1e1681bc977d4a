"""What is offered while one types: commands and what stands behind them, files below the directory,
and how they are drawn.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.document import Document

from tests.tui.standing import THEME
from treadle.config import load
from treadle.journal.session_store import SessionStore
from treadle.tui.file_names import FRESH_S, FileNames
from treadle.tui.suggestions import Suggestions

EVENT = CompleteEvent(text_inserted=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def offered(suggestions: Suggestions, text: str) -> list[Completion]:
    return [*suggestions.get_completions(Document(text), EVENT)]


def typed(suggestions: Suggestions, text: str) -> list[str]:
    """What the input would hold with each of them."""
    return [text[: len(text) + one.start_position] + one.text for one in offered(suggestions, text)]


def suggestions(folder: Path) -> Suggestions:
    return Suggestions(folder, load({"TREADLE_HOME": str(folder / "home")}, cwd=folder))


def files(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")


def git(folder: Path, *arguments: str) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    subprocess.run(
        ["git", "-c", "init.defaultBranch=main", *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
    )


# ---------------------------------------------------------------- commands


def test_a_slash_at_the_beginning_offers_commands_with_what_they_are_for(folder: Path) -> None:
    known = suggestions(folder)
    assert [one.text for one in offered(known, "/")] == [
        f"/{command.name}{' ' if command.usage else ''}" for command in known.commands
    ]
    (first, *_) = offered(known, "/mod")
    assert (first.text, first.display_text, first.display_meta_text) == (
        "/model ",
        "/model [NAME]",
        "choose the model",
    )
    assert typed(known, "/mod") == ["/model ", "/mode "]
    assert typed(known, "/ESS") == ["/sessions"]
    assert typed(known, "say /mod") == []
    assert typed(known, "first\n/mod") == []


def test_what_stands_behind_a_command_is_offered_where_it_is_known(folder: Path) -> None:
    known = suggestions(folder)
    assert typed(known, "/mode pl") == ["/mode plan"]
    assert typed(known, "/model haiku-5") == ["/model anthropic:claude-haiku-5-5"]
    assert typed(known, "/resume s") == []
    known.sessions = SessionStore()
    known.sessions.create("About\x1b[2J ducks", session_id="session_1")
    known.sessions.create("About geese", session_id="session_2")
    assert typed(known, "/resume ") == ["/resume last", "/resume session_2", "/resume session_1"]
    assert typed(known, "/resume ducks") == ["/resume session_1"]
    assert offered(known, "/resume ducks")[0].display_meta_text == "About ducks"
    assert typed(known, "/rename x") == typed(known, "/nothing x") == []


# ---------------------------------------------------------------- files


def test_an_at_sign_at_a_words_beginning_offers_files_and_directories(folder: Path) -> None:
    files(folder, "README.md", "src/app.py", "src/deep/inner.py")
    known = suggestions(folder)
    assert typed(known, "look at @") == ["look at @README.md", "look at @src/"]
    assert typed(known, "@app") == ["@src/app.py"]
    assert typed(known, "@src/d") == ["@src/deep/", "@src/deep/inner.py"]
    assert typed(known, "@./src/a") == ["@src/app.py"]
    assert typed(known, "first)@app") == typed(known, "mail@app") == typed(known, "@app ") == []
    assert typed(known, "(@app") == ["(@src/app.py"]
    assert typed(known, "first\n@app") == ["first\n@src/app.py"]


def test_what_is_likeliest_comes_first(folder: Path) -> None:
    files(
        folder,
        "xx/screen/y.py",
        "tui/screen.py",
        "tui/my_screen.py",
        "s_c_r_e_e_n.txt",
        "s/c/r/e/e/n",
        "SCREEN",
        "other.py",
    )
    assert typed(suggestions(folder), "@screen") == [
        "@SCREEN",
        "@xx/screen/",
        "@tui/screen.py",
        "@tui/my_screen.py",
        "@xx/screen/y.py",
        "@s_c_r_e_e_n.txt",
        "@s/c/r/e/e/n",
    ]


def test_names_with_spaces_are_quoted_and_those_that_could_not_be_written_left_out(
    folder: Path,
) -> None:
    files(
        folder,
        "my file.txt",
        'a"b.txt',
        "back\\slash.txt",
        "bad\x1b[2J.txt",
        "turn\u202eed.txt",
        "my folder/x.txt",
        "größe.txt",
        "a@b.md",
    )
    with suppress(OSError):  # some file systems have no such names
        (folder / os.fsdecode(b"raw\xff.txt")).touch()
    known = suggestions(folder)
    assert typed(known, "@txt") == [
        "@größe.txt",
        '@"my file.txt"',
        "@back\\slash.txt",
        '@"my folder/x.txt"',
    ]
    assert typed(known, '@"my f') == ['@"my folder/', '@"my file.txt"', '@"my folder/x.txt"']
    assert typed(known, "@a@") == []
    assert typed(known, '@"a@') == ['@"a@b.md"']
    assert typed(known, "@\x1b") == []


def test_a_repository_offers_what_git_does_not_ignore_and_starts_nothing_of_its_own(
    folder: Path,
) -> None:
    files(folder, "kept.py", "new.py", "build/out.py", "below/inner.py", "gone.py")
    (folder / ".gitignore").write_text("build/\n")
    git(folder, "init")
    git(folder, "add", "kept.py", "below", "gone.py")
    (folder / "monitor").write_text(f"#!/bin/sh\ntouch {folder / 'started'}\n")
    (folder / "monitor").chmod(0o755)
    git(folder, "config", "core.fsmonitor", str(folder / "monitor"))
    git(folder, "config", "core.untrackedCache", "true")
    (folder / "gone.py").unlink()
    names = FileNames(folder)
    assert names.find("py") == ["new.py", "kept.py", "below/inner.py"]
    assert FileNames(folder / "below").find("") == ["inner.py"]
    assert not (folder / "started").exists()


def test_outside_a_repository_what_gitignore_says_holds_too(folder: Path) -> None:
    files(folder, "kept.py", "build/out.py")
    (folder / ".gitignore").write_text("build/\n")
    assert FileNames(folder).find("py") == ["kept.py"]


def test_a_list_is_believed_for_some_seconds_and_then_made_anew_beside_what_is_typed(
    folder: Path,
) -> None:
    now = [0.0]
    names = FileNames(folder, clock=lambda: now[0])
    files(folder, "one.py")
    assert names.find("py") == ["one.py"]
    files(folder, "two.py")
    assert names.find("py") == ["one.py"]
    now[0] += FRESH_S + 1
    names.find("py")
    for thread in threading.enumerate():
        if thread.name == "treadle-file-names":
            thread.join()
    assert names.find("py") == ["one.py", "two.py"]
    (folder / "one.py").unlink()
    assert names.find("py") == ["two.py"]


def test_at_most_fifty_are_offered_of_very_many(folder: Path) -> None:
    for n in range(80):
        (folder / f"file_{n}.py").touch()
    assert len(FileNames(folder).find("f")) == 50


def test_another_word_is_looked_for_among_all_of_them(folder: Path) -> None:
    files(folder, "abc", "axyz", "xyz")
    names = FileNames(folder)
    assert [names.find(typed) for typed in ("x", "xz", "a", "ac", "acd", "ac")] == [
        ["xyz", "axyz"],
        ["xyz", "axyz"],
        ["abc", "axyz"],
        ["abc"],
        [],
        ["abc"],
    ]


LETTERS = st.text("abcAB_/. ü", min_size=1, max_size=6)


def in_order(letters: str, path: str) -> bool:
    rest: Iterable[str] = iter(path.casefold())
    return all(letter in rest for letter in letters.casefold())


@given(
    st.lists(
        st.text("abcAB_.ü", min_size=1, max_size=5).filter(lambda name: name.strip(".")),
        max_size=12,
        unique_by=str.casefold,
    ),
    st.lists(LETTERS, max_size=6),
)
def test_what_is_found_has_the_letters_in_order_whatever_was_typed_before(
    tmp_path_factory: pytest.TempPathFactory, paths: list[str], words: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("names")
    files(folder, *paths)
    names = FileNames(folder)
    for word in words:
        for length in range(1, len(word) + 1):
            assert sorted(names.find(word[:length])) == sorted(
                path for path in paths if in_order(word[:length], path)
            )


# ---------------------------------------------------------------- how they are drawn


def drawn(count: int, chosen: int | None, rows: int, width: int = 60) -> list[str]:
    buffer = Buffer()
    offered = [
        Completion(f"name{n}", display=f"name{n}", display_meta="what it is for")
        for n in range(count)
    ]
    if count:
        buffer.complete_state = CompletionState(Document(""), offered, chosen)
    lines = Suggestions(Path(), load({}, files=False)).drawn(buffer, rows, width, THEME)
    return ["".join(text for _, text, *_ in line) for line in lines]


def test_at_most_six_rows_are_drawn_around_the_chosen_one() -> None:
    assert drawn(0, None, 10) == []
    assert drawn(3, 1, 10) == [
        "  name0  what it is for",
        f"{THEME.glyphs.prompt} name1  what it is for",
        "  name2  what it is for",
    ]
    for chosen in range(20):
        lines = drawn(20, chosen, 10)
        assert len(lines) == 6
        assert [line.split()[1] for line in lines if line.startswith(THEME.glyphs.prompt)] == [
            f"name{chosen}"
        ]
    assert drawn(20, 19, 2)[-1].startswith(f"{THEME.glyphs.prompt} name19")
    assert drawn(20, 3, 0) == []
    assert max(map(len, drawn(5, 0, 5, width=12))) <= 12
