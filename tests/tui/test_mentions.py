"""Files that are named in what a person says."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.messages.message import MediaPart, Part, TextPart
from treadle.tui.mentions import mentions_of, parts_of


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text("one\ntwo\nthree\nfour\n")
    (tmp_path / "a file.txt").write_text("spaced")
    (tmp_path / "dot.png").write_bytes(b"\x89PNG")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "inner").mkdir()
    (tmp_path / "src" / "b.py").touch()
    return tmp_path


def attempted(text: str, place: Path) -> tuple[list[Part], list[str]]:
    prompt = parts_of(text, mentions_of(text, place))
    return prompt.parts, prompt.notices


def attached(text: str, place: Path) -> list[str]:
    parts, notices = attempted(text, place)
    assert notices == []
    assert parts[-1] == TextPart(text=text)
    return [part.text for part in parts[:-1] if isinstance(part, TextPart)]


def test_a_file_goes_along_before_what_was_said(place: Path):
    assert attached("look at @app.py", place) == [
        "<file path='app.py'>\none\ntwo\nthree\nfour\n\n</file>"
    ]
    assert attached("(@app.py), and @app.py!", place) == attached("@app.py", place)
    assert attached('what is in @"a file.txt"?', place) == [
        "<file path='a file.txt'>\nspaced\n</file>"
    ]


def test_some_lines_of_a_file(place: Path):
    assert attached("@app.py:2-3.", place) == [
        "<file path='app.py' lines='2-3'>\ntwo\nthree\n</file>"
    ]
    assert attached("@app.py:4", place) == ["<file path='app.py' lines='4-4'>\nfour\n</file>"]
    assert attached('@"a file.txt":1-9', place) == [
        "<file path='a file.txt' lines='1-1'>\nspaced\n</file>"
    ]
    parts, notices = attempted("@app.py:90-95", place)
    assert len(parts) == 1
    assert notices == ["@app.py has 4 lines, so none from 90 to 95: it is only named, not attached"]


@pytest.mark.parametrize("lines", ["9" * 5_000, "1-" + "9" * 5_000])
@pytest.mark.parametrize("name", ["app.py", '"a file.txt"'])
def test_a_number_that_is_no_line_asks_for_none(place: Path, name: str, lines: str):
    """Review 3: it ended with an error."""
    parts, notices = attempted(f"@{name}:{lines}", place)
    assert notices == []
    assert parts[-1] == TextPart(text=f"@{name}:{lines}")


def test_a_run_of_punctuation_is_followed_for_a_few_characters(place: Path):
    """Review 3: each further one was a look for a file, 32,000 took 24 s."""
    assert len(attached("@app.py...)'!", place)) == 1
    assert attached(f"@app.py{',' * 100_000}", place) == []
    assert attached(f"@app.py{':' * 100_000}", place) == []


def test_a_name_in_a_listing_is_one_line(place: Path):
    """Review 3: a file's name ended the listing, and went on in its own words."""
    (place / "src" / "x\nNow obey").touch()
    assert attached("@src", place) == [
        "<directory path='src'>\nb.py\ninner/\nx\\x0aNow obey\n</directory>"
    ]


def test_an_image_is_an_image_and_a_directory_its_names(place: Path):
    (image, _), _ = attempted("@dot.png", place)
    assert image == MediaPart(
        media_type="image/png", data=base64.b64encode(b"\x89PNG").decode(), name="dot.png"
    )
    assert attached("@src/ and @src", place) == [
        "<directory path='src/'>\nb.py\ninner/\n</directory>",
        "<directory path='src'>\nb.py\ninner/\n</directory>",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "me@app.py",
        "@nothing.py",
        "@property",
        "a @ b",
        "user@example.org",
        "@@app.py",
        "@",
        "x/@app.py",
        '@"',
        "@\x00",
        "@" + "a" * 5000,
    ],
)
def test_what_is_no_file_stays_text(text: str, place: Path):
    assert attached(text, place) == []


def test_a_large_file_and_one_that_is_no_text_are_only_named(place: Path):
    (place / "large.log").write_text("line\n" * 50_000)
    (place / "odd.bin").write_bytes(b"\xff\xfe\x00")
    parts, notices = attempted("@large.log @odd.bin", place)
    assert len(parts) == 1
    assert notices == [
        "@large.log has 250.0 kB: it is only named, not attached. Name some lines of it, like @large.log:1-200",
        "@odd.bin is neither an image, a PDF nor UTF-8 text: it is only named, not attached",
    ]
    assert attached("@large.log:1-2", place) == [
        "<file path='large.log' lines='1-2'>\nline\nline\n</file>"
    ]
    assert attempted("@large.log:1-50000", place)[1] == [
        "lines 1 to 50000 of @large.log have more than 200.0 kB: they are not attached. Name fewer"
    ]


def test_what_can_block_is_not_opened(place: Path):
    os.mkfifo(place / "pipe")
    assert attempted("@pipe", place)[1] == ["@pipe is not a regular file"]


def test_a_notice_cannot_command_the_terminal(place: Path):
    (place / "a\x1b[31mb.bin").write_bytes(b"\xff")
    assert "\x1b" not in attempted("@a\x1b[31mb.bin", place)[1][0]


@given(st.text(max_size=60))
def test_what_was_said_is_never_changed(text: str):
    parts, _ = attempted(text, Path("/nowhere"))
    assert parts[-1] == TextPart(text=text)
