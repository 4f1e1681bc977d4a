"""Patches over several files: what they make of them, all or none of it; what does not fit, and
what never is written.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.doubles import PlayedModel, agent, open_runtime, text, watch, wishes
from tests.tools.conftest import MakeContext, Use
from treadle.tools.builtin import files
from treadle.tools.builtin.apply_patch import ApplyPatch
from treadle.tools.builtin.patch_format import FileChange, Hunk, parse_diff, parse_patch
from treadle.tools.builtin.patches import patch
from treadle.tools.builtin.read import Read
from treadle.tools.builtin.text import TextDocument
from treadle.tools.tool import DidNotHappen, Happened, InvalidArguments, ToolFailed

PATCH, READ = ApplyPatch(), Read()
THREE = """*** Begin Patch
*** Update File: a.py
@@
 one
-two
+2
 three
*** Add File: new/b.py
+print(1)
+
+print(2)
*** Delete File: c.py
*** End Patch"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("one\ntwo\nthree\n")
    (tmp_path / "c.py").write_text("gone\n")
    return tmp_path


async def read(use: Use, *paths: str) -> None:
    for path in paths:
        await use(READ, path=path)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


# ---------------------------------------------------------------- what it does


async def test_a_patch_updates_adds_and_deletes_files(use: Use, tree: Path) -> None:
    await read(use, "a.py", "c.py")
    said = await use(PATCH, input=THREE)
    assert contents(tree) == {"a.py": b"one\n2\nthree\n", "new/b.py": b"print(1)\n\nprint(2)\n"}
    assert said == (
        "Patched 3 files.\n\nUpdated a.py.\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n\nAdded new/b.py: 3 lines.\n\nDeleted c.py."
    )


async def test_a_file_is_moved_with_its_mode_and_changed_on_the_way(use: Use, tree: Path) -> None:
    (tree / "a.py").chmod(0o755)
    await read(use, "a.py")
    said = await use(
        PATCH,
        input="*** Begin Patch\n*** Update File: a.py\n*** Move to: lib/z.py\n@@\n-two\n+2\n*** End Patch",
    )
    assert said.startswith("Moved a.py to lib/z.py.\n@@ -1,3")
    assert not (tree / "a.py").exists()
    assert (tree / "lib" / "z.py").read_text() == "one\n2\nthree\n"
    assert (tree / "lib" / "z.py").stat().st_mode & 0o777 == 0o755


async def test_what_a_patch_wrote_may_be_patched_again_and_what_it_deleted_may_not(
    use: Use, tree: Path
) -> None:
    await read(use, "a.py", "c.py")
    await use(PATCH, input=THREE)
    await use(
        PATCH,
        input="*** Begin Patch\n*** Update File: new/b.py\n@@\n-print(2)\n+print(3)\n*** End Patch",
    )
    assert (tree / "new" / "b.py").read_text() == "print(1)\n\nprint(3)\n"
    (tree / "c.py").write_text("gone\n")
    with pytest.raises(ToolFailed, match=r"You have not read 'c\.py'"):
        await use(PATCH, input="*** Begin Patch\n*** Delete File: c.py\n*** End Patch")


async def test_line_ends_and_encoding_stay(use: Use, tree: Path) -> None:
    (tree / "a.py").write_bytes("é\r\ntwo\r\nthree".encode("latin-1"))
    await read(use, "a.py")
    await use(
        PATCH,
        input="*** Begin Patch\n*** Update File: a.py\n@@\n-two\n+2\n+and\n three\n*** End Patch",
    )
    assert (tree / "a.py").read_bytes() == "é\r\n2\r\nand\r\nthree".encode("latin-1")


async def test_an_operation_of_the_responses_api_is_a_patch_of_one_file(
    use: Use, tree: Path
) -> None:
    await read(use, "a.py", "c.py")
    await use(PATCH, operation={"type": "update_file", "path": "a.py", "diff": "@@\n-two\n+2\n"})
    await use(PATCH, operation={"type": "create_file", "path": "b.py", "diff": "+x\n+y"})
    await use(PATCH, operation={"type": "delete_file", "path": "c.py"})
    assert contents(tree) == {"a.py": b"one\n2\nthree\n", "b.py": b"x\ny\n"}


# ---------------------------------------------------------------- where a hunk belongs

TWICE = (
    "class A:\n    def run(self):\n        x = 1\n\nclass B:\n    def run(self):\n        x = 1\n"
)


@pytest.mark.parametrize(
    ("before", "diff", "after"),
    [
        (
            TWICE,
            "@@ class B:\n@@     def run(self):\n-        x = 1\n+        x = 2",
            TWICE[::-1].replace("1", "2", 1)[::-1],
        ),
        (
            TWICE,
            "@@ class B\n     def run(self):\n-        x = 1\n+        x = 2",
            TWICE[::-1].replace("1", "2", 1)[::-1],
        ),
        ("a\nb\n", "@@ a\n+new", "a\nnew\nb\n"),
        ("a\nb\n", "@@\n+new\n*** End of File", "a\nb\nnew\n"),
        ("a\nb", "@@\n+new\n*** End of File", "a\nb\nnew"),
        ("a\nb", "@@\n a\n-b", "a"),
        ("a\n", "@@\n-a", ""),
        ("", "@@\n+a", "a\n"),
        ("x\na\nx\na\n", "@@\n x\n-a\n+b\n*** End of File", "x\na\nx\nb\n"),
        ("a  \nb\n", "@@\n a\n-b\n+c", "a  \nc\n"),
        ("a\n\nb\n", "@@\n a\n\n-b\n+c", "a\n\nc\n"),
        ("a\nb\nc\nd\n", "@@\n-a\n+1\n@@\n-d\n+4", "1\nb\nc\n4\n"),
        ("a\nb\n", "@@ -1,2 +1,2 @@\n-a\n+1\n b", "1\nb\n"),
        (
            TWICE,
            "@@ class A:\n-        x = 1\n+        x = 5\n@@ class A:\n \n-class B:\n+class C:",
            TWICE.replace("1", "5", 1).replace("class B", "class C"),
        ),
    ],
)
def test_a_hunk_is_found(before: str, diff: str, after: str) -> None:
    document = TextDocument(before)
    patch(document, parse_diff("update", "f", diff))
    assert document.text == after


@pytest.mark.parametrize(
    ("before", "diff", "why"),
    [
        (
            TWICE,
            "@@\n-        x = 1\n+        x = 2",
            "its lines occur in 2 places, at lines 3, 7. Add more lines around",
        ),
        ("a\nb\n", "@@\n-c\n+d", "its lines were not found. No similar text exists"),
        (
            "retries = 1\n",
            "@@\n-retries = 11\n+retries = 3",
            "(?s)its lines were not found.*The closest text is.*retries = 1.*the patch has 'retries = 11'",
        ),
        (
            "a\nb\n",
            "@@ nowhere\n-a\n+b",
            "no line 'nowhere', which follows '@@', is in the file",
        ),
        ("a\nb\n", "@@\n+c", "it only adds lines, and nothing says where"),
        ("a\nb\n", "@@\n-b\n+c\n@@\n-a\n+d", "Hunk 2 of 2: its lines occur only above line 3"),
    ],
)
def test_a_hunk_that_does_not_fit_says_why(before: str, diff: str, why: str) -> None:
    with pytest.raises(ToolFailed, match=why):
        patch(TextDocument(before), parse_diff("update", "f", diff))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("", r"begins with the line '\*\*\* Begin Patch'"),
        ("*** Begin Patch", "this one does not"),
        ("*** Begin Patch\n*** End Patch", "has no section"),
        ("*** Begin Patch\nhello\n*** End Patch", "Line 2 of the patch, 'hello', is no head"),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", r"Line 2 .*changes nothing"),
        (
            "*** Begin Patch\n*** Update File: a\n@@\n same\n*** End Patch",
            "Line 4 .* no line with '-' or",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n@@\n-x\nhello\n*** End Patch",
            "Line 5 of the patch, 'hello', does not begin with",
        ),
        (
            "*** Begin Patch\n*** Add File: a\nhello\n*** End Patch",
            r"Line 3 .*does not begin with '\+'",
        ),
        (
            "*** Begin Patch\n*** Delete File: a\n-x\n*** End Patch",
            "Line 3 .*nothing belongs to it",
        ),
        (
            "*** Begin Patch\n*** Add File: a\n+x\n*** Delete File: a\n*** End Patch",
            "'a' is named twice",
        ),
        ("*** Begin Patch\n*** Add File: \n+x\n*** End Patch", "The path is empty"),
        ("*** Begin Patch\n*** Add File: a/\n+x\n*** End Patch", "names a directory"),
        ("*** Begin Patch\n*** Add File: a\0b\n+x\n*** End Patch", "NUL"),
    ],
)
async def test_a_patch_that_is_none_is_explained_by_its_line(
    use: Use, tmp_path: Path, given: str, why: str
) -> None:
    with pytest.raises(InvalidArguments, match=why):
        await use(PATCH, input=given)
    assert contents(tmp_path) == {}


@pytest.mark.parametrize(
    "diff",
    [
        "@@\n-two\n+2\n*** Delete File: c.py",
        "@@\n-two\n+2\n*** Update File: c.py\n@@\n-gone\n+x",
        "*** End Patch\n+x",
    ],
)
async def test_the_diff_of_one_file_names_no_other(use: Use, tree: Path, diff: str) -> None:
    await read(use, "a.py", "c.py")
    before = contents(tree)
    with pytest.raises(InvalidArguments):
        await use(PATCH, operation={"type": "update_file", "path": "a.py", "diff": diff})
    assert contents(tree) == before


# ---------------------------------------------------------------- all or none


@pytest.mark.parametrize(
    "last",
    [
        "*** Update File: d.py\n@@\n-no\n+yes",
        "*** Add File: c.py\n+x",
        "*** Delete File: e.py",
        "*** Update File: missing.py\n@@\n-a\n+b",
    ],
)
async def test_where_one_file_does_not_fit_none_is_changed(use: Use, tree: Path, last: str) -> None:
    (tree / "d.py").write_text("something else entirely\n")
    (tree / "e.py").write_text("not read\n")
    await read(use, "a.py", "d.py")
    before = contents(tree)
    with pytest.raises(ToolFailed, match=r"No file was changed\.$"):
        await use(
            PATCH,
            input=f"*** Begin Patch\n*** Update File: a.py\n@@\n-two\n+2\n*** Add File: n.py\n+x\n{last}\n*** End Patch",
        )
    assert contents(tree) == before


async def test_where_writing_fails_in_the_midst_what_was_written_is_taken_back(
    use: Use, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await read(use, "a.py", "c.py")
    before, real = contents(tree), files.remove

    def fails(place: Path, *more: Any) -> None:
        if place.name == "c.py":
            raise OSError(28, "No space left on device")
        real(place, *more)

    monkeypatch.setattr(files, "remove", fails)
    with pytest.raises(
        ToolFailed,
        match=r"Could not write 'c\.py': No space left on device\. No file was changed\.",
    ) as failed:
        await use(PATCH, input=THREE)
    assert failed.value.happened is False
    assert contents(tree) == before


async def test_what_cannot_be_taken_back_is_named(
    use: Use, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await read(use, "a.py", "c.py")

    def fails(place: Path, *more: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "remove", fails)
    with pytest.raises(
        ToolFailed, match=r"These files stay changed, and could not be put back: new/b\.py\."
    ) as failed:
        await use(PATCH, input=THREE)
    assert failed.value.happened is None
    assert (tree / "a.py").read_text() == "one\ntwo\nthree\n"


async def test_two_names_of_one_file_are_refused(use: Use, tree: Path) -> None:
    (tree / "link.py").symlink_to("a.py")
    await read(use, "a.py")
    with pytest.raises(ToolFailed, match="lead to the same file"):
        await use(
            PATCH,
            input="*** Begin Patch\n*** Update File: a.py\n@@\n-two\n+2\n*** Update File: link.py\n@@\n-one\n+1\n*** End Patch",
        )
    assert (tree / "a.py").read_text() == "one\ntwo\nthree\n"


async def test_a_file_that_changed_since_it_was_read_is_not_patched(use: Use, tree: Path) -> None:
    await read(use, "a.py", "c.py")
    (tree / "c.py").write_text("other\n")
    with pytest.raises(ToolFailed, match=r"'c\.py' has changed since"):
        await use(PATCH, input=THREE)
    assert (tree / "a.py").read_text() == "one\ntwo\nthree\n"


# ---------------------------------------------------------------- after a crash


@pytest.mark.parametrize(
    ("done", "answer"),
    [
        ((), DidNotHappen),
        (("a.py", "new/b.py", "c.py"), Happened),
        (("a.py",), type(None)),
        (("a.py", "c.py"), type(None)),
        (("c.py",), type(None)),
    ],
)
async def test_a_probe_tells_by_all_files_whether_a_patch_happened(
    use: Use, make_context: MakeContext, tree: Path, done: tuple[str, ...], answer: type[object]
) -> None:
    if "a.py" in done:
        (tree / "a.py").write_text("one\n2\nthree\n")
    if "new/b.py" in done:
        (tree / "new").mkdir()
        (tree / "new" / "b.py").write_text("print(1)\n\nprint(2)\n")
    if "c.py" in done:
        (tree / "c.py").unlink()
    found = await PATCH.probe(make_context(tree), PATCH.parse(json.dumps({"input": THREE})))
    assert isinstance(found, answer)


# ---------------------------------------------------------------- properties

line = st.sampled_from(
    ["a", "b", "  a", "", "x = 1", "+", "-", "@@", "*** End Patch", "*** Delete File: z"]
)


def diff_between(before: list[str], after: list[str], context: int) -> str:
    from difflib import SequenceMatcher

    hunks = list[str]()
    for group in SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(context):
        hunks.append("@@")
        for tag, a, b, c, d in group:
            hunks += (
                [f" {text}" for text in before[a:b]]
                if tag == "equal"
                else [f"-{text}" for text in before[a:b]] + [f"+{text}" for text in after[c:d]]
            )
        if group[-1][2] == len(before):
            hunks.append("*** End of File")
    return "\n".join(hunks)


@given(
    st.lists(line, max_size=12),
    st.lists(line, max_size=12),
    st.integers(0, 3),
    st.booleans(),
    st.booleans(),
)
@settings(deadline=None)
def test_a_patch_makes_the_wanted_text_or_is_refused(
    before: list[str], after: list[str], context: int, ends: bool, returns: bool
) -> None:
    """Whatever the lines are: also such as look like parts of a patch.

    Of texts that repeat themselves, a hunk may be refused, and is never put elsewhere.
    """
    old, new = ("\n".join(lines) + ("\n" if lines and ends else "") for lines in (before, after))
    if (
        old == new
        or (old and new and old.endswith("\n") != new.endswith("\n"))
        or "" in (before[-1:] + after[-1:])
    ):
        return
    document = TextDocument(old.replace("\n", "\r\n") if returns else old)
    try:
        patch(document, parse_diff("update", "f", diff_between(before, after, context)))
    except ToolFailed:
        assert len(set(before)) < len(before) or context == 0, "every line is told apart"
        return
    wanted = new if old else "\n".join([*after, ""]) if after else ""
    assert document.text == wanted
    if returns and "\n" in old:
        assert document.render() == wanted.replace("\n", "\r\n")


@given(st.lists(st.sampled_from([str(n) for n in range(40)]), max_size=30, unique=True), st.data())
@settings(deadline=None)
def test_a_patch_of_lines_that_are_told_apart_is_never_refused(
    before: list[str], data: st.DataObject
) -> None:
    after = [text for text in before if data.draw(st.booleans())]
    for n in range(data.draw(st.integers(0, 3))):
        after.insert(data.draw(st.integers(0, len(after))), f"new {n}")
    if before == after or not before:
        return
    document = TextDocument("".join(f"{text}\n" for text in before))
    patch(document, parse_diff("update", "f", diff_between(before, after, 3)))
    assert document.text == "".join(f"{text}\n" for text in after)


@given(
    st.text(alphabet="*+-@ ab./\n\0\r", max_size=200),
    st.lists(
        st.sampled_from(
            [
                "*** Add File: ",
                "*** Move to: ",
                "*** Update File: ",
                "@@",
                "+",
                "-x",
                "*** End of File",
            ]
        )
    ),
)
@settings(deadline=None)
def test_any_text_is_a_patch_or_is_refused_in_words(noise: str, heads: list[str]) -> None:
    body = "\n".join(f"{head}{noise[n * 7 : n * 7 + 9]}" for n, head in enumerate(heads))
    for given_text in (noise, f"*** Begin Patch\n{body}\n*** End Patch"):
        try:
            changes = parse_patch(given_text)
        except InvalidArguments:
            continue
        assert all(
            isinstance(change, FileChange) and all(isinstance(hunk, Hunk) for hunk in change.hunks)
            for change in changes
        )


# ---------------------------------------------------------------- in a run


@pytest.mark.parametrize(
    "head",
    [
        "*** Add File: {}\n+x",
        "*** Update File: a.py\n*** Move to: {}\n@@\n-two\n+2",
        "*** Delete File: {}",
        "*** Update File: {}\n@@\n-s\n+x",
    ],
)
@pytest.mark.parametrize(
    "where",
    ["../outside.txt", "/tmp/../{}/outside.txt", "link/outside.txt", ".git/hooks/pre-commit"],
)
async def test_a_patch_that_leads_outside_or_to_guarded_places_is_refused_as_a_whole(
    tmp_path: Path, head: str, where: str
) -> None:
    work = tmp_path / "work"
    (work / ".git" / "hooks").mkdir(parents=True)
    (work / "link").symlink_to(tmp_path)
    (work / "a.py").write_text("one\ntwo\nthree\n")
    (tmp_path / "outside.txt").write_text("s\n")
    before = contents(tmp_path)
    target = where.format(str(tmp_path).lstrip("/")) if "{}" in where else where
    given_patch = (
        f"*** Begin Patch\n*** Add File: fine.py\n+x\n{head.format(target)}\n*** End Patch"
    )
    calls = (
        [("c1", "read", '{"path": "a.py"}')],
        [("c2", "apply_patch", json.dumps({"input": given_patch}))],
    )
    model = PlayedModel(*(wishes(*each) for each in calls), text("Done."))
    seen = await watch(model, READ, PATCH, mode="accept-edits", cwd=work)
    assert contents(tmp_path) == before
    assert "apply_patch" in [
        r.name for m in seen.result.new_messages for r in m.tool_results if r.is_error
    ]


async def test_a_patch_inside_the_workspace_needs_a_yes_in_mode_ask_and_none_in_accept_edits(
    tree: Path,
) -> None:
    for mode, made in (("ask", False), ("accept-edits", True)):
        model = PlayedModel(
            wishes(("c1", "read", '{"path": "a.py"}'), ("c2", "read", '{"path": "c.py"}')),
            wishes(("c3", "apply_patch", json.dumps({"input": THREE}))),
            text("Done."),
        )
        await watch(model, READ, PATCH, mode=mode, cwd=tree)  # pyright: ignore[reportArgumentType]
        assert (tree / "new" / "b.py").exists() is made


@pytest.mark.parametrize("tool", ["edit", "write", "apply_patch"])
async def test_a_rule_that_denies_edits_denies_patches(tree: Path, tool: str) -> None:
    from treadle.config import Config
    from treadle.config.sections import Permissions

    async with open_runtime(
        config=Config(permissions=Permissions(deny=(f"tool({tool})",)))
    ) as runtime:
        model = PlayedModel(
            wishes(
                (
                    "c1",
                    "apply_patch",
                    json.dumps({"input": "*** Begin Patch\n*** Add File: n\n+x\n*** End Patch"}),
                )
            ),
            text("Done."),
        )
        result = await runtime.run(agent(model, PATCH), "go", mode="full", cwd=tree)
    assert f"the rule 'tool({tool})' denies apply_patch" in next(
        r.text for m in result.new_messages for r in m.tool_results
    )
    assert not (tree / "n").exists()


async def test_undo_puts_back_every_file_of_a_patch(
    tree: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from treadle import Runtime
    from treadle.runtime.undo import undone

    own = tmp_path_factory.mktemp("own")
    monkeypatch.setenv("TREADLE_HOME", os.fspath(own))
    before = contents(tree)
    model = PlayedModel(
        wishes(("c1", "read", '{"path": "a.py"}'), ("c2", "read", '{"path": "c.py"}')),
        wishes(("c3", "apply_patch", json.dumps({"input": THREE}))),
        text("Done."),
    )
    async with Runtime.open(f"sqlite:///{own}/runs.db") as runtime:
        result = await runtime.run(agent(model, READ, PATCH), "go", mode="full", cwd=tree)
        (info,) = await runtime.journal.runs()
        assert contents(tree) != before
        back = await undone(runtime.journal, info, apply=True)
    assert result.outcome.value == "completed"
    assert sorted((Path(file.path).name, file.action) for file in back.files) == [
        ("a.py", "restored"),
        ("b.py", "removed"),
        ("c.py", "restored"),
    ]
    assert contents(tree) == before
    assert not (tree / "new").exists()
