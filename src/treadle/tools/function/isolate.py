"""Parent side of isolated calls: runs a sync function in a new process for each call, which can be
killed at any moment without affecting anything else.

It is not a sandbox: the function has all rights of the user, and a process that it starts in its
own session is not killed with it. isolated.py is the child side. Entry point: `run_isolated`.
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
"""Seconds for a process to exit after it has answered or closed its pipe."""
_TAIL_BYTES: Final = 2_000
"""Last bytes of the child's output, shown if it dies; earlier output is discarded."""


async def run_isolated(
    target: Target, ctx: ToolContext[Any], arguments: Mapping[str, Any]
) -> ToolOutput:
    """Return the result of the function. Exceptions are raised here under the same name.

    Raises ToolFailed(happened=False) if the process could not be started, ToolFailed(happened=None)
    if it died. Cancellation: the process and its group are killed immediately, before the
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
        # the output explains why the process died, and its end may not have arrived yet
        group.cancel_scope.deadline = anyio.current_time() + (_EXIT_GRACE_S if reply is None else 0)
    if reply is None:
        raise ToolFailed(
            (
                f"The process of the tool {target.tool!r} {_death(died_of)} before it returned a "
                f"result.{_last_words(printed)}"
            ),
            happened=None,
        )
    return _result(json.loads(reply), target)


class _Child:
    """Child process that leads its own process group."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._killed = False

    def kill(self) -> None:
        """Kill the whole group, even after its leader has exited: processes that the leader left
        behind still belong to it. Acts only once, because the system may reuse the group's id.
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
    # -E and -P: an empty entry in PYTHONPATH, or -c, would put the working directory, where a model
    # writes, on sys.path
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
    """Return True if encoding the value as JSON and decoding it yields exactly the same value."""
    if isinstance(value, ParsedText) or type(value) is dict:
        return all(
            type(k) is str and _is_json(v) for k, v in cast("dict[object, object]", value).items()
        )
    if type(value) is list:
        return all(_is_json(v) for v in cast("list[object]", value))
    return value is None or type(value) in (str, int, float, bool)


async def _ask(process: Process, request: bytes) -> bytes | None:
    """Send one line and return the reply line; None if the process ends without one."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(anyio.BrokenResourceError, anyio.EndOfStream):
        # stays open: when it closes, the child knows that this process has ended
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


# ---------------------------------------------------------------- the reply


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
