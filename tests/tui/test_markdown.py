"""How each kind of block looks, and what of a text is only text."""

from __future__ import annotations

import re

import pytest
from inline_snapshot import snapshot

from treadle.tui import markdown
from treadle.tui.drawing import Drawing
from treadle.tui.growing import LINE_CHARS, TAIL_CHARS, Growing
from treadle.tui.markdown import SOURCE_CHARS, drawn
from treadle.tui.theme import Theme

NONE = Theme("none", 1)
DARK = Theme("dark", 4)
ASCII = Theme("none", 1, False, "ascii")
SGR = re.compile(r"\x1b\[[0-9;]*m")
EVERYTHING = """\
# What changed

Two files, with **all** of `parse()` in *one* place: see [the docs](https://example.org/docs).
A second line.

## Steps

1. Read the configuration, which may stand in more places than one would think
   - the user's
   - the project's

     and why
1. Run:
   ```sh
   make test
   ```

- [x] done
- [ ] open

> A quote that is long enough to be wrapped at sixty columns and at thirty, too
> > and another

| File | Lines | Why |
|:-----|------:|:---:|
| `a.py` | 12 | it was too long |
| src/treadle/tui/theme.py | 1 | |

```python
def f(x: int) -> str:
    return str(x)  # with a comment that is quite a bit longer than the rest
```

---
<b>HTML</b> &amp; ![a picture](cat.png) ~~gone~~ <https://a.example>
"""


def look(source: str, width: int, theme: Theme = NONE) -> str:
    drawing = Drawing(width, theme)
    return drawing.ansi(drawn(source, drawing))


def plainly(source: str, width: int) -> str:
    return SGR.sub("", look(source, width))


def test_every_kind_of_block_at_a_hundred_columns() -> None:
    assert plainly(EVERYTHING, 100) == snapshot("""\
What changed

Two files, with all of parse() in one place: see the docs (https://example.org/docs).
A second line.

Steps

1. Read the configuration, which may stand in more places than one would think
   ◦ the user's
   ◦ the project's

     and why
2. Run:
     make test

☑ done
☐ open

│ A quote that is long enough to be wrapped at sixty columns and at thirty, too
│ │ and another

File                      Lines        Why
────────────────────────  ─────  ───────────────
a.py                         12  it was too long
src/treadle/tui/theme.py      1

  def f(x: int) -> str:
      return str(x)  # with a comment that is quite a bit longer than the rest

────────────────────────
<b>HTML</b> & a picture (cat.png) gone https://a.example
""")


def test_every_kind_of_block_at_sixty_columns_in_ascii() -> None:
    assert look(EVERYTHING, 60, ASCII) == snapshot("""\
# What changed

Two files, with all of `parse()` in one place: see the docs
(https://example.org/docs).
A second line.

## Steps

1. Read the configuration, which may stand in more places
   than one would think
   - the user's
   - the project's

     and why
2. Run:
     make test

[x] done
[ ] open

| A quote that is long enough to be wrapped at sixty columns
| and at thirty, too
| | and another

File                      Lines        Why
------------------------  -----  ---------------
`a.py`                       12  it was too long
src/treadle/tui/theme.py      1

  def f(x: int) -> str:
      return str(x)  # with a comment that is quite a bit lo
  nger than the rest

------------------------
<b>HTML</b> & a picture (cat.png) gone https://a.example
""")


def test_every_kind_of_block_at_thirty_columns() -> None:
    assert plainly(EVERYTHING, 30) == snapshot("""\
What changed

Two files, with all of parse()
in one place: see the docs
(https://example.org/docs).
A second line.

Steps

1. Read the configuration,
   which may stand in more
   places than one would think
   ◦ the user's
   ◦ the project's

     and why
2. Run:
     make test

☑ done
☐ open

│ A quote that is long enough
│ to be wrapped at sixty
│ columns and at thirty, too
│ │ and another

File        Lines     Why
──────────  ─────  ──────────
a.py           12  it was too
                      long
src/treadl      1
e/tui/them
e.py

  def f(x: int) -> str:
      return str(x)  # with a
  comment that is quite a bit
  longer than the rest

────────────────────────
<b>HTML</b> & a picture
(cat.png) gone
https://a.example
""")


def test_every_kind_of_block_in_colours() -> None:
    assert look(EVERYTHING, 60, DARK) == snapshot("""\
\x1b[1;4;36mWhat changed\x1b[0m

Two files, with \x1b[1mall\x1b[0m of \x1b[96mparse()\x1b[0m in \x1b[3mone\x1b[0m place: see \x1b[4;94mthe docs\x1b[0m
\x1b[90m(https://example.org/docs)\x1b[0m.
A second line.

\x1b[1;36mSteps\x1b[0m

\x1b[36m1. \x1b[0mRead the configuration, which may stand in more places
   than one would think
   \x1b[36m◦ \x1b[0mthe user's
   \x1b[36m◦ \x1b[0mthe project's

     and why
\x1b[36m2. \x1b[0mRun:
     make test

\x1b[36m☑ \x1b[0mdone
\x1b[36m☐ \x1b[0mopen

\x1b[36m│ \x1b[0mA quote that is long enough to be wrapped at sixty columns
\x1b[36m│ \x1b[0mand at thirty, too
\x1b[36m│ \x1b[0m\x1b[36m│ \x1b[0mand another

\x1b[1mFile\x1b[0m                      \x1b[1mLines\x1b[0m        \x1b[1mWhy\x1b[0m
\x1b[36m────────────────────────  ─────  ───────────────\x1b[0m
\x1b[96ma.py\x1b[0m                         12  it was too long
src/treadle/tui/theme.py      1

  \x1b[35mdef\x1b[0m \x1b[94mf\x1b[0m(x: \x1b[94mint\x1b[0m) -> \x1b[94mstr\x1b[0m:
      \x1b[35mreturn\x1b[0m \x1b[94mstr\x1b[0m(x)  \x1b[3;90m# with a comment that is quite a bit lo\x1b[0m
  \x1b[3;90mnger than the rest\x1b[0m

\x1b[36m────────────────────────\x1b[0m
<b>HTML</b> & \x1b[90ma picture (cat.png)\x1b[0m \x1b[9mgone\x1b[0m \x1b[4;94mhttps://a.example\x1b[0m
""")


def test_without_colours_there_is_still_bold() -> None:
    assert look("# Head\n**bold** `code`\n- x", 40) == snapshot("""\
\x1b[1;4mHead\x1b[0m
\x1b[1mbold\x1b[0m \x1b[1mcode\x1b[0m
\x1b[2m• \x1b[0mx
""")


def test_a_table_without_room_is_a_list_of_its_cells() -> None:
    assert plainly(
        "| Name | Size | Owner | Changed |\n|---|---|---|---|\n| a.py | 12 | me | today |\n| b.py | 7 | you | never |\n",
        20,
    ) == snapshot("""\
Name: a.py
Size: 12
Owner: me
Changed: today

Name: b.py
Size: 7
Owner: you
Changed: never
""")


def test_a_language_that_nobody_knows_is_plain() -> None:
    assert look("```klingon\ndef f(): 1\n```", 40, DARK) == "  def f(): 1\n"
    assert look("```\ndef f(): 1\n```", 40, DARK) == "  def f(): 1\n"
    assert "\x1b[" in look("```python title='x'\ndef f(): 1\n```", 40, DARK)


def test_code_keeps_every_character() -> None:
    code = "\n\n  two  blanks\n\ttab\n" + "x" * 50 + "\n\n"
    shown = plainly(f"```python\n{code}```", 32)
    assert shown == "\n\n    two  blanks\n      tab\n  " + "x" * 30 + "\n  " + "x" * 20 + "\n\n"


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<!-- a comment -->",
        "[1]: http://example.org 'title'",
        "![x](y)",
        "&#27;[31m",
    ],
)
def test_what_would_be_executed_or_hidden_elsewhere_is_text(text: str) -> None:
    words = re.findall(r"\w+", text.replace("&#27;", ""))
    assert words == re.findall(r"\w+", plainly(text, 80))


def test_an_address_is_shown_once() -> None:
    assert (
        plainly(
            "<https://a.example> [b](https://b.example) [https://c.example](https://c.example)", 100
        )
        == "https://a.example b (https://b.example) https://c.example\n"
    )


HOSTILE = {
    "quotes": "> " * 10_000 + "end",
    "quotes, one a line": "".join("> " * n + "x\n" for n in range(1, 120)) + "end",
    "lists": "- " * 10_000 + "end",
    "nested lists": "".join("  " * n + "- x\n" for n in range(500)) + "end",
    "brackets": "[" * 10_000 + "end",
    "links": "[a](" * 5_000 + "end",
    "images": "![" * 5_000 + "end",
    "backticks": " ".join("`" * n for n in range(1, 200)) + "\nend",
    "stars": "*a_ " * 5_000 + "end",
    "a long line": "x" * 1_000_000 + " end",
    "entities": "&" * 20_000 + "end",
    "table": "|" * 5_000 + "\n" + "|-" * 5_000 + "\nend",
    "empty lines": "\n" * 20_000 + "end",
    "code": "```python\n" + '"' * 5_000 + "\n" + "(" * 5_000 + "\nend",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_comes_in_pieces_of_a_bounded_size_and_all_of_it_is_shown(name: str) -> None:
    growing = Growing()
    pieces = [*growing.feed(HOSTILE[name]), *growing.finish()]
    assert max(map(len, pieces)) < TAIL_CHARS + LINE_CHARS
    for piece in [*pieces[:3], pieces[-1]]:
        look(piece, 80)
    assert plainly(pieces[-1], 80).rstrip().endswith("end")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_whole_text_that_is_too_large_or_too_deep_is_drawn_as_it_stands(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = markdown._parser()
    parsed: list[int] = []
    parse = parser.parse
    monkeypatch.setattr(
        parser, "parse", lambda text, env=None: (parsed.append(len(text)), parse(text, env))[1]
    )
    assert "end" in plainly(HOSTILE[name], 80).splitlines()[-1]
    assert max(parsed, default=0) <= SOURCE_CHARS


def test_what_is_nested_too_deeply_is_not_lost() -> None:
    assert "innermost" in look("> " * 50 + "innermost", 100)
    assert "innermost" in look("- " * 50 + "innermost", 100)
