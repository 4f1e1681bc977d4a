"""Gate commands. Each runs in its own shell, in the folder of its prompt, and leaves no processes
behind.

They run code written by the model, so they run in the sandbox if one works. steps.py handles a
failure. Entry point: `Gates`.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio
import anyio.lowlevel

from treadle._internal.crash import boundary
from treadle._internal.redaction import Redactor
from treadle.apps.batch.report import GateResult
from treadle.tools.builtin.commands import StartedCommand, start
from treadle.tools.confinement import CommandRoom, Confinement, Network, Sandbox
from treadle.tools.plain_text import plain_text
from treadle.tools.tool import ToolContext, ToolFailed

TAIL_CHARS = 6_000
TAIL_LINES = 120
LOG_BYTES_MAX = 16 * 1024 * 1024
_LAST_WORDS_S = 0.2
"""Seconds to wait for remaining output after the shell has ended."""
_PIECE = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """Gate commands of a batch."""

    commands: Sequence[str]
    timeout_s: float
    environment: Mapping[str, str]
    """Environment variables of the commands, without secrets."""
    secrets: Redactor
    kept: Path
    """Folder for the logs of the gates, and for files that the sandbox removed."""
    scratch: Path
    """Folder with the /tmp of each prompt's gates."""
    sandbox: Sandbox | None = None
    """Working sandbox; None if there is none."""
    is_open: bool = False
    """True in mode full, in which commands run unconfined."""
    network: Literal["none", "open"] | Network = "none"

    async def judge(
        self, item_id: str, folder: Path, *, attempt: int, begins: Callable[[str], None]
    ) -> tuple[GateResult, ...]:
        """Run all gates in order; those after the first failure are skipped. Calls `begins` before
        each start.

        Cancellation ends a running gate with all its processes.
        """
        judged: list[GateResult] = []
        for number, command in enumerate(self.commands, 1):
            if judged and not judged[-1].passed:
                judged.append(GateResult(command=command, passed=None))
                continue
            begins(command)
            log = self.kept / f"{item_id.rpartition('-')[2]}.{attempt}.gate-{number}.log"
            boundary()
            judged.append(await self._run(command, self._context(item_id, folder), log))
            boundary()
        return tuple(judged)

    async def _run(self, command: str, context: ToolContext[None], log: Path) -> GateResult:
        begun, code = anyio.current_time(), None
        output = _Output(log, self.secrets)
        reader, writer = os.pipe()
        try:
            os.set_blocking(reader, False)
            try:
                running = await start(context, command, writer)
            finally:
                os.close(writer)
            code = await self._followed(running, reader, output)
        except ToolFailed as e:
            output.note(str(e))
        finally:
            os.close(reader)
            output.close()
        return GateResult(
            command=command,
            passed=code == 0,
            exit_code=code,
            duration_s=round(anyio.current_time() - begun, 3),
            output=output.tail,
            log=str(log) if output.is_kept else None,
        )

    async def _followed(self, running: StartedCommand, reader: int, output: _Output) -> int | None:
        """Return the exit code of a gate; None after a timeout, or if the sandbox could not be
        created.
        """
        limit = anyio.move_on_after(self.timeout_s)
        try:
            async with anyio.create_task_group() as following:
                following.start_soon(output.follow, reader)
                with limit:
                    await running.process.wait()
                await running.tree.kill()
                with anyio.move_on_after(_LAST_WORDS_S):
                    await output.ended.wait()
                following.cancel_scope.cancel()
            code = await running.process.wait()
            left = await running.leave()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await running.end()
            raise
        for text in (*left.notes, *left.quarantined, *left.refused):
            output.note(text)
        if limit.cancelled_caught:
            output.note(f"still running after {self.timeout_s:g} s: terminated")
        if not left.begun:
            output.note("not run: the sandbox could not be created")
        return None if limit.cancelled_caught or not left.begun else code

    def _context(self, item_id: str, folder: Path) -> ToolContext[None]:
        return ToolContext(
            deps=None,
            run_id=item_id,
            session_id=item_id,
            call_id="gate",
            user_id=None,
            cwd=folder,
            deadline=None,
            attempt=1,
            idempotency_key="",
            spill=lambda text: self.kept,
            environment=self.environment,
            sandbox=None
            if self.sandbox is None
            else Confinement(self.sandbox, self._room(item_id, folder)),
        )

    def _room(self, item_id: str, folder: Path) -> CommandRoom:
        def scratch() -> Path:
            return _made(self.scratch / item_id)

        return CommandRoom(
            workspace=folder.resolve(),
            scratch=scratch,
            quarantine=lambda: _made(self.kept / "quarantine" / item_id),
            is_open=self.is_open,
            network=self.network,
        )


def _made(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


class _Output:
    """Output of a gate: whole lines for the log, redacted, and the last lines for the model."""

    def __init__(self, log: Path, secrets: Redactor) -> None:
        self.ended = anyio.Event()
        self.is_kept = True
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._masking = secrets.masking() if secrets else None
        self._clean = secrets.text
        self._last: list[str] = []
        self._chars = 0
        self._room = LOG_BYTES_MAX
        try:
            self._file = os.open(
                log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o600
            )
        except OSError:
            self._file, self.is_kept = -1, False

    @property
    def tail(self) -> str:
        lines = self._clean(plain_text("".join(self._last)))[-TAIL_CHARS:].splitlines()[
            -TAIL_LINES:
        ]
        return "\n".join(lines)

    def note(self, text: str) -> None:
        """Add a note of Treadle's on a separate line."""
        self.add(f"\n[{text}]\n".encode("utf-8", "replace"))

    async def follow(self, reader: int) -> None:
        while data := await self._piece(reader):
            self.add(data)
        self.ended.set()

    async def _piece(self, reader: int) -> bytes:
        # Yield to the event loop, even if a program writes without end.
        await anyio.lowlevel.checkpoint()
        while True:
            with suppress(BlockingIOError):
                return os.read(reader, _PIECE)
            await anyio.wait_readable(reader)

    def add(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        self._take(text if self._masking is None else self._masking.add(text))

    def close(self) -> None:
        text = self._decoder.decode(b"", final=True)
        self._take(text if self._masking is None else self._masking.add(text) + self._masking.end())
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _take(self, text: str) -> None:
        if not text:
            return
        self._last.append(text)
        self._chars += len(text)
        while self._chars - len(self._last[0]) > 2 * TAIL_CHARS:
            self._chars -= len(self._last.pop(0))
        if self._file >= 0 and self._room > 0:
            data = text.encode("utf-8", "replace")[: self._room]
            self._room -= len(data)
            try:
                os.write(self._file, data)
            except OSError:
                self._room, self.is_kept = 0, False
