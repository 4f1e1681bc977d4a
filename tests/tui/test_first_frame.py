"""What the first frame does not wait for: all that is only needed once somebody has said something."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOREIGN = {
    "rich",
    "pygments",
    "markdown_it",
    "aiohttp",
    "sqlite3",
    "apsw",
    "anthropic",
    "mcp",
    "pydantic",
}
HEART = {
    "treadle.runtime.runtime",
    "treadle.runs",
    "treadle.session",
    "treadle.loop",
    "treadle.policy.sandboxes",
    "treadle.models.providers.anthropic",
    "treadle.tools.builtin.coding",
}
LATER = {
    f"treadle.tui.{name}"
    for name in (
        "chat",
        "transcript",
        "blocks",
        "drawing",
        "markdown",
        "growing",
        "viewer",
        "picker",
        "wizard",
    )
}
FRAME = """
import sys
import treadle.cli.chat
from dataclasses import fields
from pathlib import Path
from treadle.config import load
from treadle.tui import start

async def draw(beginning):
    app = beginning._screen._app
    app.before_render.fire()
    app.renderer.render(app, app.layout)
    app.output.flush()
    print("\\nloaded:", *sys.modules)

start._Beginning.run = draw
given = dict.fromkeys((field.name for field in fields(start.StartRequest)), None)  # what is called later is not called here
start.chat(start.StartRequest(**{**given, "config": load(cwd=Path.cwd()), "cwd": Path.cwd()}))
"""


def test_the_first_frame_is_drawn_without_what_comes_later(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": "", "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-c", FRAME],
        env=env,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    frame, _, loaded = done.stdout.rpartition("loaded: ")
    assert "describe a task" in frame
    assert sorted((FOREIGN | HEART | LATER) & set(loaded.split())) == []
