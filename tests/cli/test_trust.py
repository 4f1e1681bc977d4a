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
        f"trusted in its current state: {project.workspace}",
        "  .treadle/config.yaml  names agent modules and MCP servers, which are executed (15 "
        "bytes)",
        "      agents: mine",
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
    assert (revoked.code, revoked.out) == (0, f"no longer trusted: {project.workspace}\n")
    again = project("trust", "--revoke")
    assert again.code == 2
    assert "was not trusted" in again.err


def test_what_cannot_be_seen_is_told(project: Cli) -> None:
    (project.workspace / "AGENTS.md").write_text("Use tabs.\nAnd \u200bobey.\n", encoding="utf-8")
    assert (
        "! AGENTS.md:2: contains invisible characters that a model reads, such as U+200B"
        in project("trust").err
    )


def test_a_run_says_once_what_voided_the_trust(project: Cli) -> None:
    project("trust")
    (project.workspace / ".treadle" / "config.yaml").write_text("agents: [theirs]\n")
    answer = project("run", "hello", "--model", project.script({"text": "Hi."}))
    assert answer.code == 0
    assert answer.err.count("is no longer trusted") == 1
    assert "'.treadle/config.yaml' has changed" in answer.err


def test_a_folder_that_is_not_there_is_wrong_use(cli: Cli) -> None:
    answer = cli("trust", "nowhere")
    assert (answer.code, answer.err) == (2, "treadle: 'nowhere' is not a directory\n")


def test_a_project_with_nothing_of_its_own_says_so(cli: Cli) -> None:
    answer = cli("trust")
    assert answer.code == 0
    assert "It has no configuration yet" in answer.out


def test_agents_skills_and_servers_are_shown_with_what_they_say_of_themselves(project: Cli) -> None:
    folder = project.workspace / ".treadle"
    (folder / "agents").mkdir()
    (folder / "agents" / "rev\niewer.md").write_text(
        "---\ndescription: Reviews\u202e all\ntools: [read, bash]\n---\nDo.\n", encoding="utf-8"
    )
    (folder / "agents" / "broken.md").write_text("no keys")
    (folder / "skills" / "ship").mkdir(parents=True)
    (folder / "skills" / "ship" / "SKILL.md").write_text(
        "---\nname: ship\ndescription: Ships\x1b[2J it\n---\n", encoding="utf-8"
    )
    (folder / "config.yaml").write_text("mcp_servers: {evil: {command: [sh, -c, id]}}\n")
    answer = project("trust", "--show")
    lines = [line.strip() for line in answer.out.splitlines()]
    assert lines[0] == f"would be trusted in its current state: {project.workspace}"
    assert lines[lines.index("tools: read bash") - 1] == "description: Reviews\\u202e all"
    assert any(
        line.startswith(".treadle/agents/rev\\niewer.md")
        and "is an agent, which is offered to the model" in line
        for line in lines
    )
    assert any(
        line.startswith("(its keys cannot be read: line 1: must begin with a line `---`")
        for line in lines
    )
    assert "description: Ships\\x1b[2J it" in answer.out or "its keys cannot be read" in answer.out
    assert "mcp_servers.evil.command: sh -c id" in lines
    assert project("trust", "--list").err == "no project is trusted\n"


def test_a_definition_that_comes_changes_or_goes_voids_the_trust(project: Cli) -> None:
    project("trust")
    agents = project.workspace / ".treadle" / "agents"
    agents.mkdir()
    (agents / "new.md").write_text("---\ndescription: Obey\n---\n")
    assert "'.treadle/agents/new.md' is new" in project("trust", "--list").out
    project("trust")
    (agents / "new.md").write_text("---\ndescription: Obey me\n---\n")
    assert "'.treadle/agents/new.md' has changed" in project("trust", "--list").out


@pytest.mark.parametrize(
    "place", ["x.treadle/skills", "a/skills", ".treadle/skills/ship", "commands"]
)
def test_a_configuration_is_one_wherever_it_lies(project: Cli, place: str) -> None:
    folder = project.workspace / place / ".treadle"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("mcp_servers: {evil: {command: [sh, -c, 'touch x']}}\n")
    out = project("trust", "--show").out
    assert f"{place}/.treadle/config.yaml" in out
    assert "mcp_servers.evil.command: sh -c 'touch x'" in out
    assert out.count("names agent modules and MCP servers") == 2
    assert "is not used" not in out


def test_everything_that_runs_is_shown_and_nothing_is_cut(project: Cli) -> None:
    config = project.workspace / ".treadle" / "config.yaml"
    long = "x" * 400
    docs = f'{{command: [bash, -c, "{long}; id\\n  end", a b], env: {{LD_PRELOAD: ./x.so}}}}'
    config.write_text(
        f"agents: [one, {long}.py, evil.py]\nmcp_servers:\n  docs: {docs}\n  far: {{url: https://far.example, headers: {{X-To: '1'}}}}\n"
    )
    lines = [line.strip() for line in project("trust", "--show").out.splitlines()]
    assert lines[2:10] == [
        "agents: one",
        f"agents: {long}.py",
        "agents: evil.py",
        f"mcp_servers.docs.command: bash -c '{long}; id\\n  end' 'a b'",
        "mcp_servers.docs.env.LD_PRELOAD: ./x.so",
        "mcp_servers.far.url: https://far.example",
        "mcp_servers.far.headers.X-To: 1",
        "AGENTS.md             instructs the model (10 bytes)",
    ]


@pytest.mark.parametrize(
    "unseen",
    [
        "\ufeff",
        "\uffa0",
        "\U0001d173",
        "\U0001bca0",
        "\x1b",
        "\r",
        "\b",
        "\u2028",
        "\u3164",
        "\u2800",
        "\ufe01",
        "\U000e0041",
    ],
)
def test_every_kind_of_what_cannot_be_seen_is_told(project: Cli, unseen: str) -> None:
    (project.workspace / "AGENTS.md").write_text(
        f"Use\ttabs \u2764\ufe0f.\r\nAnd {unseen}obey.\r\n", encoding="utf-8", newline=""
    )
    assert (
        f"! AGENTS.md:2: contains invisible characters that a model reads, such as "
        f"U+{ord(unseen):04X}" in project("trust").err
    )


def test_what_can_be_seen_is_not_warned_of(project: Cli) -> None:
    (project.workspace / "AGENTS.md").write_text(
        "\ufeffUse\ttabs \u2764\ufe0f, \u00fc and \u4e2d.\r\n", encoding="utf-8", newline=""
    )
    assert "cannot see" not in project("trust").err
