"""What the configuration asks for: off by default and unimported, on by the user's own file only,
and a missing extra is told.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import agent, open_runtime, says
from treadle.config import Config, load
from treadle.config.sections import Telemetry
from treadle.errors import AgentError

SCRIPT = '[{"tool_calls": [{"name": "ls", "arguments": {"path": "."}}]}, {"text": "hi"}]'

WITHOUT = """
import importlib.abc, sys
class Gone(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Gone())
"""


def python(
    code: str, home: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OTEL_", "TREADLE_", "ANTHROPIC_"))
    }
    env = {**kept, "HOME": str(home), "TREADLE_HOME": str(home), **environment}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=env,
        cwd=home,
        timeout=200,
    )


def treadle(
    home: Path, *arguments: str, before: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    (home / "script.json").write_text(SCRIPT)
    code = f"{before}\nimport sys\nfrom treadle.cli import main\nsys.argv[0] = 'treadle'\nmain()"
    return python(
        code, home, *arguments, TREADLE_MODEL=f"script:{home / 'script.json'}", **environment
    )


def configure(home: Path, **telemetry: Any) -> None:
    (home / "config.yaml").write_text(json.dumps({"telemetry": telemetry}))
    (home / "config.yaml").chmod(0o600)


# ---------------------------------------------------------------- off


def test_a_run_that_nobody_follows_imports_nothing_for_it(tmp_path: Path) -> None:
    code = """
import sys, anyio, treadle
from treadle.testing import ScriptedModel
async def main():
    async with treadle.Runtime.open() as rt:
        assert (await rt.run(treadle.Agent(name="a", model=ScriptedModel([{"text": "hi"}])), "go")).success
anyio.run(main)
heavy = ("opentelemetry", "structlog", "treadle.events.telemetry.logs", "treadle.events.telemetry.tracer", "treadle.events.telemetry.spans")
print([name for name in sys.modules if name in heavy])
"""
    done = python(code, tmp_path)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_command_line_imports_nothing_for_it_either(tmp_path: Path) -> None:
    after = "import atexit, sys\natexit.register(lambda: print([m for m in sys.modules if m in ('opentelemetry', 'structlog')], file=sys.stderr))"
    done = treadle(tmp_path, "run", "-q", "--ephemeral", "go", before=after)
    assert (done.returncode, done.stdout, done.stderr) == (0, "hi\n", "[]\n")


# ---------------------------------------------------------------- who may ask


def test_it_is_the_users_own_file_that_asks(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    (project / ".git").mkdir(parents=True)
    configure(home, otel=True, content=True, logs="json", log_file="/var/log/treadle.log")
    assert load({"TREADLE_HOME": str(home)}, cwd=project).telemetry == Telemetry(
        otel=True, content=True, logs="json", log_file="/var/log/treadle.log"
    )


@pytest.mark.parametrize("trusted", [False, True])
def test_a_workspace_may_never_ask(trusted: bool, tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    (project / ".git").mkdir(parents=True)
    (project / ".treadle").mkdir()
    said = {"telemetry": {"otel": True, "content": True, "logs": "json", "log_file": "/tmp/out"}}
    (project / ".treadle" / "config.yaml").write_text(json.dumps(said))
    config = load({"TREADLE_HOME": str(home)}, cwd=project, trusted=trusted)
    assert config.telemetry == Telemetry()
    assert (
        sum("telemetry." in warning and "may not set it" in warning for warning in config.warnings)
        == 4
    )


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"otel": "yes"}, "telemetry.otel must be true or false"),
        ({"logs": "xml"}, "telemetry.logs must be one of off, text, json"),
        (
            {"log_file": "events.log"},
            "telemetry.log_file must be a file's path that begins with / or ~/",
        ),
        ({"loggs": "json"}, "did you mean 'logs'?"),
    ],
)
def test_what_makes_no_sense_is_refused(said: dict[str, Any], why: str, tmp_path: Path) -> None:
    configure(tmp_path, **said)
    with pytest.raises(AgentError) as caught:
        load({"TREADLE_HOME": str(tmp_path)}, cwd=tmp_path)
    assert why in caught.value.message


# ---------------------------------------------------------------- on


async def test_a_runtime_logs_as_it_is_told(tmp_path: Path) -> None:
    path = tmp_path / "events.log"
    config = Config(telemetry=Telemetry(logs="json", log_file=str(path)))
    async with open_runtime(config=config) as rt:
        await rt.run(agent([says("hi")]), "go")
    told = [json.loads(line) for line in path.read_text().splitlines()]
    assert (told[0]["event"], told[-1]["event"]) == ("run_start", "run_end")
    await rt.aclose()


def test_a_run_of_the_command_line_sends_spans_and_sums_where_the_environment_says(
    tmp_path: Path,
) -> None:
    configure(tmp_path, otel=True, logs="json", log_file=str(tmp_path / "events.log"))
    done = treadle(
        tmp_path,
        "run",
        "-q",
        "--ephemeral",
        "go",
        OTEL_TRACES_EXPORTER="console",
        OTEL_METRICS_EXPORTER="console",
    )
    assert done.returncode == 0, done.stderr
    for name in (
        '"name": "invoke_agent',
        '"name": "chat ',
        '"name": "execute_tool ls"',
        "gen_ai.client.token.usage",
        '"service.name": "treadle"',
    ):
        assert name in done.stdout, name
    first = json.loads((tmp_path / "events.log").read_text().splitlines()[0])
    assert (first["event"], len(first["trace_id"])) == ("run_start", 32)


def test_logs_for_people_go_to_standard_error(tmp_path: Path) -> None:
    configure(tmp_path, logs="text")
    done = treadle(tmp_path, "run", "-q", "--ephemeral", "go")
    assert (done.returncode, done.stdout) == (0, "hi\n")
    assert "run_end" in done.stderr


def test_without_the_extra_it_is_told_how_to_install_it(tmp_path: Path) -> None:
    configure(tmp_path, otel=True)
    done = treadle(tmp_path, "run", "-q", "--ephemeral", "go", before=WITHOUT)
    assert (done.returncode, done.stderr) == (
        2,
        "treadle: this needs OpenTelemetry: pip install 'treadle[otel]'\n",
    )


def test_an_exporter_that_is_not_there_is_told(tmp_path: Path) -> None:
    configure(tmp_path, otel=True)
    done = treadle(tmp_path, "run", "-q", "--ephemeral", "go", OTEL_TRACES_EXPORTER="nowhere")
    assert done.returncode == 2
    assert "the exporter 'nowhere' for traces is not installed" in done.stderr


def test_an_application_that_has_set_up_opentelemetry_keeps_its_own(tmp_path: Path) -> None:
    code = """
import anyio, treadle
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from treadle.config import Config
from treadle.config.values import Telemetry
from treadle.testing import ScriptedModel
mine, spans = TracerProvider(), InMemorySpanExporter()
mine.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(mine)
async def main():
    async with treadle.Runtime.open(config=Config(telemetry=Telemetry(otel=True))) as rt:
        await rt.run(treadle.Agent(name="a", model=ScriptedModel([{"text": "hi"}])), "go")
anyio.run(main)
print([span.name for span in spans.get_finished_spans()], trace.get_tracer_provider() is mine)
"""
    done = python(code, tmp_path, OTEL_TRACES_EXPORTER="nowhere")
    assert (done.stdout, done.stderr) == ("['chat inline', 'invoke_agent a'] True\n", "")
