"""Measure the CPU time of drawing: a finished message, the tail that is redrawn, ten thousand
deltas, a diff. Prints one figure a line.

    python benchmarks/tui_drawing.py

Each figure is the best of five, next to its limit.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable

PARAGRAPH = "Some text which is *streamed* into `the` terminal, and **is** not finished yet: see [there](https://example.org). "
MESSAGE = f"""\
# What changed

{PARAGRAPH * 2}

- item one, which is long enough to be wrapped somewhere around here on the line, because it goes on
- item two
  1. nested
  2. nested again

> a quote with **bold**

| Name | Amount | Note |
|:--|--:|:-:|
| a | 1 | short |
| bcd | 20000 | a longer cell |

```python
def f(x: int) -> str:
    return f"{{x}}"  # comment
```

"""
CODE = "x = foo(a, b)  # comment\nreturn None\n" * 4
DELTAS = 10_000


def cpu_ms(work: Callable[[], object], times: int) -> float:
    """Return the CPU milliseconds of one of so many calls."""
    work()
    best = float("inf")
    for _ in range(5):
        begin = time.process_time()
        for _ in range(times):
            work()
        best = min(best, time.process_time() - begin)
    return best / times * 1000


def changed_file() -> tuple[str, str]:
    dice = random.Random(1)
    lines = [
        " ".join(dice.choice(["foo", "bar", "baz", "return", "x = 1", "(a, b)"]) for _ in range(8))
        for _ in range(400)
    ]
    changed = [line.replace("foo", "quux", 1) if dice.random() < 0.25 else line for line in lines]
    return "\n".join(lines), "\n".join(changed)


def deltas(messages: int) -> list[float]:
    """Return the microseconds for a delta of eight characters: of the first tenth, and of the last."""
    from treadle.tui.growing import Growing

    growing, text = Growing(), MESSAGE * messages
    tenth = DELTAS // 10
    spent: list[float] = []
    for part in range(10):
        begin = time.process_time()
        for n in range(part * tenth, (part + 1) * tenth):
            at = n * 8 % len(text)
            growing.feed(text[at : at + 8])
        spent.append((time.process_time() - begin) / tenth * 1e6)
    return [spent[0], spent[-1]]


def imported_ms(module: str) -> float:
    """Return the import time beyond that of a bare interpreter, the best of five processes."""
    check = f"import time; t = time.process_time(); import {module}; print(time.process_time() - t)"
    return (
        min(
            float(
                subprocess.run(
                    [sys.executable, "-c", check], capture_output=True, text=True, check=True
                ).stdout
            )
            for _ in range(5)
        )
        * 1000
    )


def main() -> None:
    from treadle.tui import differences, markdown
    from treadle.tui.containers import Within
    from treadle.tui.drawing import Drawing
    from treadle.tui.growing import SourcePiece
    from treadle.tui.theme import Theme

    drawing, wide = Drawing(100, Theme()), Drawing(160, Theme())
    before, after = changed_file()
    tails = {
        "text": SourcePiece(PARAGRAPH * 4, Within()),
        "code": SourcePiece(CODE, Within(fence="```python\n")),
        "list": SourcePiece("- item\n  - nested *item*\n" * 4, Within()),
    }

    def row(what: str, figure: float, limit: str) -> None:
        print(f"{what:48} {figure:8.2f}  {limit}")

    row(
        "a finished message, ms",
        cpu_ms(lambda: drawing.ansi(markdown.drawn(MESSAGE, drawing)), 50),
        "2",
    )
    for name, tail in tails.items():
        row(
            f"the tail as fragments, {name}, ms",
            cpu_ms(lambda tail=tail: drawing.lines(markdown.drawn(tail, drawing)), 100),
            "0.7",
        )
    first, last = deltas(200)
    row(f"a delta, of the first tenth of {DELTAS:,}, µs", first, "")
    row("a delta, of the last tenth, µs", last, "as the first")
    changes = after.count("quux")
    row(
        f"a diff, {changes} of 400 lines changed, ms",
        cpu_ms(lambda: drawing.ansi(differences.drawn("a.py", before, after, drawing)), 5),
        "15",
    )
    row(
        "the same side by side, ms",
        cpu_ms(lambda: wide.ansi(differences.drawn("a.py", before, after, wide)), 5),
        "",
    )
    row(
        "the same, its first ten lines, ms",
        cpu_ms(lambda: drawing.ansi(differences.drawn("a.py", before, after, drawing, most=10)), 5),
        "",
    )
    for module in (
        "treadle.tui.theme",
        "treadle.tui.growing",
        "treadle.tui.drawing",
        "treadle.tui.markdown",
    ):
        row(f"import {module}, ms", imported_ms(module), "")


if __name__ == "__main__":
    main()
