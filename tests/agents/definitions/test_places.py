"""Where definitions lie, and which of several of one name counts."""

from __future__ import annotations

import pytest

from tests.agents.definitions.defined import HEAD, Defined
from tests.projects import written
from treadle import AgentError

TEXT = f"{HEAD}---\nHello.\n"


def test_the_project_and_the_persons_own_folder_define_agents(defined: Defined) -> None:
    defined.own_says("mine.md", TEXT)
    defined.project_says("ours.yaml", "description: x\n")
    written(defined.here / ".treadle" / "agents" / "near.yml", "description: x\n")
    catalog = defined.catalog()
    assert catalog.names() == ["mine", "near", "ours"]
    assert catalog.problems() == []


def test_of_one_name_in_a_project_the_nearest_counts(defined: Defined) -> None:
    project = defined.project_says("guide.md", f"{HEAD}---\nProject.\n")
    near = written(
        defined.here / ".treadle" / "agents" / "guide.yaml", "description: x\ninstructions: Near.\n"
    )
    catalog = defined.catalog()
    assert catalog.agent("guide").instructions == "Near."
    assert [(file.path, by) for file, by in catalog.found.hidden] == [(project, near)]
    assert catalog.hidden() == [f"guide: {near} replaces {project}, which is farther away"]


@pytest.mark.parametrize("trusted", [False, True])
def test_the_users_own_agent_keeps_its_name_whatever_a_project_defines(
    defined: Defined, trusted: bool
) -> None:
    own = defined.own_says("guide.md", f"{HEAD}---\nOwn.\n")
    project = defined.project_says("guide.md", f"{HEAD}---\nProject.\n")
    catalog = defined.catalog(trusted=trusted)
    catalog.name("guide")
    assert catalog.agent("guide").instructions == "Own."
    assert catalog.hidden() == [
        f"guide: {own} replaces {project}, because your own takes precedence: rename one to use both"
    ]


def test_an_untrusted_project_defines_nothing_and_breaks_nothing(defined: Defined) -> None:
    defined.own_says("mine.md", f"{HEAD}tools: [read, twice]\n---\nMine.\n")
    defined.own_says("twice.md", TEXT)
    for name in ("theirs.md", "read.md", "twice.md", "twice.yaml", "mine.yaml", "two words.md"):
        defined.project_says(name, TEXT)
    catalog = defined.catalog(trusted=False)
    assert catalog.names() == ["mine", "twice"]
    assert catalog.problems() == []
    with pytest.raises(
        AgentError,
        match=r"'theirs' is an agent of .*, which is not trusted: look at .*theirs\.md, then: treadle trust",
    ):
        catalog.agent("theirs")


def test_a_name_that_two_own_files_share_is_not_given_to_a_project(defined: Defined) -> None:
    for ending in ("md", "yaml"):
        defined.own_says(f"guide.{ending}", TEXT)
    defined.project_says("guide.md", f"{HEAD}---\nTheirs.\n")
    catalog = defined.catalog(trusted=False)
    catalog.admit_all()
    assert "guide" not in catalog.found.files
    with pytest.raises(AgentError, match=r"guide\.md and guide\.yaml both define"):
        catalog.agent("guide")


def test_a_users_own_agent_calls_no_agent_of_an_untrusted_project(defined: Defined) -> None:
    own = defined.own_says("mine.md", f"{HEAD}tools: [theirs]\n---\nMine.\n")
    defined.project_says("theirs.md", TEXT)
    catalog = defined.catalog(trusted=False)
    catalog.name("mine")
    (problem,) = catalog.problems("mine")
    assert str(problem).startswith(
        f"{own}:3: tools: 'theirs' is an agent of {defined.root}, which is not trusted"
    )


def test_an_agent_of_an_untrusted_project_runs_where_a_person_names_it(defined: Defined) -> None:
    path = defined.project_says("theirs.md", f"{HEAD}tools: [helper]\n---\nTheirs.\n")
    defined.project_says("helper.md", TEXT)
    catalog = defined.catalog(trusted=False)
    catalog.name("theirs")
    assert catalog.agent("theirs").instructions == "Theirs."
    (remark,) = catalog.remarks("theirs")
    assert remark.startswith(
        f"{path}: the agent 'theirs' runs because you named it; {defined.root} is not trusted"
    )


def test_a_definition_that_changes_after_the_look_is_refused(defined: Defined) -> None:
    path = defined.project_says("theirs.md", TEXT)
    catalog = defined.catalog()
    path.write_text(f"{HEAD}---\nObey me.\n")
    (problem,) = catalog.problems("theirs")
    assert (
        str(problem)
        == f"{path}:1: has changed since you trusted it: review it, then run: treadle trust {defined.root}"
    )


def test_two_files_of_one_name_in_one_folder_are_refused_with_both(defined: Defined) -> None:
    path = defined.project_says("guide.md", TEXT)
    defined.project_says("guide.yaml", "description: x\n")
    (problem,) = defined.catalog().problems()
    assert (
        str(problem)
        == f"{path}:1: guide.md and guide.yaml both define the agent 'guide': keep one of them"
    )
    with pytest.raises(AgentError, match=r"guide\.md and guide\.yaml"):
        defined.catalog().agent("guide")


def test_an_own_folder_that_is_also_a_projects_is_the_persons_own(defined: Defined) -> None:
    (defined.home / ".git").mkdir()
    defined.own_says("guide.md", TEXT)
    from treadle.agents.definitions import Catalog
    from treadle.config import load

    catalog = Catalog(load({"HOME": str(defined.home)}, cwd=defined.home), defined.home)
    assert catalog.found.files["guide"].root is None
    assert catalog.found.hidden == []


def test_other_files_of_the_folder_define_nothing(defined: Defined) -> None:
    for name in ("notes.txt", "_draft.md", ".hidden.md", "guide.md~", "folder.md/x.md"):
        defined.project_says(name, "nothing of the kind")
    assert defined.catalog().names() == []


@pytest.mark.parametrize("name", ["two words", "ünder", "-x", "a" * 65])
def test_a_file_whose_name_is_none_for_an_agent_is_refused(defined: Defined, name: str) -> None:
    assert "is not a valid agent name" in defined.wrong(TEXT, f"{name}.md")[0]


def test_the_name_of_the_coding_assistant_is_taken(defined: Defined) -> None:
    assert defined.wrong(TEXT, "treadle.md") == [
        "1: 'treadle' is the name of the coding assistant: give the file another one"
    ]


def test_an_unknown_agent_is_refused_with_the_nearest(defined: Defined) -> None:
    with pytest.raises(
        AgentError, match=r"there is no agent 'guide': none is defined here: `treadle init`"
    ):
        defined.catalog().agent("guide")
    defined.project_says("guide.md", TEXT)
    with pytest.raises(AgentError, match="there is no agent 'gide': did you mean 'guide'"):
        defined.catalog().agent("gide")
    with pytest.raises(AgentError, match="there is no agent 'xyz': there are guide"):
        defined.catalog().agent("xyz")


def test_a_file_from_elsewhere_is_looked_at_as_if_it_lay_here(defined: Defined) -> None:
    defined.project_says("helper.md", TEXT)
    elsewhere = written(defined.home / "guide.md", f"{HEAD}tools: [helper, reed]\n---\n")
    catalog = defined.catalog()
    assert catalog.add(elsewhere) == "guide"
    assert [str(problem) for problem in catalog.problems("guide")] == [
        f"{elsewhere}:3: tools: there is no tool 'reed': did you mean 'read'?"
    ]


def test_a_name_with_line_breaks_and_marks_is_told_in_one_line(defined: Defined) -> None:
    defined.project_says("two\nlines\u202e.md", TEXT)
    (problem,) = defined.catalog().problems()
    assert "two\\nlines\\u202e.md:1: " in str(problem)
    assert len(str(problem).splitlines()) == 1
