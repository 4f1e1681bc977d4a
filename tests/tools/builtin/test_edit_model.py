"""`edit` does what a few lines say that it does: this model of it knows nothing of files, encodings
and how text is found fast.
"""

from __future__ import annotations

import codecs
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from treadle.tools.builtin import files
from treadle.tools.builtin.edit import Edit, EditArguments, Replacement
from treadle.tools.tool import ToolContext, ToolFailed

EDIT = Edit()


class Piece(NamedTuple):
    """Some of the text afterwards: as it is, or, where white space was forgiven, but for
    indentation.
    """

    text: str
    exactly: bool = True


def squeezed(text: str) -> str:
    return " ".join(text.split())


def edited(text: str, edit: Replacement) -> list[Piece] | None:
    """What comes of a text, in line feeds; None where the edit fails."""
    starts = [i for i in range(len(text)) if text.startswith(edit.old, i)]
    if starts and edit.all:
        return [Piece(text.replace(edit.old, edit.new))]
    if starts:
        return (
            [Piece(text[: starts[0]] + edit.new + text[starts[0] + len(edit.old) :])]
            if len(starts) == 1
            else None
        )
    lines, wanted = text.split("\n"), edit.old.removesuffix("\n").split("\n")
    alike = [
        i
        for i in range(len(lines) - len(wanted) + 1)
        if any(map(squeezed, wanted))
        and all(
            squeezed(line) == squeezed(want)
            for line, want in zip(lines[i : i + len(wanted)], wanted, strict=True)
        )
    ]
    if len(alike) != 1:
        return None
    before, after = lines[: alike[0]], lines[alike[0] + len(wanted) :]
    end = "" if edit.old.endswith("\n") and after else "\n" if after else ""
    return [
        Piece("".join(f"{line}\n" for line in before)),
        Piece(edit.new, exactly=False),
        Piece(end + "\n".join(after)),
    ]


def fits(text: str, pieces: list[Piece]) -> bool:
    if len(pieces) == 1:
        return text == pieces[0].text
    before, new, after = (piece.text for piece in pieces)
    if not (
        text.startswith(before) and text.endswith(after) and len(text) >= len(before) + len(after)
    ):
        return False
    inside = text[len(before) : len(text) - len(after)]
    return [line.lstrip(" \t") for line in inside.split("\n")] == [
        line.lstrip(" \t") for line in new.split("\n")
    ]


def context(cwd: Path, seen: dict[str, str]) -> ToolContext[None]:
    known: dict[str, Any] = {
        "run_id": "r",
        "session_id": None,
        "call_id": "c",
        "user_id": None,
        "seen_files": seen,
    }
    return ToolContext[None](
        deps=None,
        cwd=cwd,
        deadline=None,
        attempt=1,
        idempotency_key="k",
        spill=lambda text: cwd,
        **known,
    )


LINES = st.lists(
    st.sampled_from(["a", "b", "  a", "\ta", "a  b", "a b", "}", "  }", "", "ż"]), max_size=7
)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))
OLD = st.one_of(TEXTS, st.sampled_from(["a", "b", "}\n}", "a b\n", " a", "\n"])).filter(bool)
EDITS = st.builds(Replacement, old=OLD, new=TEXTS, all=st.booleans()).filter(
    lambda edit: edit.old != edit.new
)


@settings(max_examples=400, deadline=None)
@given(
    text=TEXTS, edits=st.lists(EDITS, min_size=1, max_size=3), crlf=st.booleans(), bom=st.booleans()
)
@example(text="}\n}\n}\n", edits=[Replacement(old="}\n}\n", new="")], crlf=False, bom=False)
@example(text="  a\n  }\nb", edits=[Replacement(old="a\n}\n", new="b\n")], crlf=True, bom=True)
async def test_an_edit_does_what_its_model_says(
    text: str, edits: list[Replacement], crlf: bool, bom: bool
) -> None:
    expected: list[Piece] | None = [Piece(text)]
    for number, edit in enumerate(edits):
        assert expected is not None
        if not expected[0].exactly or len(expected) > 1:
            assume(False)  # what comes after an indentation that the model does not know
        expected = edited(expected[0].text, edit)
        if expected is None:
            edits = edits[: number + 1]
            break
    crlf = crlf and "\n" in text
    ends, mark = "\r\n" if crlf else "\n", codecs.BOM_UTF8 if bom else b""
    data = mark + text.replace("\n", ends).encode()
    with TemporaryDirectory() as folder:
        place, link = Path(folder).resolve() / "file", Path(folder) / "link"
        place.write_bytes(data)
        place.chmod(0o640)
        link.symlink_to("file")
        told: str | None = None
        try:
            told = await EDIT.execute(
                context(place.parent, {str(place): files.digest_of(data)}),
                EditArguments(path="link", edits=tuple(edits)),
            )
        except ToolFailed:
            told = None
        now = place.read_bytes()
        assert (
            link.is_symlink(),
            place.stat().st_mode & 0o777,
            sorted(path.name for path in place.parent.iterdir()),
        ) == (True, 0o640, ["file", "link"])
    assert (told is None) == (expected is None)
    if told is None or expected is None:
        assert now == data
        return
    assert now.startswith(mark)
    shown = now.removeprefix(mark).decode()
    assert shown.count("\n") == shown.count("\r\n") or not crlf
    assert fits(shown.replace("\r\n", "\n") if crlf else shown, expected)
    assert ("did not match exactly" in told) == (len(expected) > 1) or now == data
