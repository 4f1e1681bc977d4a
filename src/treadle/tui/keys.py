"""Key bindings of the input; the actions are in acting.py. Entry points: `bindings`, `KEYS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from prompt_toolkit.filters import Condition
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from treadle.tui.input import InputLine

KEYS: Final = (
    ("Enter", "send; while it works: queue it"),
    ("Ctrl-S", "while it works: steer it before its next turn"),
    ("Shift-Enter, Alt-Enter, Ctrl-J", "a new line; so does \\ before Enter"),
    ("Tab", "accept the completion; / completes commands, @ files"),
    ("Up, Down", "earlier input"),
    ("Escape", "interrupt; queued messages return to the input"),
    ("Escape Escape", "go back to an earlier point"),
    ("Ctrl-C", "clear what is typed, then interrupt, then quit"),
    ("Ctrl-D", "quit, if the input is empty"),
    ("Shift-Tab", "the next mode: ask, accept-edits, plan"),
    ("Ctrl-O", "see everything: full results, diffs, reasoning"),
    ("Ctrl-T", "the to-do list"),
    ("Ctrl-G", "write in $EDITOR"),
    ("Ctrl-Z", "suspend; fg resumes"),
    ("Ctrl-L", "redraw the screen"),
)
"""Keys and their descriptions for `/help`, most basic first."""


class Actions(Protocol):
    """Actions bound to keys. Each returns immediately."""

    def send(self) -> None: ...
    def steer(self) -> None: ...
    def escape(self) -> None: ...
    def interrupt(self) -> None: ...
    def leave(self) -> None: ...
    def cycle_mode(self) -> None: ...
    def view(self) -> None: ...
    def show_todos(self) -> None: ...
    def edit(self) -> None: ...
    def redraw(self) -> None: ...


_NEWLINES: Final = ("\x1b[13;2u", "\x1b[27;2;13~", "\x1b[13;3u", "\x1b[27;3;13~")
"""Sequences for Shift-Enter and Alt-Enter of terminals that report them."""


def bindings(actions: Actions, line: InputLine) -> KeyBindings:
    for sequence in _NEWLINES:
        ANSI_SEQUENCES[sequence] = Keys.ControlJ
    keys = KeyBindings()
    for key, action in _PLAIN.items():
        keys.add(key)(_calling(getattr(actions, action)))
    _typing(keys, actions, line)
    _completing(keys, line)
    return keys


_PLAIN: Final = {
    "c-s": "steer",
    "escape": "escape",
    "c-c": "interrupt",
    "s-tab": "cycle_mode",
    "c-o": "view",
    "c-t": "show_todos",
    "c-g": "edit",
    "c-l": "redraw",
}


def _calling(action: Callable[[], None]) -> Callable[[KeyPressEvent], None]:
    return lambda _: action()


def _typing(keys: KeyBindings, actions: Actions, line: InputLine) -> None:
    """Bind the editing keys."""
    buffer = line.buffer

    @keys.add("enter")
    def _(_: KeyPressEvent) -> None:
        if buffer.document.char_before_cursor == "\\":
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            actions.send()

    @keys.add("c-j")
    @keys.add("escape", "enter")
    def _(_: KeyPressEvent) -> None:
        buffer.insert_text("\n")

    @keys.add("c-d")
    def _(_: KeyPressEvent) -> None:
        if line.is_empty:
            actions.leave()
        else:
            buffer.delete()

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        line.paste(event.data)


def _completing(keys: KeyBindings, line: InputLine) -> None:
    """Bind the keys that select, accept and dismiss completions. Accepting one does not send the
    message.
    """
    buffer = line.buffer
    completing = Condition(lambda: line.is_completing)
    chosen = Condition(
        lambda: (
            buffer.complete_state is not None
            and buffer.complete_state.current_completion is not None
        )
    )

    @keys.add("enter", filter=chosen)
    def _(_: KeyPressEvent) -> None:
        buffer.complete_state = None

    @keys.add("tab")
    def _(_: KeyPressEvent) -> None:
        if buffer.complete_state is None:
            buffer.start_completion(select_first=True)
        else:
            if buffer.complete_state.current_completion is None:
                buffer.complete_next()
            buffer.complete_state = None

    @keys.add("down", filter=completing)
    def _(_: KeyPressEvent) -> None:
        buffer.complete_next()

    @keys.add("up", filter=completing)
    def _(_: KeyPressEvent) -> None:
        buffer.complete_previous()

    @keys.add("escape", filter=completing)
    def _(_: KeyPressEvent) -> None:
        buffer.cancel_completion()
