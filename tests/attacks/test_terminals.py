"""Everything that a model, a tool, a session and a prompt can say, on a terminal: no command lets it
command the terminal, in text or as JSON (C1).
"""

from __future__ import annotations

import json
import os
from random import Random

import pytest

from tests.attacks import SEEDS, chance
from tests.attacks.names import hostile, leaks
from tests.cli.conftest import Cli
from tests.cli.conftest import cli as cli
from tests.fork_server import fork_server
from treadle.journal.session_names import is_id

RUN = ("run", "PROMPT", "--model", "MODEL", "--mode", "full", "--session", "SESSION")
COMMANDS = (
    RUN,
    (*RUN, "--output", "json"),
    (*RUN, "--output", "stream-json"),
    (*RUN, "--verbose"),
    *(
        (*words, "--json")
        for words in (("runs", "list"), ("runs", "show", "last"), ("runs", "cost"))
    ),
    *(
        (*words, "--json")
        for words in (("sessions", "list"), ("tools", "list"), ("agents", "list"))
    ),
    ("runs", "list"),
    ("runs", "show", "last"),
    ("runs", "show", "last", "--verbose"),
    ("runs", "export", "last"),
    ("runs", "replay", "last"),
    ("runs", "replay", "last", "--output", "stream-json"),
    ("runs", "diff", "last", "last"),
    ("runs", "fork", "last", "--turn", "1", "--text", "PROMPT", "--model", "MODEL"),
    ("runs", "undo", "last"),
    ("runs", "cost"),
    ("sessions", "list"),
    ("sessions", "search", "readme"),
    ("sessions", "export", "SESSION"),
    ("sessions", "export", "SESSION", "--format", "markdown"),
    ("config", "show", "--json"),
)


def on_a_terminal(cli: Cli, *arguments: str) -> str:
    """Return what the command writes on a terminal."""
    master, slave = os.openpty()
    environment = cli.environment(TERM="dumb", COLUMNS="90")
    child = fork_server().start(
        arguments, cwd=cli.workspace, environment=environment, streams=[slave] * 3
    )
    os.close(slave)
    said = b""
    with open(master, "rb", buffering=0) as terminal:
        try:
            while piece := terminal.read(65_536):
                said += piece
        except OSError:  # the other side was closed
            pass
    assert child.wait(50) is not None
    return said.decode("utf-8", "replace").replace("\r\n", "\n")


def prepared(cli: Cli, random: Random) -> dict[str, str]:
    """Run hostile things once, and return the words that stand for them."""
    file = f"{hostile(random, path=True)}.txt"
    (cli.workspace / file).write_text(hostile(random, lines=True))
    agents = cli.workspace / ".treadle" / "agents"
    agents.mkdir(parents=True)
    (agents / "a.md").write_text(f"---\ndescription: {json.dumps(hostile(random))}\n---\nHello.\n")
    calls = [
        {"name": "read", "arguments": {"path": file}},
        {"name": "write", "arguments": {"path": f"new{file}", "content": hostile(random)}},
        {"name": hostile(random), "arguments": {hostile(random): hostile(random)}},
    ]
    said = ({"text": hostile(random, lines=True), "tool_calls": calls}, {"text": hostile(random)})
    return {
        "PROMPT": hostile(random),
        "SESSION": random.choice(["s", "s", f"s{hostile(random)}"]),
        "MODEL": cli.script(*said),
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_a_run_says_commands_the_terminal(cli: Cli, seed: int) -> None:
    random = chance(seed, "terminals")
    words = prepared(cli, random)
    begun = cli(*(words.get(word, word) for word in RUN))
    assert begun.code == (0 if is_id(words["SESSION"]) else 2), begun
    for command in random.sample(COMMANDS, 3):
        shown = on_a_terminal(cli, *(words.get(word, word) for word in command))
        assert leaks(shown) == "", (command, shown)
        assert "Traceback" not in shown
