"""`treadle run`: one prompt, worked to its end without a person. Entry: `run`."""

from __future__ import annotations

import base64
import mimetypes
import os
import signal
import stat
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import IO, Any, get_args

import anyio
import click

from treadle.agent import Agent
from treadle.cli.exits import Failed, exit_code, failing, unwritable
from treadle.cli.help import HELP
from treadle.cli.output_file import OutputFile
from treadle.cli.render import renderer
from treadle.config import Config, load
from treadle.events import Event
from treadle.message import MediaPart, Part, TextPart
from treadle.redaction import Redactor
from treadle.result import RunResult
from treadle.run_stream import RunStream
from treadle.runtime import Runtime
from treadle.types import Effort, Mode, Settings

FILE_BYTES_MAX = 20 * 1024 * 1024
STDIN_BYTES_MAX = 10 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the person asked for."""

    prompt: list[Part]
    settings: Settings
    """The options that are settings of the call: a model that does not take one is an error, and not left alone as for a default."""
    output: str
    cwd: Path
    quiet: bool
    verbose: bool


@click.command(context_settings=HELP)
@click.argument("prompt", required=False, default="")
@click.option("--model", metavar="M", help="provider:id, or script:FILE, tape:FILE, record:FILE=MODEL.")
@click.option(
    "--mode", type=click.Choice(get_args(Mode)), help="What may run unasked: plan only looks; ask asks; accept-edits writes files here; full does all."
)
@click.option("--cwd", "cwd", type=click.Path(path_type=Path), metavar="DIR", default=".", help="Where to work.")
@click.option("--file", "attached", type=click.Path(path_type=Path), multiple=True, metavar="F", help="An image or a text to add to the prompt; repeatable.")
@click.option("--output", type=click.Choice(["text", "json", "stream-json"]), default="text", help="What is printed.")
@click.option("-o", "output_file", type=click.Path(path_type=Path), metavar="FILE", help="Print the answer there.")
@click.option("--max-turns", type=click.IntRange(1), metavar="N", help="Responses of the model.")
@click.option("--max-tool-calls", type=click.IntRange(1), metavar="N", help="Calls of tools.")
@click.option("--max-tokens", type=click.IntRange(1), metavar="N", help="Tokens of the whole run, input and output.")
@click.option("--max-output-tokens", type=click.IntRange(1), metavar="N", help="Tokens of one response.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="S", help="Seconds.")
@click.option("--effort", type=click.Choice([e for e in get_args(Effort) if e != "xhigh"]), help="How hard the model thinks.")
@click.option("-q", "quiet", is_flag=True, help="Only the answer.")
@click.option("-v", "verbose", is_flag=True, help="Also reasoning and results.")
def run(prompt: str, cwd: Path, attached: tuple[Path, ...], output: str, output_file: Path | None, quiet: bool, verbose: bool, **flags: Any) -> None:
    """Run PROMPT to its end. Standard input, when piped, is added to it.

    Exits with 0 when completed, 1 on an error, 2 on wrong use, 3 at a limit, 4 where an approval was needed, 75 where
    trying again later may help, 130 when stopped.
    """
    if not cwd.is_dir():
        raise Failed(f"--cwd {str(cwd)!r} is no directory")
    parts = _prompt(prompt, attached)
    with failing():
        settings = Settings(effort=flags["effort"], max_tokens=flags["max_output_tokens"])
        wish = Wish(prompt=parts, settings=settings, output=output, cwd=cwd.resolve(), quiet=quiet, verbose=verbose)
        given = {f"--{name.replace('_', '-')}": value for name, value in flags.items() if value is not None}
        config = load(cwd=wish.cwd, flags=given)
        if not quiet:
            for warning in (*config.warnings, *_without_effect(config)):
                click.echo(f"! {warning}", err=True)
        with OutputFile(output_file) if output_file else nullcontext(sys.stdout.buffer) as out:
            result = anyio.run(_run, config, wish, out)
            if isinstance(out, OutputFile):
                out.finish()
    sys.exit(exit_code(result.outcome, result.error.kind if result.error else None))


def _without_effect(config: Config) -> list[str]:
    """What the configuration says in vain: a rule that nobody keeps must not look as if it were kept."""
    permissions = config.permissions
    said = {
        "permissions": bool(permissions.allow or permissions.ask or permissions.deny),
        "defaults.sandbox: on": config.defaults.sandbox == "on",
        "mcp_servers": bool(config.mcp_servers),
        "agents": bool(config.agents),
        "journal": config.journal is not None,
    }
    vain = [key for key, is_said in said.items() if is_said]
    if not vain:
        return []
    return [f"{', '.join(vain)} in the configuration: without effect in this version. --mode alone decides what may run, and runs are kept in memory"]


async def _run(config: Config, wish: Wish, out: IO[bytes]) -> RunResult[str]:
    show = renderer(wish.output, out, Redactor(config.secrets()), quiet=wish.quiet, verbose=wish.verbose).show
    async with Runtime(config=config) as runtime:
        session = runtime.session(agent=coding_agent(config))
        stream = session.stream(wish.prompt, settings=wish.settings, limits=config.limits, mode=config.defaults.mode, cwd=wish.cwd)
        await follow(stream, show)
    return stream.result


def coding_agent(config: Config) -> Agent[object, str]:
    """What `run` runs: the built-in tools and the default instructions."""
    from treadle.tools.coding import default_tools  # noqa: PLC0415  after the options were read

    instructions = files("treadle.cli").joinpath("prompt.md").read_text(encoding="utf-8").replace("$", "$$")
    return Agent(name="treadle", description="A coding assistant", instructions=instructions, model=config.models.large, tools=default_tools())


async def follow(stream: RunStream[Any], show: Callable[[Event], None]) -> None:
    """Shows a run's events to its end; Ctrl-C, SIGTERM and the end of the terminal cancel it.

    Raises BrokenPipeError where the reader has left, and Failed where the output cannot be written. Then the run is cancelled.
    """
    lost: OSError | None = None
    async with stream, anyio.create_task_group() as group:
        group.start_soon(_cancel_on_signals, stream)
        async for event in stream:
            try:
                show(event)
            except OSError as e:
                lost = e
                break
        group.cancel_scope.cancel()
    if lost is not None:  # raised here, where no task group wraps it
        raise unwritable(lost)


async def _cancel_on_signals(stream: RunStream[Any]) -> None:
    """The first signal closes the run, which takes half a second at most; the third ends the process where it stands."""
    heard = [signal.SIGINT, signal.SIGTERM]
    hang_up = getattr(signal, "SIGHUP", None)  # not on Windows; what nohup ignores stays ignored
    if hang_up is not None and signal.getsignal(hang_up) is not signal.SIG_IGN:
        heard.append(hang_up)
    with anyio.open_signal_receiver(*heard) as signals:
        count = 0
        async for number in signals:
            stream.cancel()
            count += 1
            if count == 2:
                signal.signal(number, signal.SIG_DFL)


# ---------------------------------------------------------------- input and output


def _prompt(prompt: str, attached: tuple[Path, ...]) -> list[Part]:
    texts = [text for text in (prompt, _piped()) if text.strip()]
    parts: list[Part] = [TextPart(text="\n\n".join(texts))] if texts else []
    if not parts:
        raise Failed('the prompt is empty: treadle run "what to do", or pipe it in')
    return [*(_attachment(path) for path in attached), *parts]


def _piped() -> str:
    """Standard input where it is a pipe or a file; a terminal and a closed one are not read."""
    try:
        kind = os.fstat(0).st_mode
    except OSError:
        return ""
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind) or stat.S_ISSOCK(kind)):
        return ""
    try:
        data = sys.stdin.buffer.read(STDIN_BYTES_MAX + 1)
    except OSError as e:
        raise Failed(f"standard input cannot be read: {e.strerror or e}") from e
    if len(data) > STDIN_BYTES_MAX:
        raise Failed(f"standard input is larger than {STDIN_BYTES_MAX // 1024 // 1024} MiB: save it to a file and name the file in the prompt")
    return data.decode("utf-8", "replace").rstrip("\n")


def _attachment(path: Path) -> Part:
    try:
        if not path.is_file():
            raise Failed(f"--file {str(path)!r} is no file")
        if path.stat().st_size > FILE_BYTES_MAX:
            raise Failed(f"--file {str(path)!r} is larger than {FILE_BYTES_MAX // 1024 // 1024} MiB")
        data = path.read_bytes()
    except OSError as e:
        raise Failed(f"--file {str(path)!r} cannot be read: {e.strerror or e}") from e
    media_type = mimetypes.guess_type(path.name)[0] or ""
    if media_type.startswith("image/") or media_type == "application/pdf":
        return MediaPart(media_type=media_type, data=base64.b64encode(data).decode(), name=path.name)
    try:
        return TextPart(text=f"<file path={str(path)!r}>\n{data.decode()}\n</file>")
    except UnicodeDecodeError as e:
        raise Failed(f"--file {str(path)!r} is neither an image, a PDF nor UTF-8 text") from e
