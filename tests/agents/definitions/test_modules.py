"""Python modules of the configuration: what stands in them by name is there, and what goes wrong is
said with file and line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.definitions.defined import HEAD, Defined
from tests.projects import written
from treadle import AgentError
from treadle.agents.definitions import import_modules
from treadle.config.values import DEFAULT

GOOD = '''
from treadle import Agent, tool


@tool(effect="pure")
async def shout(text: str) -> str:
    """Shouts."""
    return text.upper()


print("said while it is imported")
loud = Agent(name="loud", description="Is loud", tools=[shout])
again = loud
_hidden = Agent(name="hidden")
'''


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where modules are found, and forgotten after the test."""
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if name.startswith("treadle_test_"):
            del sys.modules[name]


def test_agents_and_tools_of_a_module_are_there_by_name(
    defined: Defined, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(place / "treadle_test_good.py", GOOD)
    defined.own_says("guide.md", f"{HEAD}tools: [shout, read]\n---\n")
    catalog = defined.catalog("agents: [treadle_test_good]\n")
    assert catalog.problems() == []
    assert catalog.names() == ["guide", "loud"]
    assert [one.name for one in catalog.agent("guide").own_tools] == ["shout", "read"]
    assert catalog.agent("loud") is sys.modules["treadle_test_good"].loud
    assert {agent.name for agent in catalog.made()} == {"guide", "loud"}
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "said while it is imported\n")


def test_hooks_of_a_module_are_there_once_each_in_their_order(place: Path) -> None:
    written(
        place / "treadle_test_hooks.py",
        "from treadle import Hook\n\n\nclass Guard(Hook):\n    pass\n\n\nfirst, second = Guard(), Guard()\nagain = first\n",
    )
    written(place / "treadle_test_more.py", "from treadle_test_hooks import second\n")
    modules = import_modules(["treadle_test_hooks", "treadle_test_more"], DEFAULT)
    brought = sys.modules["treadle_test_hooks"]
    assert modules.hooks == [brought.first, brought.second]
    assert modules.problems == []


def test_no_module_is_imported_before_anything_is_asked(defined: Defined, place: Path) -> None:
    written(place / "treadle_test_lazy.py", "raise SystemExit(1)\n")
    catalog = defined.catalog("agents: [treadle_test_lazy]\n")
    assert "treadle_test_lazy" not in sys.modules
    assert len(catalog.problems()) == 1


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("\nx = 1 / 0\n", 2, "ZeroDivisionError: division by zero"),
        (
            "from treadle import Agent\n\nbad = Agent(name='two words')\n",
            3,
            "AgentError: 'two words' is not a valid agent name",
        ),
        ("def f(:\n    pass\n", 1, "SyntaxError"),
        (
            "import treadle_test_nowhere\n",
            1,
            "ModuleNotFoundError: No module named 'treadle_test_nowhere'",
        ),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
        ("import json\n\n\njson.loads('{')\n", 4, "JSONDecodeError"),
    ],
)
def test_a_module_that_fails_is_told_with_the_line_that_failed(
    defined: Defined, place: Path, text: str, line: int, said: str
) -> None:
    path = written(place / "treadle_test_bad.py", text)
    (problem,) = defined.catalog("agents: [treadle_test_bad]\n").problems()
    assert problem.text.startswith(f"the module 'treadle_test_bad' cannot be imported: {said}")
    assert (problem.place, problem.line) == (str(path), line)


def test_a_module_that_is_not_there_is_told_where_it_was_named(defined: Defined) -> None:
    (problem,) = defined.catalog("models: {}\nagents: [treadle_test_nowhere.agents]\n").problems()
    assert (problem.place, problem.line) == (str(defined.own / "config.yaml"), 2)
    assert "there is no 'treadle_test_nowhere'" in problem.text
    assert "PYTHONPATH" in problem.text


def test_an_agent_is_not_run_while_a_module_is_broken(defined: Defined, place: Path) -> None:
    written(place / "treadle_test_bad.py", "x = 1 / 0\n")
    defined.own_says("guide.md", f"{HEAD}---\n")
    catalog = defined.catalog("agents: [treadle_test_bad]\n")
    with pytest.raises(AgentError, match="cannot be imported: ZeroDivisionError"):
        catalog.agent("guide")
    with pytest.raises(AgentError, match="cannot be imported: ZeroDivisionError"):
        catalog.agent("of_the_module")


def test_two_of_one_name_are_refused(defined: Defined, place: Path) -> None:
    written(place / "treadle_test_one.py", "from treadle import Agent\na = Agent(name='loud')\n")
    written(
        place / "treadle_test_two.py",
        "from treadle import Agent\na = Agent(name='loud')\nb = Agent(name='quiet')\nc = Agent(name='quiet')\n",
    )
    problems = defined.catalog("agents: [treadle_test_one, treadle_test_two]\n").problems()
    assert [str(problem) for problem in problems] == [
        "treadle_test_two: the agent 'loud' is in treadle_test_one too: names must be unique; rename one",
        "treadle_test_two: the agent 'quiet' is twice: names must be unique; rename one",
    ]


def test_what_one_module_takes_from_another_is_one(defined: Defined, place: Path) -> None:
    written(place / "treadle_test_one.py", "from treadle import Agent\na = Agent(name='loud')\n")
    written(place / "treadle_test_two.py", "from treadle_test_one import a\n")
    assert defined.catalog("agents: [treadle_test_one, treadle_test_two]\n").problems() == []


def test_a_file_and_a_module_cannot_define_one_name(defined: Defined, place: Path) -> None:
    written(place / "treadle_test_one.py", "from treadle import Agent\na = Agent(name='loud')\n")
    path = defined.project_says("loud.md", f"{HEAD}---\n")
    (problem,) = defined.catalog("agents: [treadle_test_one]\n").problems()
    assert (
        str(problem)
        == f"{path}:1: two agents are named 'loud', this one and one of treadle_test_one: rename one"
    )


def test_a_project_that_nobody_trusts_imports_nothing(defined: Defined, place: Path) -> None:
    written(place / "treadle_test_evil.py", "raise AssertionError('imported')\n")
    defined.says(".treadle/config.yaml", "agents: [treadle_test_evil]\n")
    assert defined.catalog(trusted=False).problems() == []
    defined.trust()
    assert len(defined.catalog().problems()) == 1
