"""The gate before each call of a tool: mode, effect, approval, rules and what the call touches
decide, and nothing else.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest

from treadle.config.rules import Rules
from treadle.models.model import ToolDefinition
from treadle.policy.permissions import Permissions
from treadle.policy.policy import Decision, decide, headless_denial, without_sandbox
from treadle.tools.tool import Tool, Touched
from treadle.types import Effect, Mode

WHERE = {
    "a file inside": "src/new.py",
    "the folder itself": ".",
    "inside by a detour": "src/../notes.txt",
    "a link to inside": "link-inside/new.py",
    "outside, absolute": "/srv/passwd",
    "outside by dots": "../outside.txt",
    "a sibling with the same beginning": "../project-two/x",
    "a link to outside": "link-outside/new.py",
    "a link to a file outside": "link-file",
    "a dangling link to outside": "link-dangling",
    "a link that leads to itself": "link-loop",
    "no path at all": "a\0b",
}
INSIDE = {"a file inside", "the folder itself", "inside by a detour", "a link to inside"}


class Gated:
    """A tool that can change the files it is told."""

    def __init__(
        self,
        effect: Effect,
        *,
        needs_approval: bool = False,
        touches: Callable[[], Any] = lambda: None,
        name: str = "change",
    ) -> None:
        self.definition = ToolDefinition(name=name, description="", parameters={})
        self.name = name
        self.effect: Effect = effect
        self.needs_approval = needs_approval
        self.parallel, self.timeout_s, self.max_output = True, None, 1_000
        self._touches = touches

    def parse(self, arguments_json: str) -> object:
        return arguments_json

    def touches(self, arguments: Any, cwd: Path) -> Any:
        return self._touches()

    async def execute(self, ctx: object, arguments: object) -> str:
        raise AssertionError("the policy never runs a tool")

    async def probe(self, ctx: object, arguments: object) -> None:
        raise AssertionError("the policy never asks what happened")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with links in and out, itself reached through a link."""
    real, outside = tmp_path / "project", tmp_path / "project-two"
    for folder in (real / "src", outside):
        folder.mkdir(parents=True)
    (tmp_path / "outside.txt").write_text("x")
    (real / "link-inside").symlink_to(real / "src")
    (real / "link-outside").symlink_to(outside)
    (real / "link-file").symlink_to(tmp_path / "outside.txt")
    (real / "link-dangling").symlink_to(tmp_path / "not-there-yet")
    (real / "link-loop").symlink_to(real / "link-loop")
    alias = tmp_path / "alias"
    alias.symlink_to(real)
    return alias


def verdict(mode: Mode, tool: Gated, cwd: Path, **rules: Sequence[str]) -> str:
    typed: Tool[Any] = tool
    return decide(
        mode, typed, {}, cwd, Permissions(rules=Rules.read(**rules), home="/home/ada")
    ).verdict


def writing(*paths: Path | str) -> Callable[[], Touched]:
    return lambda: Touched(writes=tuple(map(str, paths)))


def reading(*paths: Path | str) -> Callable[[], Touched]:
    return lambda: Touched(reads=tuple(map(str, paths)))


# ---------------------------------------------------------------- the whole table


def expected(mode: Mode, effect: Effect, needs_approval: bool, where: str | None) -> str:
    """The rule in words: plan denies what is not pure; approval asks always; full goes; what is
    inside is read unasked, and written in accept-edits.
    """
    if mode == "plan" and effect != "pure":
        return "deny"
    if needs_approval:
        return "ask"
    if mode == "full" or (
        effect == "pure"
        and (where is None or where in INSIDE or where == "a link that leads to itself")
    ):
        return "allow"
    return "allow" if mode == "accept-edits" and effect != "pure" and where in INSIDE else "ask"


@pytest.mark.parametrize(
    ("mode", "effect", "needs_approval", "where"),
    [
        pytest.param(*row, id="-".join(map(str, row)))
        for row in product(get_args(Mode), get_args(Effect), [False, True], [None, *WHERE])
    ],
)
def test_every_case(
    project: Path, mode: Mode, effect: Effect, needs_approval: bool, where: str | None
) -> None:
    touching = reading if effect == "pure" else writing
    touches = (lambda: None) if where is None else touching(project / WHERE[where])
    assert verdict(
        mode, Gated(effect, needs_approval=needs_approval, touches=touches), project
    ) == expected(mode, effect, needs_approval, where)


# ---------------------------------------------------------------- what would be touched


def test_all_files_must_be_inside(project: Path) -> None:
    inside, outside = project / "a", project.parent / "b"
    assert (
        verdict("accept-edits", Gated("once", touches=writing(inside, project / "c")), project)
        == "allow"
    )
    assert (
        verdict("accept-edits", Gated("once", touches=writing(inside, outside)), project) == "ask"
    )
    assert verdict("ask", Gated("pure", touches=reading(inside, outside)), project) == "ask"
    assert verdict("ask", Gated("pure", touches=reading(outside, inside)), project) == "ask"


def test_plan_mode_denies_what_is_not_pure_also_where_it_names_only_what_it_reads(
    project: Path,
) -> None:
    assert verdict("plan", Gated("once", touches=reading("src/a.py")), project) == "deny"
    assert verdict("plan", Gated("pure", touches=reading("src/a.py")), project) == "allow"


@pytest.mark.parametrize(
    "nothing",
    [
        None,
        [],
        "src/new.py",
        5,
        Touched(),
        Touched(writes="src"),
        Touched(writes=(None,)),
        Touched(writes=[Path("a")]),
    ],
    ids=repr,
)  # type: ignore[arg-type]
def test_a_tool_that_cannot_say_what_it_writes_asks(project: Path, nothing: Any) -> None:
    assert verdict("accept-edits", Gated("once", touches=lambda: nothing), project) == "ask"


def test_what_a_tool_touches_beside_its_command_counts_too(project: Path) -> None:
    def both() -> Touched:
        return Touched(command="ls", writes=(".git/config",))

    assert verdict("full", Gated("once", touches=both), project) == "deny"
    assert (
        verdict(
            "ask",
            Gated("once", touches=lambda: Touched(command="ls", hosts=("example.org",))),
            project,
        )
        == "ask"
    )
    assert verdict("ask", Gated("once", touches=lambda: Touched(command="ls")), project) == "allow"


def test_a_relative_path_starts_in_the_working_directory(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.parent)
    assert (
        verdict("accept-edits", Gated("once", touches=writing("project-two/x")), project) == "allow"
    )
    assert verdict("accept-edits", Gated("once", touches=writing("../x")), project) == "ask"


def test_a_tool_that_fails_to_say_what_it_writes_asks(project: Path) -> None:
    def fails() -> Touched:
        raise RuntimeError("a bug of a tool")

    assert verdict("accept-edits", Gated("once", touches=fails), project) == "ask"


def test_where_paths_led_goes_with_the_decision(project: Path) -> None:
    real = project.resolve()
    decision = decide(
        "accept-edits", Gated("once", touches=writing("link-inside/new.py", "a")), {}, project
    )
    assert decision.places == {"link-inside/new.py": str(real / "src/new.py"), "a": str(real / "a")}


def test_a_host_asks_unless_a_rule_allows_it(project: Path) -> None:
    tool = Gated("pure", name="fetch", touches=lambda: Touched(hosts=("docs.python.org",)))
    assert [verdict(mode, tool, project) for mode in get_args(Mode)] == [
        "ask",
        "ask",
        "ask",
        "allow",
    ]
    assert verdict("ask", tool, project, allow=["fetch(*.python.org)"]) == "allow"
    assert verdict("ask", tool, project, allow=["fetch(*.example.org)"]) == "ask"
    assert verdict("full", tool, project, deny=["fetch(docs.*)"]) == "deny"
    assert verdict("full", tool, project, ask=["fetch(*)"]) == "ask"
    rooted = Gated("pure", name="fetch", touches=lambda: Touched(hosts=("docs.python.org.",)))
    assert verdict("full", rooted, project, deny=["fetch(docs.python.org)"]) == "deny"
    assert verdict("ask", tool, project, allow=["fetch"]) == "allow"


# ---------------------------------------------------------------- guarded files


SEALED = [
    ".git/config",
    ".GIT/hooks/x",
    "src/../.git/hooks/post-checkout",
    ".mcp.json",
    ".treadle/config.yaml",
    ".vscode/settings.json",
    "sub/.git/config",
]
INSTRUCTING = [
    "AGENTS.md",
    "sub/claude.MD",
    ".envrc",
    ".bashrc",
    ".gitmodules",
    ".husky/pre-commit",
    ".devcontainer/devcontainer.json",
]
REVIEWED = [".github/workflows/ci.yml", ".gitlab-ci.yml"]


@pytest.mark.parametrize("path", SEALED)
@pytest.mark.parametrize("mode", get_args(Mode))
def test_what_decides_here_is_written_in_no_mode_and_by_no_rule(
    project: Path, path: str, mode: Mode
) -> None:
    tool = Gated("idempotent", name="write", touches=writing(path))
    assert verdict(mode, tool, project) == "deny"
    assert verdict(mode, tool, project, allow=["write(**)", "write", f"write({path})"]) == "deny"


@pytest.mark.parametrize("path", INSTRUCTING)
def test_what_instructs_is_seen_by_a_person_in_every_mode_unless_a_rule_names_the_path(
    project: Path, path: str
) -> None:
    tool = Gated("idempotent", name="write", touches=writing(path))
    assert [verdict(mode, tool, project) for mode in ("ask", "accept-edits", "full")] == [
        "ask",
        "ask",
        "ask",
    ]
    assert verdict("full", tool, project, allow=["write"]) == "ask"
    assert verdict("ask", tool, project, allow=[f"write({path})"]) == "allow"


@pytest.mark.parametrize("path", REVIEWED)
def test_what_runs_elsewhere_later_asks_but_in_full(project: Path, path: str) -> None:
    tool = Gated("idempotent", name="write", touches=writing(path))
    assert [verdict(mode, tool, project) for mode in ("ask", "accept-edits", "full")] == [
        "ask",
        "ask",
        "allow",
    ]


def test_a_guarded_file_behind_a_link_is_guarded(project: Path) -> None:
    (project / ".git").mkdir()
    (project / "innocent").symlink_to(project / ".git")
    (project / "notes.md").symlink_to(project / "AGENTS.md")
    assert verdict("full", Gated("once", touches=writing("innocent/config")), project) == "deny"
    assert verdict("accept-edits", Gated("once", touches=writing("notes.md")), project) == "ask"


def test_own_folders_are_sealed_whatever_they_are_called(project: Path) -> None:
    permissions = Permissions(sealed=lambda: (str(project.resolve() / "own"),))
    assert (
        decide(
            "full", Gated("once", touches=writing("own/config.yaml")), {}, project, permissions
        ).verdict
        == "deny"
    )


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        ".ENV.production",
        "deploy/.npmrc",
        "secrets/db.json",
        "id_rsa",
        "certs/server.pem",
        ".git/config",
        "credentials.yaml",
    ],
)
def test_what_likely_holds_a_secret_asks_before_it_is_read(project: Path, path: str) -> None:
    tool = Gated("pure", name="read", touches=reading(path))
    assert [verdict(mode, tool, project) for mode in ("plan", "ask", "accept-edits", "full")] == [
        "ask",
        "ask",
        "ask",
        "allow",
    ]
    assert verdict("ask", tool, project, allow=[f"read({path})"]) == "allow"


HARMLESS = [
    ".env.example",
    ".env.sample",
    "src/secrets.py",
    "tests/test_secrets.py",
    "docs/credentials.md",
    "id_rsa.pub",
    "environment.py",
    "monkey.py",
]


@pytest.mark.parametrize("path", HARMLESS)
def test_what_only_sounds_like_a_secret_is_read(project: Path, path: str) -> None:
    assert verdict("ask", Gated("pure", touches=reading(path)), project) == "allow"


@pytest.mark.parametrize(
    "path",
    [
        "~/.ssh/id_rsa",
        "~root/x",
        "$HOME/.netrc",
        "${IFS}a.txt",
        "..\\outside",
        "..\u2215outside",
        "a\0b",
    ],
)
def test_a_path_that_means_something_else_elsewhere_asks(project: Path, path: str) -> None:
    assert verdict("ask", Gated("pure", touches=reading(path)), project) == "ask"


@pytest.mark.parametrize("name", ["$(x).txt", ";x.txt", "-n.txt", "a b.txt", "za\u017c\u00f3.txt"])
def test_a_strange_name_is_a_name(project: Path, name: str) -> None:
    assert verdict("accept-edits", Gated("once", touches=writing(name)), project) == "allow"


# ---------------------------------------------------------------- rules


def test_rules_for_tools_by_name(project: Path) -> None:
    tool = Gated("once", name="github_create_issue")
    assert verdict("ask", tool, project, allow=["tool(github_*)"]) == "allow"
    assert verdict("ask", tool, project, allow=["github_create_issue"]) == "allow"
    assert verdict("ask", tool, project, allow=["github_create"]) == "ask"
    assert verdict("full", tool, project, deny=["tool(github_*)"]) == "deny"
    assert verdict("full", tool, project, ask=["github_create_issue"]) == "ask"
    assert verdict("plan", tool, project, allow=["tool(*)"]) == "deny"
    assert verdict("ask", Gated("once", needs_approval=True), project, allow=["change"]) == "ask"


def test_the_strictest_rule_counts(project: Path) -> None:
    tool = Gated("idempotent", name="write", touches=writing("src/a.py"))
    assert verdict("ask", tool, project, allow=["write(src/**)"]) == "allow"
    assert verdict("ask", tool, project, allow=["write(src)"]) == "allow"
    assert verdict("ask", tool, project, allow=["write(sr)"]) == "ask"
    assert verdict("full", tool, project, allow=["write(src/**)"], ask=["write(**/*.py)"]) == "ask"
    assert (
        verdict(
            "full",
            tool,
            project,
            allow=["write(src/**)"],
            ask=["write(**/*.py)"],
            deny=["write(SRC)"],
        )
        == "deny"
    )


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="needs a folder in memory")
def test_a_denied_link_of_a_workspace_in_memory_is_denied_where_it_leads() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        (Path(folder) / "src").mkdir()
        (Path(folder) / "link").symlink_to("src")
        tool = Gated("pure", touches=reading("src/a.py"))
        assert verdict("full", tool, Path(folder), deny=["read(link)"]) == "deny"


def test_a_denied_path_is_denied_behind_a_link_too(project: Path) -> None:
    tool = Gated("pure", name="read", touches=reading("link-inside/a.py"))
    assert verdict("full", tool, project, deny=["read(src)"]) == "deny"
    assert verdict("full", tool, project, deny=["read(link-inside)"]) == "deny"
    assert (
        verdict(
            "full", Gated("pure", touches=reading("src/a.py")), project, deny=["read(link-inside)"]
        )
        == "deny"
    )


def test_an_allowed_path_is_allowed_by_where_it_leads(project: Path) -> None:
    assert (
        verdict(
            "ask",
            Gated("pure", touches=reading("link-outside/x")),
            project,
            allow=["read(link-outside)"],
        )
        == "ask"
    )
    assert (
        verdict(
            "ask",
            Gated("pure", touches=reading("link-outside/x")),
            project,
            allow=[f"read({project.parent.resolve()}/project-two/**)"],
        )
        == "allow"
    )


@pytest.mark.skipif(not Path("/proc/self/root").exists(), reason="/proc is Linux's")
def test_a_way_out_through_proc_is_a_way_out(project: Path) -> None:
    assert (
        verdict(
            "accept-edits", Gated("once", touches=writing("/proc/self/root/srv/passwd")), project
        )
        == "deny"
    )
    assert (
        verdict(
            "accept-edits", Gated("pure", touches=reading("/proc/self/root/srv/passwd")), project
        )
        == "ask"
    )


# ---------------------------------------------------------------- what is said


def test_an_allowed_call_needs_no_words() -> None:
    assert decide("full", Gated("once"), {}, Path("/")) == Decision("allow", "")


@pytest.mark.parametrize(
    ("mode", "needs_approval", "reason"),
    [
        (
            "plan",
            False,
            "change can change things, and this run only plans (mode plan): describe the change instead",
        ),
        ("ask", False, "change can change things, and needs approval in mode ask"),
        (
            "accept-edits",
            False,
            "change can change things, and needs approval in mode accept-edits",
        ),
        ("full", True, "change asks for a person's approval in every mode"),
    ],
)
def test_a_refusal_names_the_tool_the_mode_and_the_way_on(
    mode: Mode, needs_approval: bool, reason: str
) -> None:
    assert (
        decide(mode, Gated("once", needs_approval=needs_approval), {}, Path("/")).reason == reason
    )


def test_without_a_person_the_model_is_told_why_and_what_to_do() -> None:
    told = headless_denial(decide("ask", Gated("once"), {}, Path("/")))
    assert told == (
        "Not run: change can change things, and needs approval in mode ask. No one can approve it: continue without this call, or say what you would need."
    )


def test_what_only_a_sandbox_can_hold_asks_where_there_is_none() -> None:
    asked = without_sandbox(Decision("contained", "git runs programs"))
    assert (asked.verdict, asked.reason) == (
        "ask",
        "git runs programs, so it runs without approval only in a sandbox, and none works here",
    )
    assert without_sandbox(Decision("deny", "no")) == Decision("deny", "no")


def test_only_a_tools_name_is_offered_as_a_rule(project: Path) -> None:
    assert decide("ask", Gated("once"), {}, project).pattern == ("tool(change)",)
    assert decide("ask", Gated("once", touches=writing("../x")), {}, project).pattern is None
    assert decide("ask", Gated("once", needs_approval=True), {}, project).pattern is None
