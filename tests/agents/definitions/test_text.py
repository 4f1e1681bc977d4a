"""The text of a definition: front matter with the lines of the file, and files that are none."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agents.definitions.defined import HEAD, Defined
from tests.projects import written
from treadle.agents.definitions.text import document_of
from treadle.config.file import Broken


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Hello.\n", "1: must begin with a line `---`"),
        ("", "1: must begin with a line `---`"),
        ("---\ndescription: x\nHello.\n", "1: needs a second line `---`"),
        ("---\ndescription: [a\n---\nHello.\n", "3: invalid YAML"),
        ("---\ndescription: a\n\ttools: [x]\n---\n", "3: invalid YAML"),
        ("---\ndescription: !!python/object:os.system x\n---\n", "2: has a tag"),
        (
            "---\n- description\n---\n",
            "1: a definition must be a mapping of keys to values, not a list",
        ),
        (f"{HEAD}---\nHello\u202e.\n", "4: contains the invisible character '\\u202e'"),
    ],
)
def test_what_is_no_definition_is_told_with_its_line(
    defined: Defined, text: str, said: str
) -> None:
    assert defined.wrong(text)[0].startswith(said)


def test_bytes_that_are_no_text_are_told_with_their_line(defined: Defined) -> None:
    defined.project_says("guide.md", "").write_bytes(b"---\ndescription: a\n---\n\xff\n")
    (problem,) = defined.catalog().problems("guide")
    assert (problem.line, problem.text) == (4, "is not UTF-8 text: byte 0xff")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_line_ends_and_a_mark_at_the_beginning_change_nothing(newline: str) -> None:
    text = "---\ndescription: A guide\nmodel: small\n---\nOne\n\nTwo\n".replace("\n", newline)
    written = document_of(text, markdown=True)
    assert written.body == "One\n\nTwo"
    assert written.document.root is not None
    assert written.document.root.plain() == {"description": "A guide", "model": "small"}


def test_a_link_that_leads_out_of_the_project_is_not_followed(defined: Defined) -> None:
    secret = written(defined.home / "secret.md", f"{HEAD}---\nMy key.\n")
    folder = defined.root / ".treadle" / "agents"
    folder.mkdir(parents=True)
    (folder / "guide.md").symlink_to(secret)
    (problem,) = defined.catalog().problems("guide")
    assert "the link leaves the project" in problem.text


@pytest.mark.skipif(os.name != "posix", reason="needs modes of files")
def test_an_own_file_that_others_may_write_to_is_not_used(defined: Defined) -> None:
    defined.own_says("guide.md", f"{HEAD}---\n").chmod(0o666)
    (problem,) = defined.catalog().problems("guide")
    assert "is writable by others" in problem.text


def test_what_is_no_file_is_not_waited_for(defined: Defined) -> None:
    (defined.root / ".treadle" / "agents").mkdir(parents=True)
    os.mkfifo(defined.root / ".treadle" / "agents" / "guide.md")
    (problem,) = defined.catalog().problems("guide")
    assert "is not a regular file" in problem.text


@given(before=st.integers(0, 5), markdown=st.booleans())
def test_the_lines_of_keys_are_those_of_the_file(before: int, markdown: bool) -> None:
    keys = "# a comment\n" * before + "description: x\n"
    written = document_of(f"---\n{keys}---\nbody\n" if markdown else keys, markdown=markdown)
    assert written.document.root is not None
    assert isinstance(written.document.root.value, dict)
    line = written.document.root.value["description"].key.line
    assert written.lines[line - 1] == "description: x"


@given(st.text(max_size=200), st.booleans())
def test_any_text_is_read_or_refused_with_a_line_of_its_own(text: str, markdown: bool) -> None:
    for whole in (text, f"---\n{text}\n---\n{text}"):
        assert 1 <= line_of_refusal(whole, markdown=markdown) <= len(whole.splitlines()) + 1


def line_of_refusal(text: str, *, markdown: bool) -> int:
    """1 where it is not refused."""
    try:
        document_of(text, markdown=markdown)
    except Broken as e:
        return e.line
    return 1
