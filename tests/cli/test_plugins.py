"""Plug-ins by name, from the command line and from programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.installations import Installation

pytestmark = pytest.mark.process

HELLO = """
import click

@click.command()
@click.argument("name")
def hello(name):
    \"\"\"Greet.\"\"\"
    click.echo(f"hello {name}")
"""
WIRE = """
from treadle.models.model import ResponseEnd, TextDelta, TextStart
from treadle.types import StopReason, Usage

class Echo:
    refuses = frozenset()

    def __init__(self, name):
        self.name = name

    async def stream(self, request):
        yield TextStart()
        yield TextDelta(text=f"{self.name} heard {request.messages[-1].text}")
        yield ResponseEnd(stop_reason=StopReason.COMPLETE, usage=Usage(), model=self.name)

class Line:
    base_url = ""

    async def aclose(self):
        pass

class Wire:
    def connect(self, **options):
        return Line()

    def model_over(self, connection, endpoint, model_id, abilities):
        return Echo(f"{endpoint.name}:{model_id}")

    async def list_models(self, connection, endpoint):
        return []

wire = Wire()
"""
TOOL = """
from treadle import Agent, tool

@tool
def tide(place: str) -> str:
    \"\"\"Return the tide.\"\"\"
    return f"high at {place}"

pilot = Agent(name="pilot", model="acme:one", instructions="Pilot ships.", tools=[tide])
"""
JOURNAL = """
from treadle.journal.memory.journal import MemoryJournal

opened = []

def open_shelf(url, *, durability, lease_s):
    print("opened", url, durability, lease_s)
    return MemoryJournal()
"""
SANDBOX = """
from treadle.policy.sandboxes import NoSandbox

def find(own):
    return NoSandbox("the box is away")
"""
ENGINE = """
from treadle.workers.engines.local import LocalEngine

def opened(url):
    raise OSError(f"no engine at {url}")
"""
ALL = {
    "models.acme": "acme_wire:wire",
    "tools.tide": "acme_tool:tide",
    "journals.shelf": "acme_journal:open_shelf",
    "engines.belt": "acme_engine:opened",
    "sandboxes.box": "acme_sandbox:find",
    "commands.hello": "acme_command:hello",
    "agents.pilot": "acme_tool:pilot",
}
MODULES = {
    "acme_wire": WIRE,
    "acme_tool": TOOL,
    "acme_journal": JOURNAL,
    "acme_engine": ENGINE,
    "acme_sandbox": SANDBOX,
    "acme_command": HELLO,
}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Installation]:
    installation = Installation(tmp_path / "python", forks=True)
    yield installation
    installation.close()


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    installation = Installation(tmp_path_factory.mktemp("acme"), forks=True)
    installation.add("treadle-acme", ALL, MODULES, version="2.5")
    yield installation
    installation.close()


def test_a_command_is_run_by_its_name(acme: Installation, tmp_path: Path) -> None:
    for start in (acme.run, acme.start):
        done = start("hello", "Ada", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "hello Ada\n"), done.stderr
    assert "Usage: treadle hello [OPTIONS] NAME" in acme.run("hello", "--help", cwd=tmp_path).stdout
    missed = acme.run("helo", cwd=tmp_path)
    assert "unknown command 'helo': did you mean 'hello'?" in missed.stderr


def test_a_model_and_an_agent_with_a_tool_are_found_by_their_names(
    acme: Installation, tmp_path: Path
) -> None:
    answered = acme.run("run", "--model", "acme:one", "ahoy", cwd=tmp_path)
    assert "acme:one heard ahoy" in answered.stdout, answered.stderr
    named = acme.run("run", "--agent", "pilot", "steer", cwd=tmp_path)
    assert "acme:one heard steer" in named.stdout, named.stderr
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "config.yaml").write_text(
        "providers: {work: {type: acme, api_key: k-123456789}}\n"
    )
    typed = acme.run("run", "--model", "work:two", "ahoy", cwd=tmp_path)
    assert "work:two heard ahoy" in typed.stdout, typed.stderr


def test_a_definition_names_tools_and_agents_of_plug_ins(
    acme: Installation, tmp_path: Path
) -> None:
    agents = tmp_path / "home" / "agents"
    agents.mkdir(parents=True)
    (agents / "captain.md").write_text(
        "---\ndescription: Commands.\nmodel: acme:one\ntools: [tide, pilot]\n---\nCommand.\n"
    )
    shown = acme.run("agents", "show", "captain", "--json", cwd=tmp_path)
    assert json.loads(shown.stdout)["problems"] == [], shown.stderr
    done = acme.run("run", "--agent", "captain", "go", cwd=tmp_path)
    assert "acme:one heard go" in done.stdout, done.stderr
    listed = json.loads(acme.run("tools", "list", "--json", cwd=tmp_path).stdout)
    (row,) = [row for row in listed if row["name"] == "tide"]
    assert (row["source"], row["place"]) == ("plug-in", "treadle-acme 2.5")
    names = [
        row["name"] for row in json.loads(acme.run("agents", "list", "--json", cwd=tmp_path).stdout)
    ]
    assert names == ["captain", "pilot"]


def test_a_journal_is_opened_by_the_scheme_of_its_url(acme: Installation, tmp_path: Path) -> None:
    program = (
        "import anyio\n"
        "from treadle import Agent, Runtime\n"
        "async def main():\n"
        "    async with Runtime.open('shelf://top?x=1') as rt:\n"
        "        result = await rt.run(Agent(name='a', model='acme:m'), 'hi')\n"
        "        print(result.output, type(rt.journal).__name__)\n"
        "anyio.run(main)\n"
    )
    done = acme.execute("-c", program, cwd=tmp_path)
    assert done.stdout == (
        "opened shelf://top?x=1 process 15.0\nacme:m heard hi MemoryJournal\n"
    ), done.stderr
    listed = acme.run("runs", "list", "--journal", "shelf://", cwd=tmp_path)
    assert (listed.returncode, "opened shelf://" in listed.stdout) == (0, True), listed.stderr
    setting = acme.run("config", "set", "journal", "shelf://top", cwd=tmp_path)
    assert setting.returncode == 0, setting.stderr


def test_an_engine_and_a_sandbox_are_named_in_the_settings(
    acme: Installation, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.yaml").write_text(
        "defaults: {sandbox: box}\nworkers: {engine: belt}\n"
    )
    confined = acme.run("run", "--model", "acme:one", "--mode", "full", "hi", cwd=tmp_path)
    assert confined.returncode == 2
    assert "defaults.sandbox is box, and no sandbox works: the box is away" in confined.stderr
    for options in ([], ["--engine", "belt"]):
        driven = acme.run("worker", *options, cwd=tmp_path)
        assert driven.returncode == 2
        assert (
            "the plug-in 'belt' (treadle.engines, acme_engine:opened) of treadle-acme 2.5 "
            "failed: OSError: no engine at sqlite:///" in driven.stderr
        )
    wrong = acme.run("worker", "--engine", "bolt", cwd=tmp_path)
    assert "--engine must be one of 'local', 'dbos', not 'bolt'" in wrong.stderr


def test_doctor_lists_plug_ins_with_package_and_version(acme: Installation, tmp_path: Path) -> None:
    found = _plugins(acme, tmp_path)
    assert [text for _, text in found] == [
        f"treadle.{kind} {name!r} of treadle-acme 2.5"
        for kind, _, name in sorted(point.partition(".") for point in ALL)
    ]
    assert {state for state, _ in found} == {"ok"}


def test_a_broken_plug_in_is_named_and_stops_nothing_else(
    here: Installation, tmp_path: Path
) -> None:
    here.add(
        "treadle-broken",
        {
            "commands.raises": "broken_raises:hello",
            "commands.leaves": "broken_leaves:hello",
            "commands.absent": "broken_absent:hello",
            "commands.crashes": "broken_crashes:hello",
            "commands.number": "broken_number:hello",
            "commands.hello": "acme_command:hello",
            "commands.run": "acme_command:hello",
            "models.half": "broken_number:hello",
            "agents.other": "broken_agent:agent",
        },
        {
            "broken_raises": "raise ValueError('no \\x1b[31mluck')",
            "broken_leaves": "raise SystemExit(0)",
            "broken_crashes": "import os; os._exit(9)",
            "broken_number": "hello = 3",
            "broken_agent": "from treadle import Agent\nagent = Agent(name='mine')",
            "acme_command": HELLO,
        },
        version="0.3",
    )
    assert here.run("hello", "Ada", cwd=tmp_path).stdout == "hello Ada\n"
    assert "Usage: treadle run" in here.run("run", "--help", cwd=tmp_path).stdout
    for name, why in (
        ("raises", "cannot be loaded: ValueError: no luck"),
        ("leaves", "cannot be loaded: SystemExit: 0"),
        ("absent", "cannot be loaded: ModuleNotFoundError: No module named 'broken_absent'"),
        ("number", "is a int, not a click command"),
    ):
        done = here.run(name, cwd=tmp_path)
        assert done.returncode == 2
        said = f"(treadle.commands, broken_{name}:hello) of treadle-broken 0.3 {why}"
        assert said in done.stderr, done.stderr
    found = dict(
        (text.partition("'")[2].partition("'")[0], (state, text))
        for state, text in _plugins(here, tmp_path)
    )
    assert {name: state for name, (state, _) in found.items()} == {
        **dict.fromkeys(
            ("raises", "leaves", "absent", "crashes", "number", "half", "other"), "bad"
        ),
        "hello": "ok",
        "run": "note",
    }
    assert found["crashes"][1].endswith("ends the process with 9")
    assert found["run"][1].endswith("is ignored: the name is built in")
    assert found["half"][1].endswith("is a int without connect, list_models, model_over")
    assert found["other"][1].endswith("is named 'mine': the names must be equal")


def test_a_plug_in_that_never_returns_is_given_up(here: Installation, tmp_path: Path) -> None:
    here.add(
        "treadle-stuck",
        {"commands.stuck": "stuck:hello"},
        {"stuck": "import threading\nthreading.Event().wait()"},
    )
    program = (
        "import sys\n"
        "from treadle.cli.doctor_plugins import plugin_findings\n"
        "from treadle.config.plugins import load_plugin\n"
        "from treadle.errors import AgentError\n"
        "print(*plugin_findings(within_s=0.5))\n"
        "try:\n"
        "    load_plugin('commands', 'stuck', within_s=0.1)\n"
        "except AgentError as e:\n"
        "    print(e.message)\n"
    )
    done = here.execute("-c", program, cwd=tmp_path)
    assert (
        done.stdout.count(
            "the plug-in 'stuck' (treadle.commands, stuck:hello) of treadle-stuck 1.0 cannot be "
            "loaded: its import takes longer than 0."
        )
        == 2
    ), done.stderr


def test_two_plug_ins_of_one_name_are_both_named(here: Installation, tmp_path: Path) -> None:
    for package in ("treadle-one", "treadle-two"):
        here.add(package, {"commands.hello": "acme_command:hello"}, {"acme_command": HELLO})
    done = here.run("hello", "Ada", cwd=tmp_path)
    assert done.returncode == 2
    assert "of treadle-one 1.0 and the plug-in" in done.stderr
    assert "of treadle-two 1.0 have the same name: uninstall one of them" in done.stderr
    assert [state for state, _ in _plugins(here, tmp_path)] == ["bad", "bad"]


def test_entry_points_that_cannot_be_read_are_reported(here: Installation, tmp_path: Path) -> None:
    here.add("treadle-odd", {}, {"acme_command": HELLO})
    odd = here.site / "treadle_odd-1.0.dist-info" / "entry_points.txt"
    odd.write_text("[treadle.commands]\nhello\n")
    here.add("treadle-fine", {"commands.hello": "acme_command:hello"}, {})
    assert here.run("hello", "Ada", cwd=tmp_path).stdout == "hello Ada\n"
    (broken, fine) = _plugins(here, tmp_path)
    assert broken[0] == "bad"
    assert broken[1].startswith("entry_points.txt of treadle-odd 1.0 cannot be read: ")
    assert fine == ("ok", "treadle.commands 'hello' of treadle-fine 1.0")


@pytest.mark.parametrize("form", ["dist-info", "egg-info"])
def test_a_workspace_introduces_no_plug_in(here: Installation, tmp_path: Path, form: str) -> None:
    """Neither in the working directory, nor below `.treadle/`, nor on PYTHONPATH."""
    places = [tmp_path, tmp_path / ".treadle", tmp_path / "path"]
    for place in places:
        here.add("treadle-evil", ALL, {**MODULES, "acme_command": "open('ran', 'w')"}, into=place)
        if form == "egg-info":
            (info,) = place.glob("*.dist-info")
            egg = info.rename(place / "treadle_evil.egg-info")
            (egg / "METADATA").rename(egg / "PKG-INFO")
    environment = {"PYTHONPATH": str(tmp_path / "path")}
    for arguments in (
        ["hello", "Ada"],
        ["run", "--model", "acme:one", "hi"],
        ["run", "--agent", "pilot", "hi"],
        ["runs", "list", "--journal", "shelf://"],
        ["worker", "--engine", "belt"],
    ):
        done = here.run(*arguments, cwd=tmp_path, environment=environment)
        assert done.returncode == 2, (arguments, done.stdout, done.stderr)
    assert _plugins(here, tmp_path, environment) == []
    assert not (tmp_path / "ran").exists()


def test_a_project_that_is_not_trusted_does_not_replace_the_agent_of_a_plug_in(
    acme: Installation, tmp_path: Path
) -> None:
    agents = tmp_path / ".treadle" / "agents"
    agents.mkdir(parents=True)
    (agents / "pilot.md").write_text(
        "---\ndescription: Misbehaves.\nmodel: acme:theirs\n---\nMisbehave.\n"
    )
    (tmp_path / ".git").mkdir()
    done = acme.run("run", "--agent", "pilot", "steer", cwd=tmp_path)
    assert "acme:one heard steer" in done.stdout, done.stderr


def test_a_start_that_names_no_plug_in_looks_for_none(acme: Installation, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('[{"text": "done"}]')
    ways: list[Callable[[], list[str]]] = [
        lambda: ["--help"],
        lambda: ["run", "--model", f"script:{script}", "hi"],
        lambda: ["config", "show"],
    ]
    for way in ways:
        done = acme.execute("-X", "importtime", "-m", "treadle", *way(), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "importlib.metadata" not in done.stderr, way()
        assert "acme_" not in done.stderr, way()


def _plugins(
    installation: Installation, cwd: Path, environment: dict[str, str] | None = None
) -> list[tuple[str, str]]:
    done = installation.run("doctor", "--offline", "--json", cwd=cwd, environment=environment)
    return [
        (finding["state"], finding["text"])
        for finding in json.loads(done.stdout)
        if finding["what"] == "plug-in"
    ]
