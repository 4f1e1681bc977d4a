"""A sync function in a process of its own, for each call a new one: it can be killed at any moment,
and takes nobody with it.

It is no sandbox: the function may do there what the user may do, and a process that it starts in a
session of its own is out of reach. What happens on the other side is isolated.py. Entry:
`run_isolated`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, cast

import anyio
import msgspec
from anyio.abc import ByteReceiveStream, Process

from treadle.messages.message import MediaPart, TextPart
from treadle.tools.function.isolated import (
    ANSWER,
    MAX_REPLY_BYTES,
    Target,
    refuse_while_loading,
)
from treadle.tools.function.parsed_text import ParsedText
from treadle.tools.tool import InvalidArguments, ToolContext, ToolDone, ToolFailed, ToolOutput

_START: Final = (
    "import sys, json; request = json.loads(sys.stdin.buffer.readline()); sys.path[:] = "
    "request['path'];from treadle.tools.function.isolated import main; main(request)"
)
_EXIT_GRACE_S: Final = 0.5
"""Time for a process to exit after it has answered or closed its pipe, in seconds."""
_TAIL_BYTES: Final = 2_000
"""Bytes of its output that are shown if it dies; the rest is read and dropped."""


async def run_isolated(
    target: Target, ctx: ToolContext[Any], arguments: Mapping[str, Any]
) -> ToolOutput:
    """Return the result of the function. Exceptions are raised here under the same name.

    Raises ToolFailed(happened=False) if the process could not be started, ToolFailed(happened=None)
    if it died. Cancellation: the process and its group are killed at once, and gone before the
    cancellation is re-raised.
    """
    refuse_while_loading(target)
    request = _request(target, arguments)
    printed = bytearray()
    reply: bytes | None = None
    died_of: int | None = None
    async with _child(ctx) as child, anyio.create_task_group() as group:
        group.start_soon(_keep_tail, child.process.stderr, printed)
        reply = await _ask(child.process, request)
        with anyio.move_on_after(_EXIT_GRACE_S, shield=reply is not None):
            await child.process.wait()
        died_of = child.process.returncode
        child.kill()
        # a death is explained by what was printed last, which may still be on its way
        group.cancel_scope.deadline = anyio.current_time() + (_EXIT_GRACE_S if reply is None else 0)
    if reply is None:
        raise ToolFailed(
            (
                f"The process of the tool {target.tool!r} {_death(died_of)} before it gave a "
                f"result.{_last_words(printed)}"
            ),
            happened=None,
        )
    return _result(json.loads(reply), target)


class _Child:
    """A process that leads a group of its own."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._killed = False

    def kill(self) -> None:
        """The whole group, also where its leader is gone: what that left behind still has the
        number. Once, because later another may have it.
        """
        if self._killed:
            return
        self._killed = True
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self.process.kill()
            else:
                os.killpg(self.process.pid, signal.SIGKILL)


@asynccontextmanager
async def _child(ctx: ToolContext[Any]) -> AsyncGenerator[_Child]:
    # -E: an empty entry in PYTHONPATH would put the working directory, where a model writes, on the
    # path. -P: and so would -c
    command = [sys.executable or "", "-E", "-P", "-c", _START]
    try:
        process = await anyio.open_process(
            command, cwd=ctx.cwd, env=dict(ctx.environment), start_new_session=True
        )
    except OSError as e:
        raise ToolFailed(f"The tool's process could not be started: {e}", happened=False) from e
    child = _Child(process)
    try:
        yield child
    finally:
        child.kill()
        with anyio.CancelScope(shield=True):
            await process.aclose()


def _request(target: Target, arguments: Mapping[str, Any]) -> bytes:
    given = (
        {"arguments": arguments}
        if _is_json(arguments)
        else {"text": cast("ParsedText", arguments).text}
    )
    return (
        json.dumps(
            {
                "parent": os.getpid(),
                "path": [os.path.abspath(p) for p in sys.path],
                "target": msgspec.structs.asdict(target),
                **given,
            }
        ).encode()
        + b"\n"
    )


def _is_json(value: object) -> bool:
    """True where JSON gives back exactly this."""
    if isinstance(value, ParsedText) or type(value) is dict:
        return all(
            type(k) is str and _is_json(v) for k, v in cast("dict[object, object]", value).items()
        )
    if type(value) is list:
        return all(_is_json(v) for v in cast("list[object]", value))
    return value is None or type(value) in (str, int, float, bool)


async def _ask(process: Process, request: bytes) -> bytes | None:
    """Send one line and return one line; None if the process ends without one."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(anyio.BrokenResourceError, anyio.EndOfStream):
        # and it stays open: its end tells the process that we are gone
        await process.stdin.send(request)
        reply = bytearray()
        while len(reply) <= MAX_REPLY_BYTES:
            reply += (chunk := await process.stdout.receive())
            if chunk.endswith(b"\n") and ANSWER in reply:
                return bytes(reply.partition(ANSWER)[2])
    return None


async def _keep_tail(stream: ByteReceiveStream | None, tail: bytearray) -> None:
    assert stream is not None
    with suppress(anyio.BrokenResourceError):
        async for chunk in stream:
            tail += chunk
            del tail[:-_TAIL_BYTES]


# ---------------------------------------------------------------- what came back


class _Raised(Exception):
    """Exception of the function in the other process; its class is created here under the same
    name.
    """


def _result(reply: dict[str, Any], target: Target) -> ToolOutput:
    match reply:
        case {"text": str(text)}:
            return text
        case {"parts": parts}:
            return msgspec.convert(parts, tuple[TextPart | MediaPart, ...])
        case {"done": str(value)}:
            return ToolDone(json.loads(value))
        case {"failed": str(message), "happened": happened}:
            raise ToolFailed(message, happened=happened)
        case {"invalid": str(message)}:
            raise InvalidArguments(message)
        case {"raised": str(name), "message": str(message), "trace": str(trace)}:
            error = type(name, (_Raised,), {})(message)
            error.add_note(f"in the process of the tool {target.tool!r}:\n{trace}")
            raise error
        case _:
            raise ToolFailed(
                f"The tool {target.tool!r} could not be loaded in its process: "
                f"{reply.get('unloadable')}"
            )


def _death(returncode: int | None) -> str:
    if returncode is None:
        return "closed its pipe and stayed"
    if returncode >= 0:
        return f"ended with exit code {returncode}"
    try:
        return f"was killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was killed by signal {-returncode}"


def _last_words(printed: bytearray) -> str:
    text = printed.decode(errors="replace").strip()
    return f" It printed last:\n{text}" if text else ""
