"""A real terminal with a program in it: tmux with a socket of its own, of which tests press the
keys and read the screen. Entry: `Terminal`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

TMUX: Final = shutil.which("tmux") or ""
DEADLINE_S: Final = 60.0
"""For what takes a moment: only a test that fails waits so long."""
LOOKS_S: Final = 0.03
"""Between two looks at what the program has written, and at the screen where that is more."""
UNWRITTEN_S: Final = 0.5
"""Between two looks at the screen while the program writes nothing: a look takes 5 ms of CPU."""
HISTORY_LINES: Final = 20_000

_GONE: Final = "Pane is dead ("
"""As tmux says it below the last that was drawn."""

_WRAPPED: Final = (
    """trap : INT; sh -c 'echo $$ >"$0/pid"; exec "$@"' "$0" "$@"; echo $? >"$0/code\""""
)
"""Keeps the code with which it ended, which tmux 3.3 loses now and then; its first argument is a
folder.
"""

Sight = str | Callable[[str], object]


class Terminal:
    """A context: the program begins with it, and whatever is left of it ends with it."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        cwd: Path,
        *,
        columns: int = 80,
        rows: int = 24,
    ) -> None:
        """`environment`: all that the program gets, but for TERM, which is tmux's unless it is said
        here.
        """
        self._command, self._environment, self._cwd, self.size = (
            command,
            environment,
            cwd,
            (columns, rows),
        )
        # a socket's path may have about 100 characters, and pytest's folders are deep
        self._folder = Path(tempfile.mkdtemp(prefix="treadle-"))
        self._raw, self._code = self._folder / "raw", self._folder / "code"

    def __enter__(self) -> Self:
        (self._folder / "conf").write_text(
            f"set -g history-limit {HISTORY_LINES}\nset -g remain-on-exit on\nset -g status off\nset -g default-terminal tmux-256color\n"
            "set -g set-clipboard on\nset -s exit-empty off\n"
        )
        self._raw.touch()
        columns, rows = map(str, self.size)
        environment = [
            f"{name}={value}"
            for name, value in {"TERM": "tmux-256color", **self._environment}.items()
        ]
        begin = [
            "new-session",
            "-d",
            "-x",
            columns,
            "-y",
            rows,
            "-c",
            str(self._cwd),
            "sh",
            "-c",
            _WRAPPED,
            str(self._folder),
            "env",
            "-i",
            *environment,
            *self._command,
        ]
        # one message: nothing is written before the pipe stands
        self._tmux(*begin, ";", "pipe-pane", "-O", f"exec cat >'{self._raw}'")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                assert "Traceback (most" not in (drawn := self.everything()), drawn
        finally:
            subprocess.run(
                [TMUX, "-S", str(self._folder / "socket"), "kill-server"],
                check=False,
                capture_output=True,
            )
            shutil.rmtree(self._folder, ignore_errors=True)

    def _tmux(self, *arguments: str) -> str:
        command = [
            TMUX,
            "-u",
            "-S",
            str(self._folder / "socket"),
            "-f",
            str(self._folder / "conf"),
            *arguments,
        ]
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, (arguments[:1], done.stderr)
        return done.stdout

    # ------------------------------------------------------------ what a person does

    def press(self, *keys: str) -> None:
        """As tmux calls them: `Enter`, `C-c`, `BTab`."""
        self._tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", "--", text)

    def say(self, text: str) -> None:
        """Typed, seen, and sent."""
        self.type(text)
        self.sees(text[:20])
        self.press("Enter")

    def paste(self, text: str) -> None:
        """As the terminal pastes, in brackets where the program has asked for them."""
        file = self._folder / "paste"
        file.write_text(text)
        self._tmux("load-buffer", str(file), ";", "paste-buffer", "-p", "-r")

    def resize(self, columns: int, rows: int) -> None:
        self.size = (columns, rows)
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    # ------------------------------------------------------------ what a person sees

    def screen(self) -> str:
        """The rows in the window, without blanks at their ends, and without empty ones at its end."""
        return _tidied(self._tmux("capture-pane", "-p"))

    def everything(self, *, joined: bool = False) -> str:
        """With what has gone out at the top; `joined`: rows that the terminal has wrapped are one."""
        return _tidied(self._tmux("capture-pane", "-p", "-S", "-", *(["-J"] if joined else [])))

    def raw(self) -> bytes:
        """Every byte that the program has written."""
        return self._raw.read_bytes()

    def sees(self, what: Sight) -> str:
        """Waits until it stands on the screen, and gives the screen."""
        return self._waits(what, self.screen)

    def sees_no_more(self, what: str) -> str:
        return self._waits(lambda screen: what not in screen, self.screen)

    def shows_within(self, seconds: float, what: Sight, *, press: str = "") -> bool:
        """Whether it stands there so soon after a key: for what takes no keys just after it has
        appeared.
        """
        if press:
            self.press(press)
        try:
            self._waits(what, self.screen, seconds)
        except AssertionError:
            return False
        return True

    def has(self, what: Sight) -> str:
        """Waits until it stands on the screen or above it, and gives all of that."""
        return self._waits(what, self.everything)

    def waits_for(self, what: Callable[[], object]) -> None:
        """Of what happens elsewhere, while the program goes on."""
        self._waits(lambda _: what(), self.screen)

    def has_written(self, what: bytes) -> bytes:
        self._waits(lambda _: what in self.raw(), lambda: repr(self.raw()[-2_000:]))
        return self.raw()

    def _waits(self, what: Sight, look: Callable[[], str], seconds: float = DEADLINE_S) -> str:
        there: Callable[[str], object] = (
            (lambda seen: what in seen) if isinstance(what, str) else what
        )
        until, seen, written, next_look = time.monotonic() + seconds, "", -1, 0.0
        while True:
            size = self._written_bytes()
            if size != written or time.monotonic() >= next_look or self._code.exists():
                seen, written, next_look = look(), size, time.monotonic() + UNWRITTEN_S
            if there(seen):
                return seen
            assert _GONE not in seen, (
                f"the program has ended, and {what!r} will never stand there:\n{seen}"
            )
            assert time.monotonic() < until, f"{what!r} never stood there:\n{seen}"
            time.sleep(LOOKS_S)

    def _written_bytes(self) -> int:
        """What the program has written, once all of it stands on the screen."""
        return self._raw.stat().st_size

    # ------------------------------------------------------------ the program

    @property
    def pid(self) -> int:
        return int((self._folder / "pid").read_text())

    @property
    def title(self) -> str:
        """Of the terminal's window."""
        return self._tmux("display-message", "-p", "#{pane_title}").rstrip("\n")

    def ends(self) -> int:
        """Waits for the end of the program, and gives its exit code; of one that a signal ended,
        128 and the signal, as shells do.
        """
        return int(
            self._waits(
                lambda seen: seen.endswith("\n"),
                lambda: self._code.read_text() if self._code.exists() else "",
            )
        )


def _tidied(screen: str) -> str:
    return "\n".join(line.rstrip() for line in screen.splitlines()).rstrip("\n")


def masked(screen: str) -> str:
    """Without what is different each time: ids, ages and how long something took."""
    screen = re.sub(r"\b(session|run|call)_[0-9a-z]+", r"\1_ID", screen)
    return re.sub(r"\b\d+(?:\.\d+)? ?(?:ms|s|seconds?)\b", "N s", screen)
