"""An HTML page becomes text that reads well, without what nobody would see, and in bounded time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.tools.builtin import page
from treadle.tools.builtin.page import readable

URL = "https://x.org/base/"


@pytest.mark.parametrize(
    ("html", "text"),
    [
        (
            "<h2>Head <em>line</em></h2><p>Some <b>bold</b>\n text.",
            "## Head line\n\nSome bold text.",
        ),
        ("<ul><li>one<li>two<ul><li>deep</ul><li>three</ul>", "- one\n- two\n  - deep\n- three"),
        ("<ol><li>a</li><li>b</li></ol>", "1. a\n2. b"),
        (
            "<pre><code>def f():\n    return  1\n</code></pre>",
            "```\ndef f():\n    return  1\n\n```",
        ),
        ("<table><tr><th>A<th>B</tr><tr><td>1<td>2</table>", "A | B\n1 | 2"),
        ("<p>Use <code>x  y</code>, &lt;ok&gt;&nbsp;&eacute;", "Use `x y`, <ok> é"),
        ("a<br>b<hr>c", "a\nb\nc"),
        (
            "<a href='/x?a=1&amp;b=2'>there</a> <a href='#here'>here</a> <a href='javascript:x()'>run</a> <a>none</a>",
            "[there](https://x.org/x?a=1&b=2) here run none",
        ),
        ("<a href='https://x.org/y'>https://x.org/y</a>", "https://x.org/y"),
        ("<a href='http://['>odd</a>", "odd"),
        ("<img src=x alt='A cat'><img src=y>", "[image: A cat]"),
        ("", ""),
    ],
)
def test_what_is_seen_is_shown(html: str, text: str) -> None:
    assert readable(html, URL).text == text


@pytest.mark.parametrize(
    "html",
    [
        "<script>hidden()</script>seen",
        "<style>hidden</style>seen",
        "<div style='color: red; display: none'>hidden <p>hidden</p></div>seen",
        "<span hidden>hidden</span>seen",
        "<span aria-hidden=true>hidden</span>seen",
        "<template><p>hidden</template>seen",
        "<!-- hidden -->seen",
        "<head><title>t</title><meta name=hidden>hidden<body>seen",
        "<div><p hidden>hidden</div>seen",
        "<svg><title>hidden</title></svg>seen",
    ],
)
def test_what_is_not_seen_is_left_out(html: str) -> None:
    assert readable(html, URL).text == "seen"


def test_the_title_is_the_first_one() -> None:
    assert (
        readable(
            "<head><title>A\n page</title></head><body><svg><title>icon</title></svg>", URL
        ).title
        == "A page"
    )


def test_long_lines_are_wrapped() -> None:
    assert (
        max(map(len, readable(f"<p>{'word ' * 10_000}", URL).text.split("\n")))
        <= page.MAX_LINE_CHARS
    )


HOSTILE = ["<", "<!--", "<a ", "<![CDATA[", "&", "<b>x</b>", "<div hidden>", "</", "<a href='"]


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_hostile_page_ends(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the test's own timeout does it."""
    monkeypatch.setattr(page, "MAX_SECONDS", 1.0)
    readable(piece * (5_000_000 // len(piece)), URL)


def test_ends_of_what_was_never_begun_do_not_keep_it_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them was looked for among all that is open."""
    monkeypatch.setattr(page, "MAX_SECONDS", 60.0)
    assert readable("<div hidden>" * 150_000 + "</x>" * 150_000, URL).text == ""


@given(st.text("<>/!-&;=\"' \nabphiddenul[]x", max_size=200))
def test_any_text_is_some_page(html: str) -> None:
    shown = readable(html, URL)
    assert "\n\n\n" not in shown.text
