"""How a change of a file looks: unified, or side by side where there is room."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from treadle.tools.builtin.difference import short_difference
from treadle.tui import differences
from treadle.tui.drawing import Drawing
from treadle.tui.theme import Theme

NONE = Theme("none", 1)
SGR = re.compile(r"\x1b\[[0-9;]*m")
BEFORE = (
    "import os\n\n\ndef area(w, h):\n    return w * h\n"
    + "".join(f"# line {n}\n" for n in range(20))
    + "a last line that goes on for longer than a narrow terminal is wide\n"
)
AFTER = (
    BEFORE.replace("w * h", "w * h / 2")
    .replace("# line 15\n", "")
    .replace("a narrow", "any narrow")
)


def look(
    width: int,
    theme: Theme = NONE,
    most: int | None = None,
    before: str = BEFORE,
    after: str = AFTER,
) -> str:
    drawing = Drawing(width, theme)
    return drawing.ansi(differences.drawn("area.py", before, after, drawing, most=most))


def test_a_difference_at_sixty_columns() -> None:
    assert SGR.sub("", look(60)) == snapshot("""\
 2
 3
 4   def area(w, h):
 5 -     return w * h
 5 +     return w * h / 2
 6   # line 0
 7   # line 1
 8   # line 2
⋮
18   # line 12
19   # line 13
20   # line 14
21 - # line 15
21   # line 16
22   # line 17
23   # line 18
24   # line 19
26 - a last line that goes on for longer than a narrow termi
     nal is wide
25 + a last line that goes on for longer than any narrow ter
     minal is wide
""")


def test_a_difference_in_ascii_at_thirty_columns() -> None:
    assert look(30, Theme("none", 1, False, "ascii"), most=12) == snapshot("""\
 2
 3
 4   def area(w, h):
 5 -     return w * h
 5 +     return w * h / 2
 6   # line 0
 7   # line 1
 8   # line 2
:
18   # line 12
19   # line 13
~ 8 more lines
""")


def test_a_difference_side_by_side() -> None:
    assert SGR.sub("", look(140)) == snapshot("""\
 2                                                                   │  2
 3                                                                   │  3
 4   def area(w, h):                                                 │  4   def area(w, h):
 5 -     return w * h                                                │  5 +     return w * h / 2
 6   # line 0                                                        │  6   # line 0
 7   # line 1                                                        │  7   # line 1
 8   # line 2                                                        │  8   # line 2
⋮
18   # line 12                                                       │ 18   # line 12
19   # line 13                                                       │ 19   # line 13
20   # line 14                                                       │ 20   # line 14
21 - # line 15                                                       │
22   # line 16                                                       │ 21   # line 16
23   # line 17                                                       │ 22   # line 17
24   # line 18                                                       │ 23   # line 18
25   # line 19                                                       │ 24   # line 19
26 - a last line that goes on for longer than a narrow terminal is w │ 25 + a last line that goes on for longer than any narrow terminal is
     ide                                                             │       wide
""")


def test_what_changed_inside_of_a_line_stands_out() -> None:
    before, after = "a = 1\nred green blue\n", "a = 1\nred yellow blue\n"
    assert look(60, Theme("dark", 4), before=before, after=after) == snapshot("""\
\x1b[90m1 \x1b[0m\x1b[90m  \x1b[0ma = 1
\x1b[90m2 \x1b[0m\x1b[31m- \x1b[0m\x1b[31mred \x1b[0m\x1b[1;30;41mgreen\x1b[0m\x1b[31m blue\x1b[0m
\x1b[90m2 \x1b[0m\x1b[32m+ \x1b[0m\x1b[32mred \x1b[0m\x1b[1;30;42myellow\x1b[0m\x1b[32m blue\x1b[0m
""")
    assert "\x1b[1;38;2;92;0;0;48;2;242;180;180mgreen\x1b[0m" in look(
        60, Theme("light", 24), before=before, after=after
    )


def test_a_language_shines_through_what_was_added() -> None:
    drawn = look(60, Theme("dark", 24), before="", after="def f(): pass\n")
    assert "\x1b[35;48;2;22;48;28mdef\x1b[0m" in drawn


@given(
    st.text("ab\n", max_size=60),
    st.text("ab\n", max_size=60),
    st.sampled_from([60, 160]),
    st.integers(1, 12),
)
def test_at_most_so_many_lines_and_the_last_says_what_is_missing(
    before: str, after: str, width: int, most: int
) -> None:
    whole = look(width, NONE, None, before, after).splitlines()
    cut = SGR.sub("", look(width, NONE, most, before, after)).splitlines()
    if len(whole) <= most:
        assert cut == [SGR.sub("", line) for line in whole]
    else:
        missing = len(whole) - most + 1
        assert len(cut) == most
        assert cut[-1] == f"… {missing} more line{'' if missing == 1 else 's'}"


def test_nothing_is_drawn_where_nothing_changed() -> None:
    assert look(60, before="same\n", after="same\n") == ""


def test_what_a_tool_says_of_a_change_is_drawn_as_the_change_itself() -> None:
    drawing = Drawing(60, NONE)
    assert drawing.ansi(
        differences.drawn_patch(short_difference(BEFORE, AFTER), drawing, path="area.py")
    ) == look(60)


def test_a_patch_of_git_is_drawn_without_its_head_and_with_its_language() -> None:
    drawing = Drawing(60, Theme("dark", 4))
    patch = "diff --git a/x.py b/x.py\nindex 1..2 100644\n--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@ def f\n import os\n-a\n+b\n\\ No newline at end of file\n"
    assert (
        SGR.sub("", drawing.ansi(differences.drawn_patch(patch, drawing)))
        == "1   import os\n2 - a\n2 + b\n\\ No newline at end of file\n"
    )
    drawing = Drawing(60, Theme("dark", 8))
    assert "\x1b[35mimport" in drawing.ansi(differences.drawn_patch(patch, drawing))


def test_too_much_to_compare_is_said() -> None:
    drawn = look(
        80,
        before="".join(f"{n}\n" for n in range(3000)),
        after="".join(f"{-n}\n" for n in range(3000)),
    )
    assert SGR.sub("", drawn) == "lines 1-3000 became 3000 lines: too much to show\n"


def test_what_was_cut_off_before_is_told_too() -> None:
    drawing = Drawing(60, NONE)
    assert "(… 7 more lines of difference)" in drawing.ansi(
        differences.drawn_patch("@@ -1,1 +1,1 @@\n-a\n+b\n(… 7 more lines of difference)", drawing)
    )
