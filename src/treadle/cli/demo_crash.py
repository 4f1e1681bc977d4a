"""Second half of the demo: kill a run in the middle of a charge and resume it from its journal.

It runs the commands that it shows, as separate processes in the demo's folder. Entry points:
`crash`.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, cast

import anyio
import click
import msgspec
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from treadle.cli.demo_view import DemoView
from treadle.cli.echo import echo
from treadle.cli.exits import CommandFailed
from treadle.journal import open_journal
from treadle.journal.entries import RunFinished, ToolFinished, ToolStarted
from treadle.messages.events import Event, ToolCallStart
from treadle.types import Outcome

PROMPT = "Charge order 17, then write a receipt."
CHARGE = "sh charge.sh 17 42.00"
CHARGED = "order 17: 42.00 EUR\n"
INTRO = """\
Part two: kill -9. A second agent charges a card. Its process really is killed in the middle of
the charge, and the run resumes from its journal. The commands below are real. The journal:
  {}
"""
KILLED = """\
kill -9 {}: the process is gone, in the middle of the charge.
The journal records that the call started, but has no result. `bash` is a `once` tool: a call that
may have taken effect is never repeated automatically.
"""
PROOF = """\
The complete ledger:
    {}
The card was charged once. The journal shows what was done, what is unknown, and where the process
stopped. Do the same if one of your runs is interrupted (`last` is the newest run):
  treadle runs list
  treadle runs show last
  treadle runs resume last
"""
WITHIN_S = 20.0
"""Time limit of each process of the demo, in seconds."""
LINE_BYTES_MAX = 1 << 20

_event: msgspec.json.Decoder[Event] = msgspec.json.Decoder(cast("type[Event]", Event))


def script(delay_ms: float) -> list[dict[str, Any]]:
    """Return the model's script; the first two entries come before the kill."""

    def call(name: str, **arguments: str) -> list[dict[str, Any]]:
        return [{"name": name, "arguments": arguments}]

    entries: list[dict[str, Any]] = [
        {"text": "I'll read the order.", "tool_calls": call("read", path="order-17.txt")},
        {
            "text": "It is not charged yet. I'll charge the card.",
            "tool_calls": call("bash", command=CHARGE),
        },
        {
            "text": (
                "It is unknown whether that charge happened, so I won't repeat it. I'll check the "
                "ledger."
            ),
            "tool_calls": call("read", path="ledger.txt"),
        },
        {
            "text": "The ledger has order 17, so the charge happened. Only the receipt is missing.",
            "tool_calls": call(
                "write", path="receipt.txt", content="Order 17, one kettle: 42.00 EUR, charged.\n"
            ),
        },
        {"text": "Order 17 was charged exactly once, and has its receipt."},
    ]
    return [{**entry, "delay_ms": delay_ms} for entry in entries]


def crash(directory: Path, *, fast: bool) -> None:
    """Create `directory` and play the second half in it. Raises CommandFailed if the outcome is not
    as announced.
    """
    with as_file(files("treadle.cli").joinpath("demo_orders")) as orders:
        shutil.copytree(orders, directory, ignore=shutil.ignore_patterns("__pycache__"))
    (directory / "model.json").write_text(json.dumps(script(0 if fast else 25)), encoding="utf-8")
    stage = Stage(directory)
    stage.temporary.mkdir()
    echo(INTRO.format(stage.home / "journal.db"))
    with _tidy(stage):
        run_id = anyio.run(_play, stage)
        stage.command("runs", "show", run_id)
        anyio.run(_check, stage, run_id)
    echo(PROOF.format(stage.ledger.strip()))


@dataclass(frozen=True, slots=True)
class Stage:
    """Folder and commands of the second half."""

    directory: Path

    @property
    def home(self) -> Path:
        return self.directory / "home"

    @property
    def temporary(self) -> Path:
        """Temporary directory of the killed process, which is removed with the demo."""
        return self.directory.parent / "temporary"

    @property
    def ledger(self) -> str:
        try:
            return (self.directory / "ledger.txt").read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    @property
    def _bank(self) -> Path:
        """Path of the marker file that exists while the charging program runs; removing it ends the
        program. A process id from inside a sandbox would name another process outside.
        """
        return self.directory / "bank.busy"

    @property
    def environment(self) -> dict[str, str]:
        """Environment of the commands, without the user's keys and settings, so that the demo does
        not depend on them.
        """
        mine = ("TREADLE_", "ANTHROPIC_", "OPENAI_", "GEMINI_", "GOOGLE_")
        own = {"TREADLE_HOME": str(self.home), "TMPDIR": str(self.temporary)}
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(mine)},
            **own,
        }

    def say(self, arguments: Sequence[str]) -> list[str]:
        """Print the command and return the argument vector that runs it."""
        click.secho(f"$ {shlex.join(['treadle', *arguments])}\n", fg="cyan")
        sys.stdout.flush()
        return [sys.executable, "-P", "-m", "treadle", *arguments]

    def command(self, *arguments: str) -> None:
        """Run a command to its end. Raises CommandFailed if it fails or times out."""
        try:
            subprocess.run(
                self.say(arguments),
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                timeout=WITHIN_S,
                check=True,
            )
        except subprocess.SubprocessError as e:
            raise CommandFailed(f"the demo failed: {e}", 1) from e
        echo()

    @asynccontextmanager
    async def running(self, *arguments: str) -> AsyncGenerator[Process]:
        """Start a command; kill it on exit."""
        async with await anyio.open_process(
            self.say(arguments),
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stderr=None,
        ) as process:
            try:
                yield process
            finally:
                with suppress(ProcessLookupError):
                    process.kill()

    async def charging(self) -> None:
        """Wait until the card is charged but the bank has not replied."""
        while not (self.ledger and self._bank.exists()):  # noqa: ASYNC110  files of another process
            await anyio.sleep(0.01)

    def end_bank(self) -> None:
        """Stop the charging program, which outlives the killed process if there is no sandbox."""
        self._bank.unlink(missing_ok=True)


@contextmanager
def _tidy(stage: Stage) -> Generator[None]:
    """Stop the charging program when the demo ends, even by a signal."""

    def end(number: int, _: object) -> None:
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        stage.end_bank()
        for number, handler in before.items():
            signal.signal(number, handler)


async def _play(stage: Stage) -> str:
    """Run, kill and resume. Return the id of the run."""
    try:
        with anyio.fail_after(WITHIN_S):
            run_id = await _killed(stage)
            await _resumed(stage, run_id)
    except TimeoutError as e:
        raise CommandFailed(f"the demo failed within {WITHIN_S:.0f} s", 1) from e
    return run_id


async def _killed(stage: Stage) -> str:
    view, run_id = DemoView(), ""
    async with stage.running(
        "run", "--mode", "full", "--model", "script:model.json", "--output", "stream-json", PROMPT
    ) as process:
        async for event in _events(process):
            view.show(event)
            run_id = event.run_id
            if isinstance(event, ToolCallStart) and event.name == "bash":
                await stage.charging()
                process.send_signal(signal.SIGKILL)
                break
        if await process.wait() != -signal.SIGKILL:
            raise CommandFailed(
                (
                    "the demo's run could not be killed in the middle of its charge (exit code "
                    f"{process.returncode})"
                ),
                1,
            )
        view.end_line()
        click.secho(f"\n{KILLED.format(process.pid)}", fg="red")
    stage.end_bank()
    return run_id


async def _resumed(stage: Stage, run_id: str) -> None:
    view = DemoView()
    async with stage.running("runs", "resume", run_id, "--output", "stream-json") as process:
        async for event in _events(process):
            view.show(event)
        if await process.wait():
            raise CommandFailed(
                f"the demo's run could not be resumed (exit code {process.returncode})", 1
            )
    echo()


async def _events(process: Process) -> AsyncIterator[Event]:
    """Yield complete events. A killed process may leave a partial last line."""
    assert process.stdout is not None, "it is a pipe"
    lines = BufferedByteReceiveStream(process.stdout)
    with suppress(anyio.IncompleteRead, anyio.EndOfStream):
        while True:
            yield _event.decode(await lines.receive_until(b"\n", LINE_BYTES_MAX))


async def _check(stage: Stage, run_id: str) -> None:
    """Raise CommandFailed if the journal and the ledger do not show what the text claims."""
    # made by commands without the user's keys
    journal = open_journal(f"sqlite:///{stage.home / 'journal.db'}", keys=())
    try:
        entries = [record.entry for record in await journal.read(run_id)]
    finally:
        await journal.aclose()
    charges = [
        entry
        for entry in entries
        if isinstance(entry, ToolStarted) and CHARGE in entry.arguments_json
    ]
    results = [
        entry for entry in entries if isinstance(entry, ToolFinished) and entry.status == "unknown"
    ]
    last = entries[-1]
    if (
        stage.ledger != CHARGED
        or len(charges) != 1
        or [r.result.call_id for r in results] != [charges[0].call_id]
    ):
        raise CommandFailed(
            (
                f"the demo did not go as it should: the ledger has {stage.ledger!r}; "
                f"{len(charges)} starts, {len(results)} unknown"
            ),
            1,
        )
    if not isinstance(last, RunFinished) or last.outcome is not Outcome.COMPLETED:
        raise CommandFailed("the demo's run did not complete", 1)
