"""`edit` replaces text by text: exactly, all or nothing, and everything else in the file stays as
it was.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.conftest import MakeContext, Use
from treadle.tools.builtin import files, matching
from treadle.tools.builtin.difference import short_difference
from treadle.tools.builtin.edit import Edit, EditArguments, Replacement
from treadle.tools.builtin.read import Read
from treadle.tools.builtin.text import TextDocument
from treadle.tools.builtin.write import Write
from treadle.tools.tool import (
    DidNotHappen,
    Happened,
    InvalidArguments,
    ProbeAnswer,
    ToolContext,
    ToolFailed,
    Touched,
)

READ, EDIT, WRITE = Read(), Edit(), Write()

SOURCE = """\
def first(a):
    if a:
        return 1
    return 2


class Second:
    def third(self):
        return first(1)
"""


@pytest.fixture
async def source(use: Use, tmp_path: Path) -> Path:
    """A file that the model has read."""
    path = tmp_path / "a.py"
    path.write_text(SOURCE)
    await use(READ, path="a.py")
    return path


def one(old: str, new: str, **rest: Any) -> list[dict[str, Any]]:
    return [{"old": old, "new": new, **rest}]


async def test_text_is_replaced_and_the_difference_shown(use: Use, source: Path) -> None:
    shown = await use(EDIT, path="a.py", edits=one("return 1\n", "return 10\n"))
    assert source.read_text() == SOURCE.replace("return 1\n", "return 10\n")
    assert (
        shown
        == "Edited a.py: 1 replacement.\n@@ -1,6 +1,6 @@\n def first(a):\n     if a:\n-        return 1\n+        return 10\n     return 2\n \n "
    )


async def test_edits_apply_in_order_each_to_the_result_of_the_one_before(
    use: Use, source: Path
) -> None:
    await use(
        EDIT,
        path="a.py",
        edits=[{"old": "first(a)", "new": "second(a)"}, {"old": "second(a)", "new": "third(a)"}],
    )
    assert source.read_text().startswith("def third(a):")


async def test_if_one_edit_fails_none_is_made(use: Use, source: Path) -> None:
    with pytest.raises(
        ToolFailed, match=r"^Edit 2 of 2: old was not found.* Nothing was changed\.$"
    ):
        await use(
            EDIT,
            path="a.py",
            edits=[{"old": "first(a)", "new": "x"}, {"old": "@@@@@@", "new": "y"}],
        )
    assert source.read_text() == SOURCE


async def test_text_that_is_there_more_than_once_needs_all(use: Use, source: Path) -> None:
    with pytest.raises(ToolFailed, match=r"old was found 3 times, at lines 3, 4, 9\. Take in more"):
        await use(EDIT, path="a.py", edits=one("return", "yield"))
    assert "3 replacements" in await use(EDIT, path="a.py", edits=one("return", "yield", all=True))
    assert source.read_text() == SOURCE.replace("return", "yield")


async def test_places_that_overlap_are_more_than_one(use: Use, source: Path) -> None:
    source.write_text("}\n}\n}\n")
    await use(Read(), path="a.py")
    with pytest.raises(ToolFailed, match="old was found 2 times, at lines 1, 2"):
        await use(EDIT, path="a.py", edits=[{"old": "}\n}\n", "new": ""}])


async def test_an_edit_needs_a_file_that_was_read_and_has_not_changed(
    use: Use, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("one")
    with pytest.raises(ToolFailed, match="You have not read 'a'"):
        await use(EDIT, path="a", edits=one("one", "two"))
    await use(READ, path="a")
    (tmp_path / "a").write_text("one, and more")
    with pytest.raises(ToolFailed, match="'a' has changed since you last read it"):
        await use(EDIT, path="a", edits=one("one", "two"))


async def test_edits_after_one_another_need_no_reading_between(use: Use, source: Path) -> None:
    await use(EDIT, path="a.py", edits=one("return 2", "return 3"))
    await use(EDIT, path="a.py", edits=one("return 3", "return 4"))
    assert "return 4" in source.read_text()


async def test_edits_of_one_file_at_the_same_time_all_arrive(
    make_context: MakeContext, use: Use, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("".join(f"<{i}>\n" for i in range(20)))
    await use(READ, path="a")
    context = make_context(tmp_path)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as edits:
            for i in range(20):
                edits.start_soon(
                    EDIT.execute,
                    context,
                    EditArguments(path="a", edits=(Replacement(old=f"<{i}>", new=f"[{i}]"),)),
                )
    assert (tmp_path / "a").read_text() == "".join(f"[{i}]\n" for i in range(20))


# ---------------------------------------------------------------- what stays


async def test_crlf_bom_mode_and_missing_last_line_end_stay(use: Use, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree")
    path.chmod(0o750)
    await use(READ, path="a")
    await use(EDIT, path="a", edits=one("two\nthree", "2\n2.5\nthree"))
    assert path.read_bytes() == b"\xef\xbb\xbfone\r\n2\r\n2.5\r\nthree"
    assert path.stat().st_mode & 0o7777 == 0o750


async def test_old_may_be_given_with_crlf(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\ntwo\n")
    await use(READ, path="a")
    await use(EDIT, path="a", edits=one("one\r\ntwo", "1\r\n2"))
    assert (tmp_path / "a").read_bytes() == b"1\n2\n"


async def test_mixed_line_ends_stay_where_they_were(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a\r\nb\nc\r\nd\r\ne\rf\n")
    await use(READ, path="a")
    await use(EDIT, path="a", edits=one("b\nc", "B\nC"))
    assert (tmp_path / "a").read_bytes() == b"a\r\nB\nC\r\nd\r\ne\rf\n"
    await use(EDIT, path="a", edits=one("B\n", "B\nnew\n"))
    assert (tmp_path / "a").read_bytes() == b"a\r\nB\r\nnew\r\nC\r\nd\r\ne\rf\n"


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-be"])
async def test_wide_encodings_stay(use: Use, tmp_path: Path, codec: str) -> None:
    (tmp_path / "a").write_bytes("\ufeffżółw\n".encode(codec))
    await use(READ, path="a")
    await use(EDIT, path="a", edits=one("żółw", "słoń 😀"))
    assert (tmp_path / "a").read_bytes() == "\ufeffsłoń 😀\n".encode(codec)


async def test_bytes_of_an_unknown_encoding_stay_and_nothing_foreign_is_put_among_them(
    use: Use, tmp_path: Path
) -> None:
    data = bytes(range(0x80, 0x100)) + b"\nname\n"
    (tmp_path / "a").write_bytes(data)
    await use(READ, path="a")
    await use(EDIT, path="a", edits=one("name", "other"))
    assert (tmp_path / "a").read_bytes() == data.replace(b"name", b"other")
    with pytest.raises(ToolFailed, match="'ł' cannot occur in 'a', which is not UTF-8"):
        await use(EDIT, path="a", edits=one("other", "młot"))


async def test_text_that_only_begins_as_utf16_is_refused(
    use: Use, make_context: MakeContext, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"\xff\xfea\x00b")
    await use(READ, path="a")
    with pytest.raises(ToolFailed, match="begins as UTF-16"):
        await use(EDIT, path="a", edits=one("a", "b"))


async def test_a_symbolic_link_stays(use: Use, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("one")
    (tmp_path / "link").symlink_to("target")
    await use(READ, path="link")
    await use(EDIT, path="link", edits=one("one", "two"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "two"


# ---------------------------------------------------------------- but for white space


async def test_whole_lines_alike_but_for_white_space_are_taken_and_new_is_indented(
    use: Use, source: Path
) -> None:
    shown = await use(
        EDIT, path="a.py", edits=one("if a:\n  return 1", "if a:\n  b = 1\n  if b:\n    return 1")
    )
    assert (
        "Note: old did not match exactly; lines 2-3, which differ only in white space, were replaced"
        in shown
    )
    assert source.read_text() == SOURCE.replace(
        "    if a:\n        return 1",
        "    if a:\n        b = 1\n        if b:\n            return 1",
    )


async def test_new_is_indented_with_tabs_where_the_file_is(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("f:\n\tif a:\n\t\treturn\n")
    await use(READ, path="a")
    await use(
        EDIT,
        path="a",
        edits=one("    if a:\n        return\n", "    if a:\n        if b:\n            return\n"),
    )
    assert (tmp_path / "a").read_text() == "f:\n\tif a:\n\t\tif b:\n\t\t\treturn\n"


async def test_places_alike_but_for_white_space_must_be_one(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("  x = 1\n    x = 1\n")
    await use(READ, path="a")
    with pytest.raises(ToolFailed, match="differs only in white space in 2 places, at lines 1, 2"):
        await use(EDIT, path="a", edits=one("\tx = 1", "y"))


async def test_parts_of_lines_are_never_matched_loosely(use: Use, source: Path) -> None:
    with pytest.raises(ToolFailed, match="not found"):
        await use(EDIT, path="a.py", edits=one("return  first", "x"))
    assert source.read_text() == SOURCE


# ---------------------------------------------------------------- not found


async def test_the_closest_text_is_shown_with_its_first_difference(use: Use, source: Path) -> None:
    with pytest.raises(ToolFailed) as raised:
        await use(
            EDIT, path="a.py", edits=one("class Second:\n    def fourth(self):\n        pass", "x")
        )
    assert (
        "The closest text is:\n     7\tclass Second:\n     8\t    def third(self):\n     9\t        return first(1)\n"
        in raised.value.message
    )
    assert (
        "The first difference is in line 8: the file has '    def third(self):', old has '    def fourth(self):'"
        in raised.value.message
    )
    assert source.read_text() == SOURCE


async def test_nothing_like_it_is_said(use: Use, source: Path) -> None:
    for old in ("\n\n\n\n", "@@@@", "     1\t\n"):
        with pytest.raises(ToolFailed, match="old was not found"):
            await use(EDIT, path="a.py", edits=one(old, "x"))
    assert source.read_text() == SOURCE


async def test_trailing_white_space_in_old_is_forgiven_and_new_taken_as_it_is(
    use: Use, source: Path
) -> None:
    assert "differs only in white space" in await use(
        EDIT, path="a.py", edits=one("    return 2  ", "    return 3")
    )
    assert source.read_text() == SOURCE.replace("return 2", "return 3")


async def test_line_numbers_copied_from_read_are_recognised(use: Use, source: Path) -> None:
    with pytest.raises(
        ToolFailed, match="begins its lines with numbers as the read tool shows them"
    ):
        await use(EDIT, path="a.py", edits=one("     1\tdef first(a):\n     2\t    if a:", "x"))
    assert source.exists()


async def test_looking_for_the_closest_text_in_a_large_file_ends(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(
        "".join(f"some line with words number {i}\n" for i in range(100_000)) + "x" * 1_000_000
    )
    await use(READ, path="a", limit=1)
    with anyio.fail_after(30), pytest.raises(ToolFailed, match="old was not found"):
        await use(EDIT, path="a", edits=one("some lime with wards number 7 and more", "x"))


async def test_a_missing_a_large_and_a_binary_file_are_refused(use: Use, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x\n" * (files.MAX_WHOLE_BYTES // 2 + 1))
    (tmp_path / "binary").write_bytes(b"\0")
    (tmp_path / "a.py").touch()
    refused = {
        "large": "larger than 16 MiB",
        "binary": "You have not read",
        "a.pi": "Did you mean 'a.py'",
    }
    for path, said in refused.items():
        with pytest.raises(ToolFailed, match=said):
            await use(EDIT, path=path, edits=one("x", "y"))


async def test_what_would_change_nothing_is_said(use: Use, source: Path) -> None:
    shown = await use(
        EDIT,
        path="a.py",
        edits=[
            {"old": "return 1\n", "new": "return 9\n"},
            {"old": "return 9\n", "new": "return 1\n"},
        ],
    )
    assert shown == "a.py already has this content: nothing was changed."
    assert source.read_text() == SOURCE


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            '{"path": "a", "edits": [{"old": "", "new": "x"}]}',
            r"edits\[0\].old is empty. To insert",
        ),
        ('{"path": "a", "edits": [{"old": "x", "new": "x"}]}', "old and new are identical"),
        ('{"path": "a", "edits": []}', "edits is empty"),
        ('{"path": "a"}', "'edits' is missing"),
        (
            '{"path": "a", "edits": [{"old": "x", "new": "y", "replace_all": true}]}',
            r"there is no 'replace_all' in edits\[0\] \(did you mean 'all'\?\)",
        ),
        ('{"path": "a", "edits": [{"old": "x"}]}', r"'new' is missing in edits\[0\]"),
        (
            '{"path": "a", "edits": [{"old": "x", "new": 5}]}',
            r"edits\[0\].new must be a string, not 5",
        ),
        ('{"path": "a", "edits": "change it"}', r"edits must be an array, not \"change it\""),
    ],
)
def test_a_wrong_call_is_told_how_to_be_right(arguments: str, said: str) -> None:
    with pytest.raises(InvalidArguments, match=said):
        EDIT.parse(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        '{"path": "a", "edits": [{"old": "x", "new": "y", "all": "true"}]}',
        '{"path": "a", "edits": {"old": "x", "new": "y", "all": true}}',
        '{"path": "a", "edits": "[{\\"old\\": \\"x\\", \\"new\\": \\"y\\", \\"all\\": true}]"}',
    ],
)
def test_harmless_slips_are_mended(arguments: str) -> None:
    assert EDIT.parse(arguments) == EditArguments(
        path="a", edits=(Replacement(old="x", new="y", all=True),)
    )


def test_a_null_for_what_may_be_left_out_is_none_given() -> None:
    assert (
        EDIT.parse('{"path": "a", "edits": [{"old": "x", "new": "y", "all": null}]}').edits[0].all
        is False
    )


# ---------------------------------------------------------------- the probe


async def probed(content: str, *edits: Replacement) -> ProbeAnswer:
    """Asked by a process that knows nothing but the call and the file, as after a crash."""
    with TemporaryDirectory() as folder:
        Path(folder, "a").write_bytes(content.encode())
        return await EDIT.probe(bare_context(Path(folder)), EditArguments(path="a", edits=edits))


def bare_context(cwd: Path, seen: dict[str, str] | None = None) -> ToolContext[None]:
    known: dict[str, Any] = {
        "run_id": "r",
        "session_id": None,
        "call_id": "c",
        "user_id": None,
        "seen_files": seen or {},
    }
    return ToolContext[None](
        deps=None,
        cwd=cwd,
        deadline=None,
        attempt=2,
        idempotency_key="k",
        spill=lambda text: cwd,
        **known,
    )


async def test_after_a_crash_the_probe_knows_both_states_by_the_file_alone(
    make_context: MakeContext, source: Path, tmp_path: Path
) -> None:
    arguments = EDIT.parse(
        '{"path": "a.py", "edits": [{"old": "return 2", "new": "return 3"}, {"old": "first(a)", "new": "first(b)"}]}'
    )
    assert await EDIT.probe(bare_context(tmp_path), arguments) == DidNotHappen()
    await EDIT.execute(make_context(tmp_path), arguments)
    answer = await EDIT.probe(bare_context(tmp_path), arguments)
    assert isinstance(answer, Happened)
    assert answer.result.startswith("Edited a.py, as its content shows.\n@@")
    assert "-    return 2\n+    return 3" in answer.result


async def test_that_the_file_was_read_again_since_does_not_mislead_the_probe(
    make_context: MakeContext, source: Path, tmp_path: Path
) -> None:
    arguments = EDIT.parse(
        '{"path": "a.py", "edits": [{"old": "    return 2\\n", "new": "    return 3\\n"}]}'
    )
    context = make_context(tmp_path)
    await EDIT.execute(context, arguments)
    assert context.seen_files[str(source.resolve())] == files.digest_of(source.read_bytes())
    assert isinstance(await EDIT.probe(context, arguments), Happened)


def swap(a: str, b: str) -> tuple[Replacement, ...]:
    return Replacement(old=a, new="#"), Replacement(old=b, new=a), Replacement(old="#", new=b)


@pytest.mark.parametrize(
    ("content", "edits", "answer"),
    [
        ("a OLD b", [Replacement(old="OLD", new="NEW")], DidNotHappen),
        ("a NEW b", [Replacement(old="OLD", new="NEW")], Happened),
        ("a NEW NEW b", [Replacement(old="OLD", new="NEW")], None),
        ("a NEW NEW b", [Replacement(old="OLD", new="NEW", all=True)], Happened),
        ("a NEW OLD b OLD", [Replacement(old="OLD", new="NEW", all=True)], DidNotHappen),
        ("a b", [Replacement(old="OLD", new="NEW")], None),
        ("one\ntwo\n", [Replacement(old="one\n", new="one\nand\n")], DidNotHappen),
        ("one\nand\ntwo\n", [Replacement(old="one\n", new="one\nand\n")], None),
        ("one\nand\ntwo\n", [Replacement(old="one\nand\n", new="one\n")], None),
        ("one\nand\ntwo\n", [Replacement(old="one\nand\ntwo\n", new="one\ntwo\n")], DidNotHappen),
        ("one\ntwo\n", [Replacement(old="one\nand\ntwo\n", new="one\ntwo\n")], Happened),
        ("<b>\n</b>\n", [Replacement(old="<b>\n</b>\n", new="")], None),
        ("a b", [Replacement(old="OLD", new="")], None),
        ("one two", swap("one", "two"), None),
        ("  x = 1\n  y = 2\n", [Replacement(old="x = 1", new="x = 1\ny = 2")], None),
        ("    x = 1\n    y = 2\n", [Replacement(old="  x = 1", new="  x = 1\n  y = 2")], None),
        ("  return 1\n", [Replacement(old="return  1", new="return 2")], None),
        ("OLD", [Replacement(old="OLD", new="MID"), Replacement(old="MID", new="NEW")], None),
        ("NEW", [Replacement(old="OLD", new="MID"), Replacement(old="MID", new="NEW")], Happened),
        ("one\r\nOLD\r\n", [Replacement(old="one\nOLD\n", new="one\nNEW\n")], DidNotHappen),
        ("one\r\nNEW\r\n", [Replacement(old="one\nOLD\n", new="one\nNEW\n")], Happened),
    ],
)
async def test_the_probe_says_only_what_the_texts_prove(
    content: str, edits: Sequence[Replacement], answer: type[object] | None
) -> None:
    found = await probed(content, *edits)
    assert found is None if answer is None else isinstance(found, answer)


PIECES = st.text("ab \n", min_size=1, max_size=4)
REPLACEMENTS = st.builds(
    Replacement, old=PIECES, new=st.text("ab \n", max_size=5), all=st.booleans()
).filter(lambda r: r.old != r.new)


@given(
    before=st.text("ab \n", min_size=1, max_size=10),
    edits=st.lists(REPLACEMENTS, min_size=1, max_size=3),
)
@settings(max_examples=300, deadline=None)
async def test_the_probe_never_denies_an_edit_that_was_made_nor_claims_one_that_can_still_be(
    before: str, edits: list[Replacement]
) -> None:
    with TemporaryDirectory() as folder:
        place, arguments = Path(folder).resolve() / "a", EditArguments(path="a", edits=tuple(edits))
        place.write_bytes(before.encode())
        earlier = await EDIT.probe(bare_context(place.parent), arguments)
        try:
            await EDIT.execute(
                bare_context(place.parent, {str(place): files.digest_of(before.encode())}),
                arguments,
            )
        except ToolFailed:
            return
        assert not isinstance(earlier, Happened)
        if place.read_bytes() != before.encode():
            assert await EDIT.probe(bare_context(place.parent), arguments) != DidNotHappen()


async def test_the_probe_of_a_file_that_is_gone_does_not_know(
    make_context: MakeContext, tmp_path: Path
) -> None:
    arguments = EditArguments(path="gone", edits=(Replacement(old="a", new="b"),))
    assert await EDIT.probe(make_context(tmp_path), arguments) is None
    os.mkfifo(tmp_path / "gone")
    assert await EDIT.probe(make_context(tmp_path), arguments) is None


async def test_a_cancelled_edit_is_finished_first(
    make_context: MakeContext, source: Path, tmp_path: Path
) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await EDIT.execute(
            make_context(tmp_path),
            EDIT.parse('{"path": "a.py", "edits": [{"old": "return 2", "new": "return 3"}]}'),
        )
    assert "return 3" in source.read_text()


def test_what_it_changes_is_known_beforehand(tmp_path: Path) -> None:
    assert EDIT.touches(EditArguments(path="x/../a", edits=()), tmp_path) == Touched(
        writes=("x/../a",)
    )
    assert (EDIT.effect, EDIT.parallel) == ("once", True)


# ---------------------------------------------------------------- properties

TEXTS = st.lists(st.sampled_from(["a", "b", " ", "\n", "\r\n", "\r", "ż"]), max_size=30).map(
    "".join
)


@given(TEXTS)
def test_a_document_renders_what_it_was_made_of(text: str) -> None:
    assert TextDocument(text).render() == text


@given(before=TEXTS, old=TEXTS, after=TEXTS, new=st.sampled_from(["", "x", "x\ny", "\n"]))
def test_a_replacement_leaves_everything_around_it_byte_for_byte(
    before: str, old: str, after: str, new: str
) -> None:
    if before.endswith("\r") or old.endswith("\r"):
        return  # the cut would be inside a line end
    document = TextDocument(before + old + after)
    start = len(before.replace("\r\n", "\n"))
    document.replace([(start, start + len(old.replace("\r\n", "\n")))], new)
    assert document.render().startswith(before)
    assert document.render().endswith(after)
    assert document.text == before.replace("\r\n", "\n") + new + after.replace("\r\n", "\n")


@given(text=TEXTS, old=TEXTS.filter(bool))
def test_exact_matches_are_those_of_str_count(text: str, old: str) -> None:
    spans = matching.exact(text, old)
    assert len(spans) == text.count(old)
    assert all(text[a:b] == old for a, b in spans)


@given(
    before=st.lists(st.sampled_from("abc"), max_size=80),
    after=st.lists(st.sampled_from("abc"), max_size=80),
)
def test_a_difference_is_short_and_empty_only_where_nothing_changed(
    before: list[str], after: list[str]
) -> None:
    shown = short_difference("\n".join(before), "\n".join(after))
    assert shown.count("\n") < 40
    assert (shown == "") == ("\n".join(before) == "\n".join(after))


def test_a_long_difference_says_how_much_is_missing() -> None:
    shown = short_difference("\n".join("a" * 60), "\n".join("b" * 60)).split("\n")
    assert (shown[0], len(shown), shown[-1]) == (
        "@@ -1,60 +1,60 @@",
        40,
        "(… 82 more lines of difference)",
    )


def test_a_difference_too_large_to_show_says_so() -> None:
    assert "too much to show" in short_difference("a\n" * 5_000, "b\n" * 5_000)
