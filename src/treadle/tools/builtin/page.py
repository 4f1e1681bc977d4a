"""Conversion of an HTML page to plain text: headings, paragraphs, lists, tables, code, and link
targets.

Invisible parts are omitted: scripts, hidden elements, characters without a glyph. Not here:
fetching it (web.py). Entry points: `readable`, `decoded`.
"""

from __future__ import annotations

import re
import textwrap
import time
from html.parser import HTMLParser
from urllib.parse import urljoin

import msgspec
from typing_extensions import override

from treadle.tools.builtin.text import Encoding

MAX_SECONDS = 5.0
_DEEPEST = 512
"""Maximum nesting of elements that is tracked inside invisible ones, as in browsers."""
MAX_LINE_CHARS = 1_000
_LONG_LINE_CHARS = 20_000
_PIECE = 32 * 1024
_MAX_UNFINISHED = 256 * 1024
_BLOCKS = re.compile(
    "address|article|aside|blockquote|body|br|caption|dd|details|div|dl|dt|fieldset|figcaption|figure|footer|form|h[1-6]|header|hr|li|main"
    "|nav|ol|option|p|pre|section|summary|table|tbody|td|tfoot|th|thead|tr|ul"
).fullmatch
_WITHOUT_END = re.compile(
    "area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr"
).fullmatch
_END_MAY_LACK = re.compile("dd|dt|li|option|p|tbody|td|tfoot|th|thead|tr").fullmatch
_UNSEEN = re.compile(
    "script|style|template|svg|noscript|iframe|object|canvas|audio|video|head|select|button"
).fullmatch
_HIDDEN = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_SHAPELESS = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)
_CHARSET = re.compile(
    rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{2,40})", re.IGNORECASE
)
_TEXT_CODECS = re.compile(
    r"(?:utf[-_]?(?:8|16|32)(?:[-_]?[bl]e)?|us[-_]ascii|ascii|latin[-_]?\d+|iso[-_]8859[-_]\d+|(?:windows|cp)[-_]?\d+|koi8[-_][ru]|gb\w+|big5\w*"
    r"|shift[-_]?jis|sjis|euc[-_]\w+|iso[-_]2022[-_]\w+|mac\w*|tis[-_]?620)",
    re.IGNORECASE,
)


class Page(msgspec.Struct, frozen=True):
    title: str
    text: str
    notes: list[str]


def is_html(media_type: str, body: bytes) -> bool:
    """Return True if the server declares HTML, or declares nothing and the body begins like
    HTML.
    """
    if media_type in ("text/html", "application/xhtml+xml"):
        return True
    return (
        media_type in ("", "application/octet-stream")
        and re.match(rb"\s*<(?:!doctype html|html)\b", body, re.IGNORECASE) is not None
    )


def decoded(body: bytes, charset: str | None) -> str:
    """Decode by byte order mark, then by the charset of the server or the page, else as UTF-8.

    Characters without a glyph are removed.
    """
    codec = Encoding.of(body[:4], whole=False)
    if codec.bom:
        text = body[len(codec.bom) :].decode(codec.codec, "replace")
    else:
        said = charset or (
            found[1].decode() if (found := _CHARSET.search(body[:4096])) else "utf-8"
        )
        try:
            text = body.decode(said if _TEXT_CODECS.fullmatch(said) else "utf-8", "replace")
        except LookupError:
            text = body.decode("utf-8", "replace")
    return _SHAPELESS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def readable(html: str, url: str) -> Page:
    """Convert a page, within about 5 s. `url`: base of its links."""
    reader, deadline, notes = _Reader(url), time.monotonic() + MAX_SECONDS, list[str]()
    for at in range(0, len(html), _PIECE):
        reader.feed(html[at : at + _PIECE])
        if time.monotonic() > deadline or len(reader.rawdata) > _MAX_UNFINISHED:
            notes.append("(the rest of the page could not be read)")
            break
    else:
        reader.close()
    return Page(title=" ".join(reader.title.split()), text=reader.text(), notes=notes)


class _Reader(HTMLParser):
    """Parser that builds lines: `_line` is the current one, `_lines` are the finished ones."""

    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self._url = url
        self._lines: list[str] = []
        self._line = ""
        self._prefix = ""
        self._unseen: list[str] = []
        """Open elements from the outermost invisible one inwards."""
        self._lists: list[int | None] = []
        self._pre = 0
        self._link: tuple[str, int] | None = None
        self._in_title = False

    def text(self) -> str:
        self._break()
        return re.sub(r"\n{3,}", "\n\n", "\n".join(self._lines)).strip("\n")

    # ------------------------------------------------------------ parser events

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title" and not self.title:
            self._in_title = True
        if tag == "body":
            self._unseen.clear()
        given = dict(attrs)
        if (
            self._unseen
            or _UNSEEN(tag)
            or "hidden" in given
            or given.get("aria-hidden") == "true"
            or _HIDDEN.search(given.get("style") or "")
        ):
            if not _WITHOUT_END(tag) and len(self._unseen) < _DEEPEST:
                self._unseen.append(tag)
            return
        if _BLOCKS(tag):
            self._begin(tag)
        elif tag == "a":
            self._link = (given.get("href") or "", len(self._line))
        elif tag == "img" and (alt := (given.get("alt") or "").strip()):
            self._add(f"[image: {alt}]")
        elif tag == "code" and not self._pre:
            self._line += "`"

    @override
    def handle_endtag(self, tag: str) -> None:
        self._in_title = self._in_title and tag not in ("title", "head")
        if self._unseen:
            if tag in self._unseen:
                while self._unseen.pop() != tag:
                    pass
            elif _END_MAY_LACK(self._unseen[0]):
                self._unseen.clear()
        elif _BLOCKS(tag):
            self._end(tag)
        elif tag == "a":
            self._end_link()
        elif tag == "code" and not self._pre:
            self._line += "`"

    @override
    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif not self._unseen:
            self._add(data)

    # ------------------------------------------------------------ lines

    def _add(self, data: str) -> None:
        if self._pre:
            first, *rest = data.split("\n")
            self._line += first
            for line in rest:
                self._lines.append(self._line)
                self._line = line
            return
        if len(self._line) > _LONG_LINE_CHARS:
            self._break()
        words = " ".join(data.split())
        if words == "":
            self._line += " " if data and self._line and not self._line.endswith(" ") else ""
            return
        space = " " if data[0].isspace() and self._line and not self._line.endswith(" ") else ""
        self._line += f"{space}{words}{' ' if data[-1].isspace() else ''}"

    def _break(self) -> None:
        if self._pre:
            self._lines.append(self._line)
        elif self._line.strip():
            text = self._prefix + self._line.strip()
            self._lines += (
                [text]
                if len(text) <= MAX_LINE_CHARS
                else textwrap.wrap(text, MAX_LINE_CHARS, break_on_hyphens=False)
            )
            self._prefix = ""
        self._line, self._link = "", None

    def _begin(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._line += " | " if self._line.strip() else ""
            return
        self._break()
        match tag:
            case "h1" | "h2" | "h3" | "h4" | "h5" | "h6":
                self._lines.append("")
                self._prefix = "#" * int(tag[1]) + " "
            case "p" | "table" | "blockquote" | "figure":
                self._lines += [""] if not self._prefix else []
            case "ul" | "ol":
                self._lists.append(None if tag == "ul" else 0)
            case "li":
                self._prefix = "  " * (len(self._lists) - 1) + self._mark()
            case "pre":
                self._lines += ["", "```"]
                self._pre += 1
            case _:
                return

    def _mark(self) -> str:
        if not self._lists or (number := self._lists[-1]) is None:
            return "- "
        self._lists[-1] = number + 1
        return f"{number + 1}. "

    def _end(self, tag: str) -> None:
        if tag in ("td", "th"):
            return
        self._break()
        if tag == "pre" and self._pre:
            self._pre -= 1
            self._lines += ["```", ""]
        elif tag in ("ul", "ol") and self._lists:
            self._lists.pop()
        elif tag in ("p", "table", "h1", "h2", "h3", "h4", "h5", "h6"):
            self._lines.append("")

    def _end_link(self) -> None:
        """Append the target to the link's text as `text (target)`, unless it is on the same
        page.
        """
        if self._link is None:
            return
        (href, at), self._link = self._link, None
        words = self._line[at:].strip()
        if self._pre or not words or not href or href.startswith("#"):
            return
        try:
            target = urljoin(self._url, href.strip())
        except ValueError:
            return
        if target.startswith(("http://", "https://")) and target != words:
            self._line = f"{self._line[:at]}{' ' if self._line[at:].startswith(' ') else ''}[{words}]({target})"  # noqa: E501
