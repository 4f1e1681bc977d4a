"""Chat of `treadle tasks`: a single message, messages from a pipe, or an interactive prompt. Entry
points: `talk`.

The main thread owns the terminal and the assistant runs in an event loop on another thread, so that
Ctrl-C stops a run and not the process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

from anyio.from_thread import BlockingPortal, start_blocking_portal

from treadle._internal.terminal_text import encodable, plain, wrapped
from treadle.apps.assistant.context import HISTORY_MOST, AgentContext, MessageHistory
from treadle.apps.assistant.runner import AgentRunner, ReplyStream, TimedOut
from treadle.apps.assistant.server import MCPToolServer
from treadle.apps.assistant.terminal_user import LOCAL
from treadle.cli.database_option import database_url
from treadle.cli.echo import echo
from treadle.cli.exits import CommandFailed, failing
from treadle.cli.journal_option import journal_url, open_runtime
from treadle.cli.task_model import model_flags, task_model
from treadle.cli.terminal import put_bytes, width
from treadle.config import Config, home, load
from treadle.errors import AgentError
from treadle.service.database.database import Database
from treadle.types import Outcome, new_id, now

PROMPT: Final = "> "
WELCOME: Final = 'Your tasks. Try "add milk tomorrow", or "help" for more; Ctrl-D quits.'
WORKING: Final = "working ..."
WORKING_AFTER_S: Final = 0.7
ONE_SHOT: Final = "terminal"
"""Id of the conversation shared by single messages, so that one can answer another's question."""
HISTORY: Final = "tasks_history"
HISTORY_LINES: Final = 1_000
_BOXES: Final = str.maketrans({"☐": "[ ]", "✓": "[x]"})


def talk(message: str, options: Mapping[str, str | None]) -> int:
    """Run the chat and return its exit code. Raises CommandFailed."""
    with failing():
        config = load(flags=model_flags(options["model"]))
        database = database_url(options["database"])
        journal = journal_url(config, options["journal"])
        with (
            start_blocking_portal() as portal,
            portal.wrap_async_context_manager(
                _opened(config, options["model"], database, journal)
            ) as runner,
        ):
            if message.strip():
                return Talk(runner, portal, ONE_SHOT).say(message)
            chat = Talk(runner, portal, new_id("conv"))
            return chat.typed() if sys.stdin.isatty() else chat.piped()


@asynccontextmanager
async def _opened(
    config: Config, model: str | None, database: str, journal: str
) -> AsyncGenerator[AgentRunner]:
    async with Database.open(database) as rows, open_runtime(config, journal) as runtime:
        yield AgentRunner(rows, MCPToolServer(rows), task_model(config, model), runtime=runtime)


class Talk:
    """Conversation whose history is kept only in memory."""

    def __init__(self, runner: AgentRunner, portal: BlockingPortal, conversation_id: str) -> None:
        self._runner, self._portal, self._id = runner, portal, conversation_id
        self._said: tuple[MessageHistory, ...] = ()

    def typed(self) -> int:
        """Read messages from a terminal and answer them. Ctrl-C discards the line; Ctrl-D ends."""
        _put(WELCOME)
        with _line_history():
            while True:
                try:
                    message = input(PROMPT)
                except KeyboardInterrupt:
                    _put("")
                    continue
                except EOFError:
                    _put("")
                    return 0
                if message.strip():
                    self.say(message)

    def piped(self) -> int:
        """Answer one message per line of the input. Return the worst exit code."""
        worst = 0
        for line in sys.stdin.buffer:
            if message := line.decode("utf-8", "replace").strip():
                code = self.say(message)
                if code == 130:
                    return code
                worst = max(worst, code)
        return worst

    def say(self, message: str) -> int:
        """Print the reply to a message and return its exit code."""
        stream = self._runner.stream(AgentContext(LOCAL, self._id, self._said), message)
        with _Waiting() as waiting:
            reply, code = self._reply(stream, waiting)
        _put(reply)
        at = now()
        self._said = (
            *self._said,
            MessageHistory("user", message, at),
            MessageHistory("assistant", reply, at),
        )[-HISTORY_MOST:]
        return code

    def _reply(self, stream: ReplyStream, waiting: _Waiting) -> tuple[str, int]:
        try:
            self._followed(stream, waiting)
            result = stream.result
        except TimedOut as e:
            return e.result.response, 3
        except AgentError as e:
            raise CommandFailed(e.message) from e
        if stream.outcome is Outcome.CANCELLED:
            return "Stopped.", 130
        return result.response, 0 if result.success else 1

    def _followed(self, stream: ReplyStream, waiting: _Waiting) -> None:
        """Wait for the end of the reply. Ctrl-C cancels the reply, and the wait continues until it
        has ended.
        """
        future = self._portal.start_task_soon(_to_the_end, stream)
        while True:
            try:
                waiting.wait(future)
            except KeyboardInterrupt:
                self._portal.call(stream.cancel)
            else:
                return


async def _to_the_end(stream: ReplyStream) -> None:
    async with stream:
        async for _ in stream:
            pass


class _Waiting:
    """Progress note on a terminal, shown after a delay and erased afterwards where possible."""

    def __init__(self) -> None:
        self._shows = sys.stderr.isatty()
        self._erases = os.environ.get("TERM", "dumb") != "dumb"
        self._shown = False

    def __enter__(self) -> _Waiting:
        return self

    def wait(self, future: Future[None]) -> None:
        """Wait for the future and return. Raises its exception, and KeyboardInterrupt."""
        if self._shows and not self._shown:
            with suppress(NotYet):
                return future.result(WORKING_AFTER_S)
            echo(WORKING, err=True, nl=not self._erases)
            self._shown = True
        return future.result()

    def __exit__(self, *exc: object) -> None:
        if self._shown and self._erases:
            echo("\r" + " " * len(WORKING) + "\r", err=True, nl=False)


def _put(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    text = plain(text)
    if sys.stdout.isatty():
        text = "\n".join(wrapped(text, max(width() - 1, 20)))
    try:
        data = text.encode(encoding)
    except UnicodeEncodeError:
        data = encodable(text.translate(_BOXES), encoding).encode(encoding, "replace")
    put_bytes(data + b"\n")


@contextmanager
def _line_history() -> Generator[None]:
    """Keep a history of typed lines. If it cannot be stored, typing still works."""
    try:
        import readline  # noqa: PLC0415  not on every system
    except ImportError:
        yield
        return
    file = Path(home(os.environ)) / HISTORY
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        os.chmod(file, 0o600)
        readline.read_history_file(file)
    try:
        yield
    finally:
        readline.set_history_length(HISTORY_LINES)
        with suppress(OSError):
            readline.write_history_file(file)
