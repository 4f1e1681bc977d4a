"""`*` and `?`: what they match, and that nothing takes them long."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle._internal.wildcards import wildcards
from treadle.config.rule import parse_rule
from treadle.config.rules import Rules
from treadle.policy.guarded_paths import is_secret
from treadle.policy.permissions import Permissions
from treadle.policy.policy import decide_command


def matches(pattern: str, name: str) -> bool:
    """By trying everything."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(matches(pattern[1:], name[i:]) for i in range(len(name) + 1))
    return bool(name) and pattern[0] in ("?", name[0]) and matches(pattern[1:], name[1:])


@given(st.text("ab*?.", max_size=7), st.text("ab.", max_size=7))
def test_they_match_what_they_say(pattern: str, name: str) -> None:
    assert (re.fullmatch(wildcards(pattern, "."), name) is not None) == matches(pattern, name)


def leads(pattern: list[str], names: list[str]) -> bool:
    """Whether a path or what it lies in matches, by trying everything."""
    if not pattern:
        return True
    if pattern[0] == "**":
        return any(leads(pattern[1:], names[i:]) for i in range(len(names) + 1))
    return bool(names) and matches(pattern[0], names[0]) and leads(pattern[1:], names[1:])


@given(
    st.lists(st.sampled_from(["**", "*", "a", "b", "a*", "*b"]), min_size=1, max_size=6),
    st.lists(st.sampled_from(["a", "b", "ab", "ba"]), max_size=6),
)
def test_a_rule_for_paths_matches_what_it_says(pattern: list[str], names: list[str]) -> None:
    found = parse_rule(f"read({'/'.join(pattern)})") if pattern.count("**") <= 3 else None
    if found is not None:
        assert (
            found.path_pattern("/w", "", through_links=False).fullmatch("/".join(["/w", *names]))
            is not None
        ) == leads(pattern, names)


def test_a_rule_may_lead_out_of_the_workspace_with_dots(tmp_path: Path) -> None:
    permissions = Permissions(
        rules=Rules.read(deny=["read(../other/**)", "read(~/../ada/x)"]), home="/home/ada"
    )
    assert decide_command("full", "cat ../other/x", tmp_path, permissions).verdict == "deny"
    assert decide_command("full", "cat /home/ada/x", tmp_path, permissions).verdict == "deny"


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("read(*a*b*c)", "ab" * 9_000),
        ("read(**/a/**/a/**/b)", "a/" * 9_000),
        ("read(*a*a*/**/*a*a*/**/x)", f"{'a' * 150}/" * 130),
    ],
)
def test_no_path_keeps_a_rule_busy(rule: str, path: str, tmp_path: Path) -> None:
    """Each of these took minutes, or for ever."""
    assert (
        decide_command(
            "full", f"cat {path}", tmp_path, Permissions(rules=Rules.read(deny=[rule]))
        ).verdict
        != "deny"
    )


def test_no_path_keeps_the_tables_busy() -> None:
    assert not is_secret("/" + "credentials" * 50_000)
