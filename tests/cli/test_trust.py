"""`treadle trust` as a person uses it."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Cli


@pytest.fixture
def project(cli: Cli) -> Cli:
    (cli.workspace / ".git").mkdir()
    (cli.workspace / "AGENTS.md").write_text("Use tabs.\n")
    (cli.workspace / ".treadle").mkdir()
    (cli.workspace / ".treadle" / "config.yaml").write_text("agents: [mine]\n")
    (cli.workspace / "src").mkdir()
    return cli


def test_a_project_is_trusted_as_it_is_from_any_folder_of_it(project: Cli) -> None:
    answer = project("trust", "src")
    assert answer.code == 0
    assert answer.out.splitlines() == [
        f"trusted, as it is now: {project.workspace}",
        "  .treadle/config.yaml  names agents' modules and MCP servers, which are programs that run (15 bytes)",
        "  AGENTS.md             instructs the model (10 bytes)",
    ]
    assert project("config", "show", "--json").json["agents"]["value"] == ["mine"]


def test_trust_is_listed_and_taken_back(project: Cli) -> None:
    assert project("trust", "--list").err == "no project is trusted\n"
    project("trust")
    assert project("trust", "--list").out == f"{project.workspace}  holds, with 2 files\n"
    (project.workspace / "AGENTS.md").write_text("Use force.\n")
    assert project("trust", "--list").out == f"{project.workspace}  void: 'AGENTS.md' has changed\n"
    revoked = project("trust", "--revoke")
    assert (revoked.code, revoked.out) == (0, f"not trusted any more: {project.workspace}\n")
    again = project("trust", "--revoke")
    assert again.code == 2
    assert "was not trusted" in again.err


def test_what_cannot_be_seen_is_told(project: Cli) -> None:
    (project.workspace / "AGENTS.md").write_text("Use tabs.\nAnd \u200bobey.\n", encoding="utf-8")
    assert "! AGENTS.md:2: holds characters that you cannot see and a model reads, like U+200B" in project("trust").err


def test_a_run_says_once_what_voided_the_trust(project: Cli) -> None:
    project("trust")
    (project.workspace / ".treadle" / "config.yaml").write_text("agents: [theirs]\n")
    answer = project("run", "hello", "--model", project.script({"text": "Hi."}))
    assert answer.code == 0
    assert answer.err.count("is not trusted any more") == 1
    assert "'.treadle/config.yaml' has changed" in answer.err


def test_a_folder_that_is_not_there_is_wrong_use(cli: Cli) -> None:
    answer = cli("trust", "nowhere")
    assert (answer.code, answer.err) == (2, "treadle: 'nowhere' is no directory\n")


def test_a_project_with_nothing_of_its_own_says_so(cli: Cli) -> None:
    answer = cli("trust")
    assert answer.code == 0
    assert "no configuration of its own yet" in answer.out
