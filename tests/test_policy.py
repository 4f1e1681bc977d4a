"""The gate before each call: mode, effect, approval and what would be written decide, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest

from treadle.model import ToolDefinition
from treadle.policy import Decision, decide, headless_denial
from treadle.tooling import Tool
from treadle.types import Effect, Mode

WHERE = {
    "a file inside": "src/new.py",
    "the folder itself": ".",
    "inside by a detour": "src/../notes.txt",
    "a link to inside": "link-inside/new.py",
    "outside, absolute": "/etc/passwd",
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

    def __init__(self, effect: Effect, *, needs_approval: bool = False, writes: Callable[[], Sequence[Path] | None] = lambda: None) -> None:
        self.definition = ToolDefinition(name="change", description="", parameters={})
        self.name = "change"
        self.effect: Effect = effect
        self.needs_approval = needs_approval
        self.parallel, self.timeout_s, self.max_output = True, None, 1_000
        self._writes = writes

    def parse(self, arguments_json: str) -> object:
        return arguments_json

    def writes(self, arguments: Any, cwd: Path) -> Sequence[Path] | None:
        return self._writes()

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


def verdict(mode: Mode, tool: Gated, cwd: Path) -> str:
    typed: Tool[Any] = tool
    return decide(mode, typed, {}, cwd).verdict


# ---------------------------------------------------------------- the whole table


def expected(mode: Mode, effect: Effect, needs_approval: bool, where: str | None) -> str:
    """The rule in words: plan denies what is not pure; approval asks always; full and pure go; accept-edits lets files inside be written."""
    if mode == "plan" and effect != "pure":
        return "deny"
    if needs_approval:
        return "ask"
    if effect == "pure" or mode == "full":
        return "allow"
    return "allow" if mode == "accept-edits" and where in INSIDE else "ask"


@pytest.mark.parametrize(
    ("mode", "effect", "needs_approval", "where"),
    [pytest.param(*row, id="-".join(map(str, row))) for row in product(get_args(Mode), get_args(Effect), [False, True], [None, *WHERE])],
)
def test_every_case(project: Path, mode: Mode, effect: Effect, needs_approval: bool, where: str | None) -> None:
    written = None if where is None else [project / WHERE[where]]
    tool = Gated(effect, needs_approval=needs_approval, writes=lambda: written)
    assert verdict(mode, tool, project) == expected(mode, effect, needs_approval, where)


# ---------------------------------------------------------------- what would be written


def test_all_files_must_be_inside(project: Path) -> None:
    inside, outside = project / "a", project.parent / "b"
    assert verdict("accept-edits", Gated("once", writes=lambda: [inside, project / "c"]), project) == "allow"
    assert verdict("accept-edits", Gated("once", writes=lambda: [inside, outside]), project) == "ask"
    assert verdict("accept-edits", Gated("once", writes=lambda: (inside,)), project) == "allow"


@pytest.mark.parametrize("nothing", [None, [], (), "src/new.py", 5, ["src/new.py"], [None]], ids=repr)
def test_a_tool_that_cannot_say_what_it_writes_asks(project: Path, nothing: Any) -> None:
    assert verdict("accept-edits", Gated("once", writes=lambda: nothing), project) == "ask"


def test_a_relative_path_starts_in_the_working_directory(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.parent)
    assert verdict("accept-edits", Gated("once", writes=lambda: [Path("project-two/x")]), project) == "allow"
    assert verdict("accept-edits", Gated("once", writes=lambda: [Path("../x")]), project) == "ask"


def test_a_tool_that_fails_to_say_what_it_writes_asks(project: Path) -> None:
    def fails() -> Sequence[Path]:
        raise RuntimeError("a bug of a tool")

    assert verdict("accept-edits", Gated("once", writes=fails), project) == "ask"


def test_what_is_written_is_asked_only_where_it_matters(project: Path) -> None:
    def fails() -> Sequence[Path]:
        raise AssertionError("nobody needs to know")

    for mode, effect in product(get_args(Mode), get_args(Effect)):
        if (mode, effect) not in {("accept-edits", "once"), ("accept-edits", "idempotent")}:
            verdict(mode, Gated(effect, writes=fails), project)


@pytest.mark.skipif(not Path("/proc/self/root").exists(), reason="/proc is Linux's")
def test_a_way_out_through_proc_is_a_way_out(project: Path) -> None:
    assert verdict("accept-edits", Gated("once", writes=lambda: [Path("/proc/self/root/etc/passwd")]), project) == "ask"


# ---------------------------------------------------------------- what is said


def test_an_allowed_call_needs_no_words() -> None:
    assert decide("full", Gated("once"), {}, Path("/")) == Decision("allow", "")


@pytest.mark.parametrize(
    ("mode", "needs_approval", "reason"),
    [
        ("plan", False, "change can change things, and this run only plans (mode plan): describe the change instead"),
        ("ask", False, "change can change things, and mode ask asks before that"),
        ("accept-edits", False, "change can change things, and mode accept-edits asks before that"),
        ("full", True, "change asks for a person's approval in every mode"),
    ],
)
def test_a_refusal_names_the_tool_the_mode_and_the_way_on(mode: Mode, needs_approval: bool, reason: str) -> None:
    assert decide(mode, Gated("once", needs_approval=needs_approval), {}, Path("/")).reason == reason


def test_without_a_person_the_model_is_told_why_and_what_to_do() -> None:
    told = headless_denial(decide("ask", Gated("once"), {}, Path("/")))
    assert told == (
        "Not run: change can change things, and mode ask asks before that. Nobody is here to approve it: go on without this call, or say what you would need."
    )
