"""Blocks of finished output, which are written once into the scrollback and can be drawn short or
in full.

Colours are in theme.py; Markdown and differences have their own modules. Entry points: `Block` and
its kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from treadle._internal.terminal_text import one_line, plain
from treadle._internal.units import count, lasting
from treadle.tui import differences, markdown
from treadle.tui.calling import Calling
from treadle.tui.drawing import Drawing
from treadle.tui.palettes import Glyphs
from treadle.tui.preview import FileDifference, Patch, Preview, TextPreview

BODY_LINES: Final = 10
SAID_LINES: Final = 12
"""Maximum number of lines of a prompt that are shown."""
LINE_CHARS: Final = 2_000
_COMMANDS: Final = frozenset({"bash", "bash_output", "bash_kill"})
"""Tools whose output has the result at its end."""


class Block(Protocol):
    def draw(self, drawing: Drawing, *, full: bool = False) -> RenderableType:
        """Draw the block: completely if `full`, as in the viewer, else with a limited number of
        lines.
        """
        ...

    @property
    def spaced(self) -> bool:
        """True if an empty line precedes the block."""
        ...


@dataclass(frozen=True, slots=True)
class PromptBlock:
    """Prompt of the user."""

    text: str
    note: str = ""
    """Way in which it was sent, for example `steering`."""
    spaced = True

    def draw(self, drawing: Drawing, *, full: bool = False) -> RenderableType:
        lines = _lines(self.text)
        shown = lines if full else _first(lines, SAID_LINES)
        mark = drawing.theme.glyphs.prompt
        text = Text()
        for n, line in enumerate(shown):
            text.append(f"{mark if n == 0 else ' ' * len(mark)} ", drawing.style("prompt"))
            text.append(line, drawing.style("user"))
            text.append("\n" if n + 1 < len(shown) else "")
        if self.note:
            text.append(f"  ({self.note})", drawing.style("dim"))
        return text


@dataclass(frozen=True, slots=True)
class AnswerBlock:
    """Finished Markdown block of the model's answer."""

    source: str
    first: bool = False
    """True for the first block of its message."""

    @property
    def spaced(self) -> bool:
        return self.first

    def draw(self, drawing: Drawing, *, full: bool = False) -> RenderableType:
        return markdown.drawn(self.source, drawing)


@dataclass(frozen=True, slots=True)
class Thought:
    """Reasoning of the model, shown as one line with the time it took."""

    seconds: float
    text: str
    spaced = True

    def draw(self, drawing: Drawing, *, full: bool = False) -> RenderableType:
        head = Text(
            f"{drawing.theme.glyphs.thought} Thought for {lasting(self.seconds)}",
            drawing.style("reasoning"),
        )
        return (
            Group(head, _body(_lines(self.text), drawing, "reasoning", full=True))
            if full and self.text.strip()
            else head
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBlock:
    """Finished tool call: one line and the beginning of its result."""

    call: Calling
    name: str
    result: str
    status: str
    """Status of the call: ok, error, unknown or denied."""
    seconds: float
    exit_code: int | None = None
    agent: str = ""
    calls: int = 0
    """Number of tool calls that a child agent made for it."""
    spaced = True

    def draw(self, drawing: Drawing, *, full: bool = False) -> RenderableType:
        glyphs = drawing.theme.glyphs
        mark, style = self._mark(glyphs)
        head = Text(no_wrap=not full, overflow="ellipsis")
        head.append(f"{mark} ", drawing.style(style))
        if self.exit_code:  # first, so that a long command does not push it off the screen
            head.append(f"exit {self.exit_code} {glyphs.dot} ", drawing.style("error"))
        head.append(f"{one_line(self.agent)}: " if self.agent else "", drawing.style("dim"))
        head.append(
            one_line(self.name) if self.status == "denied" else self.call.done,
            drawing.style("tool.name"),
        )
        head.append(
            f" {self.call.target}" if self.call.target else "", drawing.style("tool.target")
        )
        head.append(
            "".join(f" {glyphs.dot} {note}" for note in self._notes()), drawing.style("dim")
        )
        body = self._body(drawing, full=full)
        return head if body is None else Group(head, body)

    def _mark(self, glyphs: Glyphs) -> tuple[str, str]:
        match self.status:
            case "unknown":
                return glyphs.question, "tool.error"
            case "denied":
                return glyphs.cross, "tool.error"
            case "ok" if not self.exit_code:
                return glyphs.tick, "tool.mark"
            case _:
                return glyphs.cross, "error"

    def _notes(self) -> Iterator[str]:
        if self.calls:
            yield count(self.calls, "call")
        if self.seconds >= 1:
            yield lasting(self.seconds)
        if self.status == "unknown":
            yield "it is unknown whether it took effect"
        elif self.status == "error" and not self.exit_code:
            yield "failed"
        elif self.status == "denied":
            yield "not run"

    def _body(self, drawing: Drawing, *, full: bool) -> RenderableType | None:
        most = None if full else BODY_LINES
        if (
            self.status == "ok"
            and self.name in ("edit", "write", "apply_patch")
            and (split := _difference_in(self.result)) is not None
        ):
            return Padding(differences.drawn_patch(split, drawing, most=most), (0, 0, 0, 2))
        if self.status == "ok" and self.name in ("read", "todo_write", "ls", "glob") and not full:
            return None
        lines = _lines(self.result)
        if not lines:
            return None
        first = (
            "error"
            if self.status in ("error", "unknown") and self.exit_code is None
            else "tool.body"
        )
        return _body(
            lines, drawing, "tool.body", full=full, ends=self.name in _COMMANDS, first=first
        )


def _difference_in(result: str) -> str | None:
    """Return the unified diff in the result of `edit` or `write`."""
    at = result.find("@@ ")
    return result[at:] if at >= 0 else None


@dataclass(frozen=True, slots=True)
class NoticeBlock:
    """Notice from the chat program, such as a warning, as opposed to the model's text."""

    text: str
    style: str = "dim"
    """Style of the theme in which it is drawn: `dim`, `warning` or `error`."""
    spaced: bool = True

    def draw(self, drawing: Drawing, *, full: bool = False) -> RenderableType:
        return Text(plain(self.text), drawing.style(self.style))


@dataclass(frozen=True, slots=True)
class ProposedCallBlock:
    """Complete preview of a call that needs approval."""

    preview: Preview
    spaced = False

    def draw(self, drawing: Drawing, *, full: bool = False) -> RenderableType:
        if not isinstance(self.preview, TextPreview):
            files = self.preview.files if isinstance(self.preview, Patch) else (self.preview,)
            return Group(*(part for file in files for part in self._file(file, drawing)))
        return Text(
            self.preview.text,
            drawing.style("tool.target" if self.preview.is_command else "tool.body"),
        )

    def _file(self, file: FileDifference, drawing: Drawing) -> Iterator[RenderableType]:
        yield Text(f"{file.path}{file.note}", drawing.style("tool.target"))
        yield differences.drawn(file.path, file.before, file.after, drawing, whole=True)


@dataclass(frozen=True, slots=True)
class Drawn:
    """Any other Rich renderable, for example the output of a command."""

    renderable: RenderableType
    spaced: bool = True

    def draw(self, drawing: Drawing, *, full: bool = False) -> RenderableType:
        return self.renderable


def _lines(text: str) -> list[str]:
    return [plain(line.expandtabs(4))[:LINE_CHARS] for line in text.strip("\n").splitlines()]


def _first(lines: list[str], most: int) -> list[str]:
    """Return the first lines, followed by one that names the key for the rest."""
    return (
        lines
        if len(lines) <= most
        else [*lines[: most - 1], f"… {count(len(lines) - most + 1, 'more line')} (Ctrl-O)"]
    )


def _ends(lines: list[str], most: int) -> list[str]:
    """Return the first lines and more of the last ones, because the output of a command has its
    result at the end.
    """
    if len(lines) <= most:
        return lines
    first = most // 4
    last = most - 1 - first
    return [
        *lines[:first],
        f"… {count(len(lines) - first - last, 'more line')} (Ctrl-O)",
        *lines[-last:],
    ]


def _body(
    lines: list[str],
    drawing: Drawing,
    style: str,
    *,
    full: bool,
    ends: bool = False,
    first: str | None = None,
) -> RenderableType:
    """Draw lines as the body of a call. `ends` also keeps the last lines of a long text; `first` is
    the style of the first line.
    """
    shown: Iterable[str] = lines if full else (_ends if ends else _first)(lines, BODY_LINES)
    bar = drawing.theme.glyphs.bar
    text = Text(no_wrap=not full, overflow="ellipsis")
    for number, line in enumerate(shown):
        text.append(f"{chr(10) if number else ''}  {bar} ", drawing.style(style))
        text.append(line, drawing.style(style if number or first is None else first))
    return text
