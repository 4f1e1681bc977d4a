"""Names and texts of an untrusted project on every command that shows them: nothing that a terminal
obeys, and nothing that hides or turns text.
"""

from __future__ import annotations

import json

import pytest

from tests.attacks import SEEDS, chance
from tests.attacks.names import CLIPBOARD, MARKUP, hostile, leaks
from tests.cli.conftest import Cli
from tests.cli.conftest import cli as cli
from treadle._internal.terminal_text import json_shown
from treadle.apps.batch.markdown import _section  # pyright: ignore[reportPrivateUsage]  what is said of one prompt
from treadle.apps.batch.report import ReportRow

COMMANDS = (
    ("agents", "list"),
    ("agents", "check"),
    ("agents", "show", "NAME"),
    ("run", "hello", "--agent", "NAME", "--model", "MODEL"),
    ("config", "path", "--cwd", "FOLDER"),
    ("config", "show", "--cwd", "FOLDER"),
    ("config", "check"),
    ("run", "hello", "--cwd", "FOLDER/none"),
    ("runs", "show", "NAME"),
    ("trust", "--show"),
    ("models", "list", "--provider", "NAME"),
    ("policy", "check", "NAME"),
)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_command_lets_a_name_of_a_project_command_the_terminal(cli: Cli, seed: int) -> None:
    random = chance(seed, "outputs")
    name = f"a{CLIPBOARD}{hostile(random, path=True)}"
    folder = cli.workspace / name
    agents = cli.workspace / ".treadle" / "agents"
    agents.mkdir(parents=True)
    folder.mkdir()
    (agents / f"{name}.md").write_text(f"---\ndescription: {json.dumps(name)}\n---\n{name}\n")
    (cli.workspace / ".treadle" / "config.yaml").write_text(f"{json.dumps(name)}: 1\n")
    model = cli.script({"text": name})
    for command in COMMANDS:
        words = [
            word.replace("NAME", name).replace("FOLDER", str(folder)).replace("MODEL", model)
            for word in command
        ]
        done = cli(*words)
        out = "" if command[0] == "run" else done.out  # an answer goes into a pipe as it was said
        assert leaks(out + done.err) == "", command


@pytest.mark.parametrize("seed", SEEDS)
def test_json_for_a_terminal_has_the_same_value(seed: int) -> None:
    value = {hostile(chance(seed, "json"), lines=True): hostile(chance(seed, "json-value"))}
    shown = json_shown(json.dumps(value, ensure_ascii=False, indent=2))
    assert leaks(shown) == ""
    assert json.loads(shown) == value


def test_a_command_with_json_escapes_what_a_terminal_would_obey(cli: Cli) -> None:
    prompt = "say \x9b31m\u202e\x7f"
    assert cli("run", prompt, "--model", cli.script({"text": "hi"})).code == 0
    assert leaks(cli("runs", "list", "--json").out) == ""


@pytest.mark.parametrize("text", [*MARKUP, "```\n![](http://evil.example/)\n```"])
def test_a_report_renders_nothing_of_a_model(text: str) -> None:
    """Outside of a fence that is longer than any in the text there is no word of it."""
    lines = [*_section(ReportRow(number=1, prompt=text, error=text, text=text))]
    begin = next(n for n, line in enumerate(lines) if line.endswith("text") and line[:3] == "```")
    fence = lines[begin].removesuffix("text")
    assert lines[-1] == fence
    assert fence not in text
    head = "\n".join(lines[:begin])
    assert "![" not in head.replace(r"\!", "")
    assert "@" not in head
    assert "<" not in head.replace(r"\<", "")
