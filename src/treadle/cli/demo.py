"""`treadle demo`: a scripted model uses the real loop and tools to fix a bug; then a run survives
kill -9.

The second half is in demo_crash.py. Entry points: `demo`.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import anyio
import click

from treadle.agents.agent import Agent
from treadle.cli.demo_crash import crash
from treadle.cli.demo_view import DemoView
from treadle.cli.echo import echo
from treadle.cli.exits import CommandFailed
from treadle.cli.help import HELP
from treadle.cli.run import follow
from treadle.config import load
from treadle.messages.result import RunResult
from treadle.models.providers.scripted import ScriptedModel
from treadle.runtime.runtime import Runtime
from treadle.tools.builtin.coding import default_tools
from treadle.types import Limits, Outcome

PROMPT = "The tests of this project fail. Find out why, fix it, and prove that it is fixed."
INTRO = """\
The model of this demo is scripted: what it says and asks for is fixed. Everything else is real:
the loop, the tools, the files in {}, and pytest.
"""
OUTRO = (
    "With a key, a real model does the same in your own project:\n  export ANTHROPIC_API_KEY=…\n "
    " treadle run --mode full {}"
)
KEPT = "The files are in {}; this shows the runs of part two:\n  TREADLE_HOME={} treadle runs list"
PYTEST = f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {shlex.quote(sys.executable)} -m pytest -q --tb=no"
"""pytest command without installed plugins, whose output would clutter the demo."""


@click.command(context_settings=HELP)
@click.option("--keep", is_flag=True, help="Keep the files of the demo.")
@click.option("--fast", is_flag=True, help="Skip the pauses that make it readable.")
def demo(keep: bool, fast: bool) -> None:
    """Watch an agent find and fix a bug in a small Python project and prove it; then watch a second
    run survive kill -9. Needs no key and no network.
    """
    if sys.platform == "win32":
        raise CommandFailed(
            "the demo needs bash, and a process that can be killed: run it on Linux, macOS or WSL"
        )
    folder = Path(tempfile.mkdtemp(prefix="treadle-demo-"))
    try:
        _mend(folder / "shop", fast)
        crash(folder / "orders", fast=fast)
        echo(OUTRO.format(shlex.quote(PROMPT)))
        if keep:
            echo(KEPT.format(folder, shlex.quote(str(folder / "orders" / "home"))))
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _mend(directory: Path, fast: bool) -> None:
    """Play the first half. Exits the process on cancellation; raises CommandFailed if it does not
    complete.
    """
    with as_file(files("treadle.cli").joinpath("demo_project")) as project:
        shutil.copytree(project, directory, ignore=shutil.ignore_patterns("__pycache__"))
    before = (directory / "cart.py").read_text(encoding="utf-8")
    click.secho("treadle demo", bold=True)
    echo(INTRO.format(directory))
    click.secho(f"> {PROMPT}\n", fg="cyan")
    result = anyio.run(_work, directory, fast)
    _show_change(before, (directory / "cart.py").read_text(encoding="utf-8"))
    if result.outcome is Outcome.CANCELLED:
        sys.exit(130)
    if not result.success or not _proved(result):
        raise CommandFailed(
            (f"the demo failed ({result.outcome.value}): {result.error or result.text}"),
            1,
        )


async def _work(directory: Path, fast: bool) -> RunResult[str]:
    model = ScriptedModel(script(0 if fast else 25), name="script:demo")
    agent = Agent(name="demo", instructions="Fix the project.", model=model, tools=default_tools())
    async with Runtime(config=load({}, files=False)) as runtime:
        stream = runtime.stream(agent, PROMPT, cwd=directory, limits=Limits(turns=20, seconds=120))
        await follow(stream, DemoView({PYTEST: "python -m pytest -q --tb=no"}).show)
    return stream.result


def script(delay_ms: float) -> list[dict[str, Any]]:
    """Return the model's script, with `delay_ms` between words."""
    pytest = {"name": "bash", "arguments": {"command": PYTEST}}
    edits = [
        {
            "old": "total = sum(price for _, price, _ in self.lines)",
            "new": "total = sum(price * quantity for _, price, quantity in self.lines)",
        },
        {"old": "if total > DISCOUNT_FROM_CENTS:", "new": "if total >= DISCOUNT_FROM_CENTS:"},
    ]
    entries: list[dict[str, Any]] = [
        {
            "text": "I'll list the files, and run the tests to see them fail.",
            "tool_calls": [{"name": "ls", "arguments": {"path": "."}}, pytest],
        },
        {
            "text": "Two tests fail, both about totals. I'll read the code and its tests.",
            "tool_calls": [
                {"name": "read", "arguments": {"path": name}}
                for name in ("cart.py", "test_cart.py")
            ],
        },
        {
            "reasoning": (
                "total_cents ignores the quantity, and the discount uses > where the docstring "
                "says 'at least'."
            ),
            "text": (
                "There are two bugs in total_cents: it leaves out the quantity, and the discount "
                "starts above 100.00 instead of at it."
            ),
            "tool_calls": [{"name": "edit", "arguments": {"path": "cart.py", "edits": edits}}],
        },
        {"text": "Both are fixed. To verify, I'll run the tests again.", "tool_calls": [pytest]},
        {
            "text": (
                "Fixed: total_cents now multiplies by the quantity, and the discount starts at "
                "exactly 100.00. All four tests pass."
            )
        },
    ]
    return [{**entry, "delay_ms": delay_ms} for entry in entries]


def _show_change(before: str, after: str) -> None:
    import difflib  # noqa: PLC0415  after the run, so that it delays nothing

    echo()
    for line in list(
        difflib.unified_diff(
            before.splitlines(),
            after.splitlines(),
            "cart.py, before",
            "cart.py, after",
            lineterm="",
            n=1,
        )
    ):
        click.secho(
            line, fg="green" if line.startswith("+") else "red" if line.startswith("-") else None
        )
    echo()


def _proved(result: RunResult[Any]) -> bool:
    """Return True if pytest's output shows that the first test run failed and the last one
    passed.
    """
    runs = [r.text for m in result.messages for r in m.tool_results if r.name == "bash"]
    return len(runs) == 2 and "2 failed, 2 passed" in runs[0] and "4 passed" in runs[1]
