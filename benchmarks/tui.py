"""Measure the cost of `treadle chat`, and its response to keys: the real command in a
pseudo-terminal, with a model on loopback that sends 300 tokens a second.

    python benchmarks/tui.py            # about four minutes: 1,000 messages are really sent
    python benchmarks/tui.py --quick    # 100 messages

Needs Linux, for the CPU time and memory of another process. tui_drawing.py measures drawing by
itself. The limits are promises of the project, not of this machine.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from processes import Failed, command
from pseudo_terminal import Terminal

PER_SECOND = 300
TOKENS = 1_500
"""Of one streamed answer: five seconds."""
FRAME = b"\x1b[?2026h"
READY = "Ask a question or describe a task"
SHORT_ENDS = b"it checks each value"
UP = re.compile(rb"\x1b\[(\d*)A")
KEYS = "абвгдежзийклмнопрстуфхцчшщъыьэюя"
"""That no answer contains."""
MODEL = "anthropic:claude-haiku-5-5"


def row(what: str, figures: Sequence[float], unit: str, limit: str = "") -> None:
    middle = statistics.median(figures)
    more = f"lowest {min(figures):.1f}, highest {max(figures):.1f}" if len(figures) > 1 else ""
    print(f"{what:62} {middle:9.1f} {unit:3} {limit:14} {more}", flush=True)


@contextmanager
def model() -> Generator[str]:
    """Start the model. Yields its address."""
    argv = [sys.executable, str(Path(__file__).with_name("chat_server.py")), str(PER_SECOND)]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None, "it is a pipe"
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.terminate()


@contextmanager
def chatting(url: str, *, timed: bool = False) -> Generator[Terminal]:
    """Start a chat. With `timed`, chat_timed.py writes its figures to `clock` in the working
    directory.
    """
    with tempfile.TemporaryDirectory(prefix="treadle-bench-") as folder:
        home, work = Path(folder, "home"), Path(folder, "work")
        home.mkdir()
        work.mkdir()
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
        }
        env |= {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": url}
        chat = (
            [sys.executable, str(Path(__file__).with_name("chat_timed.py")), str(work / "clock")]
            if timed
            else [command()]
        )
        argv = [*chat, "chat", "--mode", "full", "--model", MODEL]
        with Terminal(argv, env=env, cwd=work) as terminal:
            yield terminal


def first_paint(url: str, times: int) -> None:
    cpu: list[float] = []
    wall: list[float] = []
    memory: list[float] = []
    for n in range(times + 1):
        with chatting(url) as terminal:
            seconds = terminal.see(READY)
            terminal.pass_time(0.2)  # it loads the rest only later
            if n:  # the first one writes byte code
                cpu.append(terminal.cpu_s() * 1e3)
                wall.append(seconds * 1e3)
                memory.append(terminal.memory_mb("VmHWM"))
    row("first paint, CPU", cpu, "ms", "at most 300")
    row("first paint, wall", wall, "ms")
    row("first paint, memory", memory, "MB", "at most 80")


def echo(terminal: Terminal, keys: str, *, between_s: float = 0.13) -> list[float]:
    """Return the milliseconds from each key to its character on the terminal."""
    taken: list[float] = []
    for key in keys:
        at, typed = len(terminal.written), terminal.type(key)
        terminal.see(key, after=at)
        taken.append((terminal.arrived - typed) * 1e3)
        terminal.pass_time(between_s)
    return taken


@dataclass(frozen=True)
class Spent:
    """The cost of one streamed answer: milliseconds per frame, and bytes."""

    whole: float
    drawing: float
    folding: float
    size: float
    per_second: float
    """Milliseconds of CPU for a second of streaming."""


def streaming(terminal: Terminal, when: str) -> None:
    """Stream some answers to measure drawing, and one during which keys are typed."""
    terminal.calm()
    _stream(terminal)  # what is loaded with the first code and the first table
    figures = [_stream(terminal) for _ in range(5)]
    row(f"CPU of a frame: drawing it, {when}", [one.drawing for one in figures], "ms", "at most 2")
    row(f"folding the events before it, {when}", [one.folding for one in figures], "ms")
    row(f"the whole process for each frame, {when}", [one.whole for one in figures], "ms")
    row(f"CPU of a second of it, {when}", [one.per_second for one in figures], "ms")
    row(f"bytes of a frame, {when}", [one.size for one in figures], "")
    terminal.type(f"stream {TOKENS}\r")
    terminal.pass_time(0.5)
    taken = echo(terminal, KEYS)
    row(f"a key while it streams, {when}", taken, "ms", "at most 30")
    terminal.type("\x15")
    terminal.pass_time(TOKENS / PER_SECOND)
    terminal.calm()


def _stream(terminal: Terminal) -> Spent:
    at, before, clock = len(terminal.written), terminal.cpu_s(), _clock(terminal)
    terminal.type(f"stream {TOKENS}\r")
    terminal.pass_time(TOKENS / PER_SECOND + 0.1)
    terminal.calm(0.4)
    spent, written = terminal.cpu_s() - before, terminal.written[at:]
    frames = written.count(FRAME)
    drawing, _, folding = (
        after - then for after, then in zip(_clock(terminal), clock, strict=True)
    )
    return Spent(
        spent / frames * 1e3,
        drawing / frames * 1e3,
        folding / frames * 1e3,
        len(written) / frames,
        spent / TOKENS * PER_SECOND * 1e3,
    )


def _clock(terminal: Terminal) -> list[float]:
    file = terminal.cwd / "clock"
    before = file.stat().st_size if file.exists() else 0
    terminal.signal(signal.SIGUSR1)
    terminal.pass_time(0.1)
    if not file.exists() or file.stat().st_size == before:
        raise Failed("chat_timed.py told nothing")
    return [float(figure) for figure in file.read_text().splitlines()[-1].split()]


def much_output(terminal: Terminal) -> None:
    at = len(terminal.written)
    terminal.type("run seq 1 50000\r")
    during = echo(terminal, KEYS[:8], between_s=0.02)
    terminal.see("more lines", after=at)
    during += echo(terminal, KEYS[8:16], between_s=0.02)
    row("a key during and after 50,000 lines of a tool", during, "ms", "at most 30")
    terminal.type("\x15")
    terminal.calm()


def say(terminal: Terminal, messages: int) -> None:
    """Send so many more prompts, waiting for each answer."""
    for _ in range(messages // 2):
        at = len(terminal.written)
        terminal.type("more\r")
        terminal.wait(lambda at=at: SHORT_ENDS in terminal.written[at:], what="an answer")


def bare(url: str) -> None:
    """Measure the runtime alone, without a terminal: the cost of the same answers for a program
    that ignores them.
    """
    code = (
        "import asyncio, time\nfrom treadle import Agent, Runtime\n"
        f"agent = Agent(name='a', instructions='', model='{MODEL}')\n"
        "async def main():\n"
        "    async with Runtime.open() as runtime:\n"
        "        for n in range(4):\n"
        "            begun = time.process_time()\n"
        f"            async with runtime.stream(agent, 'stream {TOKENS}', session='s') as stream:\n"
        "                async for event in stream: pass\n"
        "            if n: print(time.process_time() - begun)\n"
        "asyncio.run(main())\n"
    )
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "HOME": home, "ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": url}
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=env,
            cwd=home,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise Failed(done.stderr[-300:])
    spent = [float(line) for line in done.stdout.split()]
    row(
        "CPU of a second of it, the runtime alone, without a terminal",
        [s / TOKENS * PER_SECOND * 1e3 for s in spent],
        "ms",
    )
    row(
        "the same for each twentieth of a second",
        [s / TOKENS * PER_SECOND / 20 * 1e3 for s in spent],
        "ms",
    )


def open_chat(url: str, messages: int) -> None:
    with chatting(url, timed=True) as terminal:
        terminal.see(READY)
        terminal.pass_time(3)
        row("memory, when all is loaded", [terminal.memory_mb()], "MB", "at most 80")
        row("a key, when nothing runs", echo(terminal, KEYS[:16]), "ms", "at most 30")
        terminal.type("\x15")
        before = terminal.cpu_s()
        terminal.pass_time(5)
        row(
            "CPU of a second in which nothing happens",
            [(terminal.cpu_s() - before) / 5 * 1e3],
            "ms",
        )
        say(terminal, 10)
        streaming(terminal, "after 10 messages")
        much_output(terminal)
        row("memory", [terminal.memory_mb()], "MB")
        say(terminal, messages - 30)
        streaming(terminal, f"after {messages:,} messages")
        row(f"memory after {messages:,} messages", [terminal.memory_mb()], "MB")
        highest = max(int(found[1] or 1) for found in UP.finditer(bytes(terminal.written)))
        row("the most rows that the cursor went up, of 30", [highest], "", "at most 28")


def main() -> None:
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    asked.add_argument("--quick", action="store_true", help="100 messages, three starts")
    quick = asked.parse_args().quick
    if sys.platform != "linux":
        sys.exit("the CPU time of another process needs Linux")
    began = time.monotonic()
    with model() as url:
        first_paint(url, 3 if quick else 7)
        bare(url)
        open_chat(url, 100 if quick else 1_000)
    print(f"({time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f})")


if __name__ == "__main__":
    main()
