"""`treadle doctor`: checks that everything a run needs is present and works.

Connects only to configured endpoints. Entry points: `doctor`.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import anyio
import click

from treadle import __version__
from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import plain
from treadle.cli.doctor_journal import journal_findings
from treadle.cli.doctor_plugins import plugin_findings
from treadle.cli.doctor_sandbox import sandbox_findings
from treadle.cli.doctor_servers import server_findings
from treadle.cli.echo import echo
from treadle.cli.help import HELP
from treadle.config import Config, config_files, load
from treadle.errors import AgentError, ErrorKind
from treadle.messages.message import Message
from treadle.models.model import ModelRequest, fold_stream
from treadle.runtime.runtime import Runtime
from treadle.types import Settings

CONNECT_WITHIN_S = 15.0


@dataclass(frozen=True, slots=True)
class CheckResult:
    what: str
    state: Literal["ok", "note", "bad"]
    text: str


@click.command(context_settings=HELP)
@click.option("--offline", is_flag=True, help="Do not connect to the provider.")
@click.option(
    "--full",
    is_flag=True,
    help=(
        "Try every known sandbox escape, and start the configured MCP servers. Takes some seconds."
    ),
)
@click.option("--json", "as_json", is_flag=True, help="As JSON: a list of findings.")
def doctor(offline: bool, full: bool, as_json: bool) -> None:
    """Test the key, the connection, the sandbox and the tools, and say how to fix each problem.

    Sends one small request to the provider of the default model to check the key. Exits with 1 if a
    check fails.
    """
    findings: list[CheckResult] = []
    mask: Callable[[str], str] = Redactor(()).text
    for finding in _findings(offline, full=full):
        findings.append(CheckResult(finding.what, finding.state, plain(mask(finding.text))))
        if not as_json:
            mark, colour = {"ok": ("✓", "green"), "note": ("-", "yellow"), "bad": ("✗", "red")}[
                finding.state
            ]
            echo(f"{click.style(mark, fg=colour)} {finding.what:<14} {findings[-1].text}")
    if as_json:
        echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    sys.exit(int(any(finding.state == "bad" for finding in findings)))


def _findings(offline: bool, *, full: bool) -> Iterator[CheckResult]:
    yield CheckResult(
        "treadle",
        "ok",
        (
            f"{__version__} on Python {platform.python_version()}, {platform.system()} "
            f"{platform.machine()}"
        ),
    )
    try:
        config = load()
    except AgentError as e:
        yield CheckResult("configuration", "bad", e.message)
        return
    read = [str(file.path) for file in config_files(_environment()) if file.path.exists()]
    yield CheckResult("configuration", "ok", ", ".join(read) or "no file, all defaults")
    for warning in config.warnings:
        yield CheckResult("configuration", "note", warning)
    yield from _model(config, offline)
    yield from _small_model(config)
    for what, state, text in journal_findings(config):
        yield CheckResult(what, state, text)
    yield _program("bash", "the bash tool cannot work without it", needed=True)
    yield _program(
        "rg",
        "grep uses its own, slower search: install ripgrep, or pip install 'treadle[ripgrep]'",
        needed=False,
    )
    for state, text in plugin_findings():
        yield CheckResult("plug-in", state, text)
    for state, text in sandbox_findings(config, full=full):
        yield CheckResult("sandbox", state, text)
    for state, text in server_findings(config, full=full, offline=offline):
        yield CheckResult("mcp", state, text)


def _environment() -> dict[str, str]:
    return dict(os.environ)


def _program(name: str, without: str, *, needed: bool) -> CheckResult:
    if path := shutil.which(name):
        return CheckResult(name, "ok", path)
    return CheckResult(name, "bad" if needed else "note", f"not found: {without}")


def _model(config: Config, offline: bool) -> Iterator[CheckResult]:
    name = config.models.large
    yield CheckResult("model", "ok", f"{name} ({config.origin('models', 'large')})")
    try:
        provider, _ = config.split(name)
        if provider in ("script", "tape", "record"):
            return
        endpoint = config.endpoint(provider)
    except AgentError as e:
        yield CheckResult("key", "bad", e.message)
        return
    yield CheckResult(
        "key",
        "ok",
        f"{endpoint.kind} from {endpoint.key_origin}"
        if endpoint.key_origin
        else "none, and none is needed",
    )
    sdk = (
        "; the anthropic SDK is installed too, for clients you make yourself"
        if find_spec("anthropic")
        else ""
    )
    yield CheckResult(
        "connection",
        "ok",
        f"our own, to {endpoint.base_url or 'the vendor'}, as {endpoint.type}{sdk}",
    )
    if not offline:
        yield anyio.run(_ask, config, name)


def _small_model(config: Config) -> Iterator[CheckResult]:
    """Report a small model that cannot summarise long conversations. The default one may lack its
    key.
    """
    name, instead = (
        config.models.small,
        (
            "Long conversations are summarised by the run's own model instead; set models.small to "
            "another"
        ),
    )
    try:
        provider, rest = config.split(name)
        if provider in ("script", "tape", "record"):
            if provider != "record" and not Path(rest).is_file():
                yield CheckResult(
                    "small model", "note", f"{name}: there is no such file. {instead}"
                )
            return
        config.endpoint(provider)
    except AgentError as e:
        if e.kind is not ErrorKind.AUTH or config.origin("models", "small").source != "default":
            yield CheckResult("small model", "note", f"{name}: {e.message}. {instead}")


async def _ask(config: Config, name: str) -> CheckResult:
    """Send a minimal request and report the response or the error."""
    request = ModelRequest(messages=[Message.user("Say ok.")], settings=Settings(max_tokens=16))
    async with Runtime(config=config) as runtime:
        model = runtime.models.get(name, scope="doctor")
        try:
            with anyio.fail_after(CONNECT_WITHIN_S):
                response = await fold_stream(model.stream(request))
        except TimeoutError:
            return CheckResult("answer", "bad", f"none within {CONNECT_WITHIN_S:.0f} s")
        except AgentError as e:
            advice = (
                ". Check the address, the network and the proxy"
                if e.kind is ErrorKind.NETWORK
                else ""
            )
            return CheckResult(
                "answer", "bad", f"{e.kind.value}: {runtime.redact(e.message)}{advice}"
            )
    return CheckResult(
        "answer",
        "ok",
        f"{response.model or name} answered with {response.usage.total_tokens} tokens",
    )
