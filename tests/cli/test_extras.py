"""Without an extra, one sentence says which command installs it. tests/base_install.py tries the
real base install.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from treadle import AgentError
from treadle.config.serving import Schedule
from treadle.policy.shell.syntax import parse
from treadle.tools.builtin.coding import default_tools
from treadle.workers.schedules import Timetable

WITHOUT = "import sys; sys.modules[{!r}] = None; sys.argv[1:] = {!r}; from treadle.cli import main; main()"


def test_the_command_line_names_its_extra() -> None:
    program = WITHOUT.format("click", ["run", "Hello"])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "treadle: the command line needs click, which is not installed: pip install "
        "'treadle[cli]'\n"
    )


def test_the_version_needs_no_extra() -> None:
    program = WITHOUT.format("click", ["--version"])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("package", ["pathspec", "tree_sitter", "tree_sitter_bash"])
def test_the_coding_tools_name_their_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(AgentError) as told:
        default_tools()
    assert told.value.message == f"the coding tools need {package}: pip install 'treadle[coding]'"


def test_a_command_that_cannot_be_read_is_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter", None)
    script = parse("ls", "/home/ada")
    assert not script.is_whole
    assert script.problems == [
        "it cannot be parsed without tree_sitter: pip install 'treadle[coding]'"
    ]


def test_a_schedule_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)
    schedule = Schedule(agent="a", prompt="b", cron="0 3 * * *")
    with pytest.raises(AgentError, match=r"pip install 'treadle\[cli\]'"):
        Timetable("nightly", schedule)
