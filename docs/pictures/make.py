"""Pictures of `treadle chat` and `treadle demo`, from the real programs in tmux.

    python docs/pictures/make.py            # writes chat-*.svg and demo.svg here; needs tmux
    python docs/pictures/make.py --into DIR

The chat works in a project with two bugs, and a script takes the place of the model. A picture
shows tmux's screen, cell by cell. Entry point: `main`.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Self

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.terminal_theme import TerminalTheme

HERE = Path(__file__).resolve().parent
PROMPT = "Some totals of the cart are wrong. Find out why, and fix it."
THOUGHT = "The tests will say which totals are wrong, and what is expected of them: quantities and the discount are where I look first."  # noqa: E501
TESTS = "pytest"
ANSWER = """\
## Fixed: two bugs in `total_cents`

The quantity was left out, and the discount started *above* 100.00:

```python
total = sum(price * quantity for _, price, quantity in self.lines)
if total >= DISCOUNT_FROM_CENTS:
    total -= total * DISCOUNT_PERCENT // 100
```

| basket | before | now |
|:--|--:|--:|
| 3 pens of 1.20 | 1.20 | 3.60 |
| one lamp of 100.00 | 100.00 | 90.00 |

All four tests pass.
"""
DEADLINE_S = 20.0
DEAF_S = 0.8
"""A question hears no key in its first half second."""


def todos(done: int) -> dict[str, Any]:
    steps = ("See the tests fail", "Mend the total", "Prove it")
    states = ["completed"] * done + ["in_progress"] + ["pending"] * len(steps)
    return {
        "name": "todo_write",
        "arguments": {
            "todos": [
                {"content": step, "status": state}
                for step, state in zip(steps, states, strict=False)
            ]
        },
    }


def script() -> list[dict[str, Any]]:
    tests = {"name": "bash", "arguments": {"command": TESTS}}
    edits = [
        {
            "old": "total = sum(price for _, price, _ in self.lines)",
            "new": "total = sum(price * quantity for _, price, quantity in self.lines)",
        },
        {"old": "if total > DISCOUNT_FROM_CENTS:", "new": "if total >= DISCOUNT_FROM_CENTS:"},
    ]
    entries: list[dict[str, Any]] = [
        {
            "reasoning": THOUGHT,
            "tool_calls": [todos(0), {"name": "read", "arguments": {"path": "cart.py"}}],
            "delay_ms": 90,
        },
        {"text": "I'll run the tests first.", "tool_calls": [tests]},
        {
            "text": "Two fail: the quantity is left out, and the discount starts too late.",
            "tool_calls": [{"name": "edit", "arguments": {"path": "cart.py", "edits": edits}}],
        },
        {"tool_calls": [todos(2), tests]},
        {"tool_calls": [todos(3)]},
        {"text": ANSWER},
    ]
    return [
        {**entry, "usage": {"input_tokens": 9_000 + 700 * n, "output_tokens": 180}}
        for n, entry in enumerate(entries)
    ]


CHAT = ("chat", "--model", "script:demo")


class Terminal:
    """Context manager that runs a treadle command in its own tmux server, with a fresh home."""

    def __init__(self, theme: str, columns: int, rows: int, command: Sequence[str] = CHAT) -> None:
        self._theme, self._columns, self._rows = theme, columns, rows
        self._arguments = command
        self._folder = Path(tempfile.mkdtemp(prefix="treadle-"))

    def __enter__(self) -> Self:
        home, work = self._folder / "home", self._folder / "cart"
        (home / ".treadle").mkdir(parents=True)
        (home / ".treadle" / "config.yaml").write_text(f"ui:\n  theme: {self._theme}\n")
        with as_file(files("treadle.cli").joinpath("demo_project")) as project:
            shutil.copytree(project, work, ignore=shutil.ignore_patterns("__pycache__"))
        (work / "demo").write_text(json.dumps(script()))
        (work / "pytest.ini").write_text(
            "[pytest]\naddopts = -q --tb=no -r N -p no:inline_snapshot -p no:cacheprovider\n"
        )
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        env = {
            "PATH": path,
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "TERM": "tmux-256color",
            "COLORTERM": "truecolor",
        }
        command = [sys.executable, "-m", "treadle", *self._arguments]
        size = ["-x", str(self._columns), "-y", str(self._rows)]
        self._tmux(
            "new-session",
            "-d",
            *size,
            "-c",
            str(work),
            "env",
            "-i",
            *[f"{name}={value}" for name, value in env.items()],
            *command,
            *(";", "set-option", "-g", "remain-on-exit", "on"),
        )
        return self

    def __exit__(self, *exc: object) -> None:
        subprocess.run(self._command("kill-server"), capture_output=True, check=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _command(self, *arguments: str) -> list[str]:
        return ["tmux", "-u", "-S", str(self._folder / "socket"), "-f", os.devnull, *arguments]

    def _tmux(self, *arguments: str) -> str:
        return subprocess.run(
            self._command(*arguments), capture_output=True, encoding="utf-8", check=True
        ).stdout

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", "--", text)

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def wait(self, text: str) -> None:
        """Raises SystemExit with the screen where it never shows that."""
        end = time.monotonic() + DEADLINE_S
        while text not in (screen := self._tmux("capture-pane", "-p")):
            if time.monotonic() > end:
                sys.exit(f"{text!r} never stood on the screen:\n{screen}")
            time.sleep(0.05)

    def answer(self, question: str, key: str) -> None:
        self.wait(question)
        time.sleep(DEAF_S)
        self.press(key)

    def picture(self) -> str:
        time.sleep(0.3)  # the frame after the last word
        return self._tmux("capture-pane", "-e", "-p")

    def lines(self) -> list[str]:
        """Everything that the command has printed, scrolled off the screen or not."""
        return self._tmux("capture-pane", "-e", "-p", "-S", "-2000").split("\n")


def _theme(background: str, foreground: str, *colours: str) -> TerminalTheme:
    def parts(colour: str) -> tuple[int, int, int]:
        return int(colour[:2], 16), int(colour[2:4], 16), int(colour[4:], 16)

    return TerminalTheme(
        parts(background),
        parts(foreground),
        [parts(c) for c in colours[:8]],
        [parts(c) for c in colours[8:]],
    )


DARK = _theme(
    "16181d", "d4d7dd",
    "2a2d34", "e06c75", "98c379", "d8b26e", "6ca8e8", "b48ce0", "5fb8c4", "c3c7cf",
    "7a808c", "f0868e", "b0d892", "ecc988", "8cbef5", "caa6f0", "7fd0da", "f2f4f7",
)  # fmt: skip
LIGHT = _theme(
    "fdfdfb", "2b2e33",
    "2b2e33", "c0323f", "3d7a2a", "8f6a00", "1f5fb0", "7a3fb5", "0f7680", "6b7078",
    "8a8f98", "d24a55", "4f9139", "a98012", "3777c9", "9459cf", "22909b", "1a1c20",
)  # fmt: skip


def drawn(screen: str, theme: TerminalTheme, columns: int, title: str = "treadle chat") -> str:
    """Draw a screen as SVG, in the reader's own monospace font."""
    console = Console(
        record=True,
        width=columns,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    # with a margin above and below
    for line in AnsiDecoder().decode("\n" + screen.strip("\n") + "\n"):
        console.print(line, no_wrap=True, overflow="crop", highlight=False)
    begin, end = (
        CONSOLE_SVG_FORMAT.index("@font-face"),
        CONSOLE_SVG_FORMAT.index(".{unique_id}-matrix"),
    )
    style = (CONSOLE_SVG_FORMAT[:begin] + CONSOLE_SVG_FORMAT[end:]).replace(
        "Fira Code, monospace", "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
    )
    return console.export_svg(
        title=title,
        theme=theme,
        code_format=style.replace("arial", "system-ui, sans-serif"),
        unique_id="chat",
    )


def demo() -> str:
    """The run that `treadle demo` kills and resumes, as `runs show` prints it."""
    with Terminal("dark", 100, 40, ["demo", "--fast"]) as terminal:
        terminal.wait("treadle run --mode full 'The tests")
        lines = terminal.lines()
    plain = ["".join(re.split(r"\x1b\[[0-9;]*m", line)) for line in lines]
    first = max(n for n, line in enumerate(plain) if line.startswith("$ treadle runs show"))
    last = next(n for n in range(first, len(plain)) if plain[n].startswith("? 1 call"))
    return drawn("\n".join(lines[first : last + 1]), DARK, 100, "kill -9 and resume")


def main() -> None:
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    asked.add_argument("--into", type=Path, default=HERE)
    asked.add_argument("--only", help="one of dark (with approval), light, 80, demo")
    said = asked.parse_args()
    said.into.mkdir(parents=True, exist_ok=True)

    def keep(name: str, screen: str, theme: TerminalTheme, columns: int) -> None:
        (said.into / f"chat-{name}.svg").write_text(drawn(screen, theme, columns), encoding="utf-8")

    if said.only in (None, "demo"):
        (said.into / "demo.svg").write_text(demo(), encoding="utf-8")
    for name, setting, theme, columns, rows in (
        ("dark", "dark", DARK, 100, 54),
        ("light", "light", LIGHT, 100, 54),
        ("80", "dark", DARK, 80, 24),
    ):
        if said.only not in (None, name):
            continue
        with Terminal(setting, columns, rows) as chat:
            chat.wait("Ask a question")
            chat.type(PROMPT)
            chat.wait("fix it.")
            chat.press("Enter")
            chat.wait("Run this command")
            if name == "dark":
                keep("approval", chat.picture(), theme, columns)
            chat.answer("Run this command", "s")
            chat.answer("Make this change", "y")
            chat.wait("tests pass")
            keep(name, chat.picture(), theme, columns)


if __name__ == "__main__":
    main()
