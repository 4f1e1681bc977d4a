"""What a configuration says becomes what calls are judged by: its rules, the user's home, and
Treadle's own folder.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.policy.test_decide import Gated, reading, writing
from treadle.config.rules import Rules
from treadle.errors import AgentError
from treadle.policy.permissions import Permissions, permissions_of, withholds
from treadle.policy.policy import Decision, decide, decide_command, headless_denial, without_sandbox
from treadle.tools.tool import Touched
from treadle.types import Mode


def test_a_text_that_is_no_rule_is_named_with_what_a_rule_is() -> None:
    with pytest.raises(
        AgentError,
        match="permissions: 'rm; ls' is not a rule: write one for a single command, without 'rm;'",
    ) as error:
        permissions_of(allow=["ls", "rm; ls"])
    assert error.value.kind == "invalid"
    for texts in (["rm; ls"], ["ls", "x(y)"]):
        with pytest.raises(AgentError, match="is not a rule"):
            permissions_of(ask=texts)
        with pytest.raises(AgentError, match="is not a rule"):
            permissions_of(deny=texts)


def test_each_list_of_rules_is_what_it_is_called(tmp_path: Path) -> None:
    said = permissions_of(allow=["npm test"], ask=["git push"], deny=["curl"])
    assert [
        decide_command("full", text, tmp_path, said).verdict
        for text in ("npm test", "git push", "curl x")
    ] == ["allow", "ask", "deny"]
    assert decide_command("ask", "npm test", tmp_path, said).verdict == "contained"


def test_the_home_folder_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "ada"))
    assert (
        decide_command(
            "full", "cat ~/notes", tmp_path, permissions_of(deny=[f"read({tmp_path}/ada/notes)"])
        ).verdict
        == "deny"
    )
    assert (
        decide_command(
            "full", "cat ~/notes", tmp_path, permissions_of(deny=["read(~/notes)"])
        ).verdict
        == "deny"
    )


def test_treadles_own_folder_is_sealed_by_each_of_its_names_and_its_skills_are_read(
    tmp_path: Path,
) -> None:
    real, name, place = tmp_path.resolve() / "real", tmp_path.resolve() / "own", tmp_path / "work"
    (real / "skills").mkdir(parents=True)
    name.symlink_to(real)
    place.mkdir()
    said = permissions_of(own=str(name), allow=["write(/**)"])
    for own in (name, real):
        assert (
            decide("full", Gated("once", touches=writing(own / "config")), {}, place, said).verdict
            == "deny"
        )
        assert (
            decide("full", Gated("once", touches=writing(own)), {}, place, said).verdict == "deny"
        )
    assert (
        decide("full", Gated("once", touches=writing(tmp_path / "owner")), {}, place, said).verdict
        == "allow"
    )
    own = permissions_of(own=str(real))
    assert (
        decide("ask", Gated("pure", touches=reading(real / "skills/x.md")), {}, place, own).verdict
        == "allow"
    )
    assert (
        decide("ask", Gated("pure", touches=reading(real / "config")), {}, place, own).verdict
        == "ask"
    )


def test_a_name_of_treadles_own_folder_that_leads_elsewhere_later_is_sealed_still(
    tmp_path: Path,
) -> None:
    real, name, place = tmp_path.resolve() / "real", tmp_path.resolve() / "own", tmp_path / "work"
    for folder in (real, place):
        folder.mkdir()
    name.symlink_to(real)
    said = permissions_of(own=str(name))
    name.unlink()
    name.mkdir()
    assert (
        decide("full", Gated("once", touches=writing(name / "x")), {}, place, said).verdict
        == "deny"
    )
    assert (
        decide("full", Gated("once", touches=writing(real / "x")), {}, place, said).verdict
        == "deny"
    )


def test_where_treadles_own_folder_leads_meanwhile_is_sealed_too(tmp_path: Path) -> None:
    old, new, name, place = (tmp_path.resolve() / each for each in ("old", "new", "own", "work"))
    for folder in (old, new, place):
        folder.mkdir()
    name.symlink_to(old)
    said = permissions_of(own=str(name))
    assert (
        decide("full", Gated("once", touches=writing(new / "x")), {}, place, said).verdict
        == "allow"
    )
    name.unlink()
    name.symlink_to(new)
    for own in (name, old, new):
        assert (
            decide("full", Gated("once", touches=writing(own / "x")), {}, place, said).verdict
            == "deny"
        )


def test_folders_that_may_be_read_are_asked_for_at_each_call(tmp_path: Path) -> None:
    spilled: list[Path] = []
    said = permissions_of(own=str(tmp_path / "own")).also_reading(lambda: spilled)
    tool = Gated("pure", touches=reading(tmp_path / "spill/x", tmp_path / "own/skills"))
    assert decide("ask", tool, {}, tmp_path / "work", said).verdict == "ask"
    spilled.append(tmp_path.resolve() / "spill")
    assert decide("ask", tool, {}, tmp_path / "work", said).verdict == "allow"


def test_rules_about_reading_withhold_files_from_a_search(tmp_path: Path) -> None:
    for said in (
        {"deny": ["read(a/**)"]},
        {"ask": ["read(a/**)"]},
        {"deny": ["read(~/a)"], "ask": ["read(a)"]},
    ):
        withheld = withholds(Permissions(rules=Rules.read(**said), home=str(tmp_path)), tmp_path)
        assert withheld is not None
        assert withheld(str(tmp_path / "a/x"))
        assert not withheld(str(tmp_path / "b"))
    for said in ({"allow": ["read(a)"]}, {"deny": ["write(a)"]}, {}):
        assert withholds(Permissions(rules=Rules.read(**said)), tmp_path) is None


# ---------------------------------------------------------------- what is said of commands


def running(command: str, *, name: str = "bash", needs_approval: bool = False) -> Gated:
    return Gated(
        "once", name=name, needs_approval=needs_approval, touches=lambda: Touched(command=command)
    )


@pytest.mark.parametrize(
    ("mode", "command", "verdict", "reason"),
    [
        (
            "plan",
            "rm a",
            "deny",
            "it deletes files: a, and this run only plans (mode plan): describe the change instead",
        ),
        ("ask", "rm a", "ask", "it deletes files: a"),
        ("accept-edits", "rm a", "ask", "it deletes files: a"),
        (
            "ask",
            "rm -rf build && git push --force",
            "ask",
            "it deletes files: build; the rule 'git push' asks before it; it rewrites history on the remote (git push --force)",
        ),
        ("full", "git push", "ask", "the rule 'git push' asks before it"),
        ("full", "curl x", "deny", "the rule 'curl' denies it"),
        ("ask", "curl x", "deny", "the rule 'curl' denies it"),
        (
            "ask",
            "git status",
            "contained",
            "git runs programs that the repository's configuration names",
        ),
    ],
)
def test_what_is_said_of_a_command_fits_its_verdict_and_the_mode(
    tmp_path: Path, mode: Mode, command: str, verdict: str, reason: str
) -> None:
    said = permissions_of(ask=["git push"], deny=["curl"])
    decision = decide(mode, running(command), {}, tmp_path, said)
    assert (decision.verdict, decision.reason) == (verdict, reason)


def test_an_allowed_command_needs_no_words_and_no_rule(tmp_path: Path) -> None:
    decision = decide("full", running("rm a && ls"), {}, tmp_path)
    assert (decision.verdict, decision.reason, decision.pattern) == ("allow", "", None)


def test_each_command_of_a_line_is_told_with_its_own_verdict(tmp_path: Path) -> None:
    decision = decide("ask", running("ls a && rm b"), {}, tmp_path)
    assert [(each.argv, each.verdict) for each in decision.commands] == [
        (("ls", "a"), "allow"),
        (("rm", "b"), "ask"),
    ]
    assert decision.commands[1].why in decision.reason
    assert [each.argv for each in decide("ask", running("ls a"), {}, tmp_path).commands] == [
        ("ls", "a")
    ]


def test_rules_and_approval_of_the_tool_itself_count_for_its_commands_too(tmp_path: Path) -> None:
    assert (
        decide("full", running("ls"), {}, tmp_path, permissions_of(deny=["tool(bash)"])).verdict
        == "deny"
    )
    assert (
        decide("full", running("ls"), {}, tmp_path, permissions_of(ask=["tool(bash)"])).verdict
        == "ask"
    )
    wanted = decide("ask", running("npm test", needs_approval=True), {}, tmp_path)
    assert (wanted.verdict, wanted.pattern) == ("ask", None)


def test_a_rule_is_offered_only_where_a_person_is_asked(tmp_path: Path) -> None:
    said = permissions_of(deny=["curl"])
    assert decide("ask", running("npm test"), {}, tmp_path, said).pattern == ("npm test",)
    assert decide("plan", running("npm test"), {}, tmp_path, said).pattern is None
    assert decide("ask", running("npm test; curl x"), {}, tmp_path, said).pattern is None


def test_what_asks_for_want_of_a_sandbox_keeps_what_was_found(tmp_path: Path) -> None:
    found = Decision(
        "contained",
        "why",
        ("npm test",),
        {"a": "/a"},
        decide("ask", running("ls"), {}, tmp_path).commands,
    )
    asked = without_sandbox(found)
    assert (asked.verdict, asked.pattern, asked.places, asked.commands) == (
        "ask",
        found.pattern,
        found.places,
        found.commands,
    )
    assert found.reason in headless_denial(asked)


# ---------------------------------------------------------------- what a tool says it touches


@pytest.mark.parametrize("name", ["reads", "lists", "writes", "hosts"])
@pytest.mark.parametrize("wrong", ["src", ("a", None), ["a"]], ids=repr)
def test_what_is_no_tuple_of_texts_is_not_known(tmp_path: Path, name: str, wrong: object) -> None:
    touched = Touched(**{name: wrong})  # pyright: ignore[reportArgumentType]  what somebody's tool may give
    assert (
        decide("accept-edits", Gated("once", touches=lambda: touched), {}, tmp_path).verdict
        == "ask"
    )
    assert (
        decide("accept-edits", Gated("pure", touches=lambda: touched), {}, tmp_path).verdict
        == "allow"
    )


def test_a_rule_for_the_tools_name_allows_its_edits_its_hosts_and_what_is_not_known_and_no_more(
    tmp_path: Path,
) -> None:
    def verdict(touched: Touched | None) -> str:
        return decide(
            "ask",
            Gated("once", touches=lambda: touched),
            {},
            tmp_path,
            permissions_of(allow=["change"]),
        ).verdict

    assert [
        verdict(touched)
        for touched in (None, Touched(writes=("a",)), Touched(hosts=("h.test",)), Touched(own=True))
    ] == ["allow"] * 4
    assert [
        verdict(touched)
        for touched in (
            Touched(writes=("../a",)),
            Touched(writes=("AGENTS.md",)),
            Touched(reads=(".env",)),
        )
    ] == ["ask"] * 3


def test_places_are_those_of_all_paths_that_are_some(tmp_path: Path) -> None:
    touched = Touched(reads=("r",), lists=("l", "a\0b"), writes=("w",))
    decision = decide("full", Gated("once", touches=lambda: touched), {}, tmp_path)
    assert decision.places == {name: str(tmp_path.resolve() / name) for name in "rlw"}


def test_a_folder_of_secrets_may_be_listed_and_not_read(tmp_path: Path) -> None:
    def verdict(touched: Touched) -> str:
        return decide("ask", Gated("pure", touches=lambda: touched), {}, tmp_path).verdict

    assert [verdict(Touched(lists=(path,))) for path in ("secrets", ".env", "../x")] == [
        "allow",
        "allow",
        "ask",
    ]
    assert verdict(Touched(reads=("secrets",))) == "ask"
    assert verdict(Touched(lists=("a",), reads=(".env",))) == "ask"


def test_only_what_nothing_else_is_found_of_is_offered_by_name(tmp_path: Path) -> None:
    assert (
        decide(
            "ask", Gated("once", touches=lambda: Touched(reads=("a",), writes=("b",))), {}, tmp_path
        ).pattern
        is None
    )
    assert (
        decide(
            "ask", Gated("once", touches=lambda: Touched(hosts=("h.test",))), {}, tmp_path
        ).pattern
        is None
    )
