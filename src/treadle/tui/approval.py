"""The approval prompt for a tool call: once, for this session, always, or no, with an optional
reason. Entry points: `Approval`.

chat.py acts on the answer. Escape denies. Keys within half a second after the prompt appears, and
keys that follow such a key within half a second, were meant for the input and go there. Enter may
end what a person is typing, so it takes a choice only after the selection was moved. While part of
the call does not fit the screen, the call can only be approved after `d` has shown all of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, Filter
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    HSplit,
    Window,
)
from prompt_toolkit.layout.controls import FormattedTextControl

from treadle._internal.terminal_text import columns, cut, one_line, revealed_line, wrapped
from treadle.tools.approval import ApprovalRequest
from treadle.tui.approval_preview import NO, Choice, PreviewLines, Scope, choices_of
from treadle.tui.preview import Preview
from treadle.tui.slot import Line, SlotAnswer
from treadle.tui.theme import Theme

DEAF_S: Final = 0.5
PREVIEW_LINES: Final = 24
REASON_LINES: Final = 4
SPOKEN_LINES: Final = 10_000
SPOKEN: Final = "Type a letter and press Enter; after w, type the reason."

UNCHOSEN: Final = "Press a letter, or choose with the arrow keys first"
UNSEEN: Final = "Not all of it is visible: press d to view it, then approve"
CUT: Final = "Too long to show, so it cannot be approved here"

QUESTIONS: Final = {
    "bash": "Run this command?",
    "write": "Write this file?",
    "edit": "Make this change?",
    "apply_patch": "Make all of these changes?",
    "fetch": "Fetch this page?",
}
"""Questions about calls of built-in tools, by tool name."""


@dataclass(frozen=True, slots=True)
class ApprovalReply:
    scope: Scope
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """Callbacks of the chat that the prompt needs."""

    view: Callable[[], None]
    """Callback that shows the complete call in full screen."""
    typed: Callable[[str], None]
    """Callback for keys that were meant for the input."""
    columns: Callable[[], int]
    cycle_mode: Callable[[], None] = lambda: None


class Approval:
    """Approval prompt as a slot."""

    def __init__(
        self,
        request: ApprovalRequest,
        preview: Preview,
        theme: Theme,
        around: Around,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._request, self._theme, self._around, self._clock = request, theme, around, clock
        self._preview = PreviewLines(preview, theme)
        self._columns = around.columns
        self._hidden = 0
        """Number of preview lines hidden in the last drawing."""
        self._viewed = False
        self._seen_rules = set[str]()
        """Keys of the choices whose rules were completely visible in the last drawing."""
        self._answered = SlotAnswer[ApprovalReply]()
        self._choices = choices_of(request)
        self._at = 0
        self._is_chosen: bool | None = None
        """True once the selection was moved. An Enter before that resets it."""
        self._rows = 20
        self._deaf_until = 0.0
        self._says_why = False
        self._why = Buffer(multiline=False)
        self.focus = Window(
            FormattedTextControl(self._lines, focusable=True, show_cursor=False),
            height=self._height,
            always_hide_cursor=True,
        )
        self._reason = Window(
            BufferControl(self._why),
            height=1,
            get_line_prefix=lambda _, __: [(theme.toolkit("prompt"), "    why? ")],
        )
        self.container = HSplit(
            [self.focus, ConditionalContainer(self._reason, Condition(lambda: self._says_why))]
        )
        self.keys = self._bindings()

    def opened(self, rows: int) -> None:
        self._rows = rows
        self._deaf_until = self._clock() + DEAF_S

    async def answer(self) -> ApprovalReply:
        return await self._answered.wait()

    # ------------------------------------------------------------ drawing

    def _height(self) -> Dimension:
        return Dimension.exact(len(self._drawn()))

    def _lines(self) -> StyleAndTextTuples:
        whole: StyleAndTextTuples = []
        for n, line in enumerate(self._drawn()):
            whole += [("", "\n"), *line] if n else line
        return whole

    def _drawn(self) -> list[Line]:
        """Return the lines of the prompt. The choices always fit; the preview gets the remaining
        rows.
        """
        width, style = max(self._columns() - 1, 10), self._theme.toolkit
        head: Line = [
            (style("warning"), cut(f"{self._theme.glyphs.question} {self._asks()}", width))
        ]
        why = self._reasons(width)
        heads = [head] if self._rows > 2 else []
        choices = self._offered(width, self._rows - len(heads) - 1)
        room = self._rows - len(heads) - len(choices)
        shown, self._hidden = self._preview.shown(
            width, min(max(room - len(why) - 1, min(room, 1)), PREVIEW_LINES)
        )
        # The line that explains why the call cannot be approved takes precedence.
        if self._is_unseen and len(shown) == room:
            shown.pop()
        room -= len(shown)
        why = why[: max(room - self._is_unseen, 0)]
        return [*heads, *shown, *why, *choices, *[self._help(width)][: max(room - len(why), 0)]]

    def _asks(self) -> str:
        place = f" ({self._request.number} of {self._request.of})" if self._request.of > 1 else ""
        agent = cut(revealed_line(self._request.agent), 40)
        name = self._request.name
        return f"{agent} asks{place}: {QUESTIONS.get(name) or f'Call {revealed_line(name)}?'}"

    def _reasons(self, width: int) -> list[Line]:
        reason = one_line(self._request.reason, 1_000)
        lines = wrapped(reason[:1].upper() + reason[1:], width - 2)
        left_out = [f"{self._theme.glyphs.ellipsis}"] if len(lines) > REASON_LINES else []
        return [
            [(self._theme.toolkit("warning"), f"  {line}")]
            for line in (*lines[: REASON_LINES - len(left_out)], *left_out)
        ]

    @property
    def _is_unseen(self) -> bool:
        return self._preview.is_cut or (self._hidden > 0 and not self._viewed)

    def _help(self, width: int) -> Line:
        if self._is_unseen:
            words = CUT if self._preview.is_cut else UNSEEN
            return [(self._theme.toolkit("warning"), cut(f"    {words} · Esc deny", width))]
        if self._is_chosen is False:
            return [(self._theme.toolkit("warning"), cut(f"    {UNCHOSEN} · Esc deny", width))]
        return [(self._theme.toolkit("dim"), cut("    d view full · Esc deny", width))]

    def _offered(self, width: int, most: int) -> list[Line]:
        """Return the choices as lines, or as many around the selected one as fit, at least one."""
        most = max(most, 1)
        laid = [self._choice(n, choice, width) for n, choice in enumerate(self._choices)]
        first, end = self._at, self._at + 1
        is_below = True  # the window grows on alternating sides
        while True:
            after = sum(map(len, laid[first : end + 1])) <= most and end < len(laid)
            before = first > 0 and sum(map(len, laid[first - 1 : end])) <= most
            if not (after or before):
                break
            is_below = after and (is_below or not before)
            first, end = (first, end + 1) if is_below else (first - 1, end)
            is_below = not is_below
        lines = [line for choice in laid[first:end] for line in choice]
        whole = self._choices[first:end] if len(lines) <= most else ()
        self._seen_rules = {choice.key for choice in whole}
        return lines[:most]

    def _choice(self, n: int, choice: Choice, width: int) -> list[Line]:
        """Return the lines of a choice, with its rule after it or, if that is too long, below."""
        style = self._theme.toolkit
        mark = self._theme.glyphs.prompt if n == self._at else " "
        words = f"  {mark} {choice.key} {choice.words}"
        line: Line = [(style("selected" if n == self._at else "assistant"), words)]
        if columns(words) + 1 + columns(choice.pattern) <= width:
            return [[*line, (style("pattern"), f" {choice.pattern}")]] if choice.pattern else [line]
        rule = wrapped(choice.pattern, max(width - 6, 10))
        return [line, *([(style("pattern"), f"      {part}")] for part in rule)]

    # ------------------------------------------------------------ plain terminals

    def spoken(self) -> list[str]:
        """Return the complete prompt as plain text, for a terminal that is not redrawn. The last
        line names the possible answers.
        """
        width = max(self._columns() - 1, 10)
        shown, self._hidden = self._preview.shown(width, SPOKEN_LINES)
        said = [
            f"{choice.key} {choice.words} {choice.pattern}".rstrip()
            for choice in self._choices
            if choice.scope == "no" or not self._is_unseen
        ]
        return [
            self._asks(),
            *("".join(text for _, text, *_ in line) for line in shown),
            *([CUT] if self._is_unseen else []),
            f"  {one_line(self._request.reason, 1_000)}",
            *said,
            SPOKEN,
        ]

    def hears(self, line: str) -> bool:
        """Handle a typed answer: the letter of a choice and, after one that denies, the reason.

        Return True if `line` was an answer, which is then given.
        """
        letter, _, rest = line.strip().partition(" ")
        for choice in self._choices:
            if choice.scope != "no" and (rest or self._is_unseen):
                continue
            if choice.key == letter.lower():
                self._answered.give(ApprovalReply(choice.scope, rest.strip()))
                return True
        return False

    # ------------------------------------------------------------ keys

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()
        deaf = Condition(lambda: self._clock() < self._deaf_until)
        choosing = Condition(lambda: not self._says_why) & ~deaf
        saying = Condition(lambda: self._says_why) & ~deaf

        def bind(name: str, when: Filter, act: Callable[[], None], *, eager: bool = False) -> None:
            def handle(event: KeyPressEvent) -> None:
                act()

            keys.add(name, filter=when, eager=eager)(handle)

        @keys.add(Keys.Any, filter=deaf, eager=True)
        @keys.add(Keys.Any, filter=choosing)
        def _(event: KeyPressEvent) -> None:
            """Pass a key that is not an answer to the input, together with the keys that follow
            closely.
            """
            self._deaf_until = self._clock() + DEAF_S
            if event.data.isprintable() or event.key_sequence[-1].key is Keys.BracketedPaste:
                self._around.typed(event.data)

        for name, step in (("up", -1), ("down", 1), ("k", -1), ("j", 1), ("tab", 1)):
            bind(name, choosing, partial(self._move, step))
        for choice in self._choices:
            bind(choice.key, choosing, partial(self._take, choice))
        bind("d", choosing, self._show_all)
        bind("s-tab", choosing, self._change_mode)
        bind("enter", choosing, self._take_chosen)
        bind(
            "enter",
            saying,
            lambda: self._answered.give(ApprovalReply("no", self._why.text.strip())),
        )
        for name in ("escape", "c-c"):
            bind(name, Condition(lambda: not self._says_why), partial(self._take, NO), eager=True)
            bind(name, saying, self._back)
        return keys

    def _move(self, step: int) -> None:
        self._at = (self._at + step) % len(self._choices)
        self._is_chosen = True

    def _take_chosen(self) -> None:
        if self._is_chosen:
            self._take(self._choices[self._at])
        else:
            self._is_chosen = False  # the help line says what to press

    def _show_all(self) -> None:
        self._viewed = True
        self._around.view()

    def _change_mode(self) -> None:
        """Accept edits from now on if the call is an edit, as Shift-Tab does in the input."""
        edits = next((choice for choice in self._choices if choice.scope == "edits"), None)
        if edits is not None:
            self._take(edits)
        else:
            self._around.cycle_mode()

    def _take(self, choice: Choice) -> None:
        if choice.scope != "no":
            self._drawn()  # for the current window size
        if choice.scope != "no" and self._is_unseen:
            return  # the help line explains why
        if choice.pattern and choice.key not in self._seen_rules:
            return  # a rule must be completely visible to be granted; moving to it shows it
        if not choice.asks_why:
            self._answered.give(ApprovalReply(choice.scope))
            return
        self._says_why = True
        get_app().layout.focus(self._reason)

    def _back(self) -> None:
        """Return from the reason to the choices."""
        self._says_why = False
        get_app().layout.focus(self.focus)
