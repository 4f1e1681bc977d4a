"""What child processes of tools find in their environment, and what they never do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.environment import KEY_VARIABLES, child_environment, path_outside

KEY = "sk-ant-0123456789abcdef"


def test_all_else_is_passed_on_as_it_is() -> None:
    environment = {"PATH": "/bin", "HOME": "/home/ada", "LANG": "C.UTF-8", "EMPTY": "", "ANTHROPIC_BASE_URL": "http://127.0.0.1"}
    given = child_environment([KEY], environment)
    assert given == environment
    given["PATH"] = "changed"
    assert environment["PATH"] == "/bin"


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "TREADLE_AGENT_API_KEY"])
def test_the_variables_of_providers_are_left_out_whatever_they_hold(name: str) -> None:
    assert child_environment([], {name: "anything", "PATH": "/bin"}) == {"PATH": "/bin"}
    assert name in KEY_VARIABLES


@pytest.mark.parametrize("value", [KEY, f"Bearer {KEY}", f"https://user:{KEY}@host/", f'{{"key": "{KEY}"}}'])
def test_a_variable_that_holds_a_known_secret_is_left_out_whatever_its_name(value: str) -> None:
    assert child_environment([KEY, "another-secret"], {"MY_PROXY": value, "PATH": "/bin"}) == {"PATH": "/bin"}


@pytest.mark.parametrize("short", ["", "x", "1", "none", "dummy", "1234567"])
def test_a_key_that_is_none_takes_nothing_away(short: str) -> None:
    """Local servers are often given a key like `x`, which stands in most variables by chance."""
    environment = {"PATH": "/usr/local/bin:/opt/x/1/none/dummy/1234567", "TERM": "xterm", "SHLVL": "1"}
    assert child_environment([short], environment) == environment


def test_it_is_our_own_environment_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("COPY_OF_IT", f"={KEY}=")
    monkeypatch.setenv("HARMLESS", "yes")
    found = child_environment([KEY])
    assert found["HARMLESS"] == "yes"
    assert found.keys() == os.environ.keys() - KEY_VARIABLES - {"COPY_OF_IT"}


@given(st.dictionaries(st.text(), st.text() | st.just(KEY)), st.lists(st.text() | st.just(KEY)))
def test_no_long_secret_stands_in_any_variable(environment: dict[str, str], secrets: list[str]) -> None:
    left = child_environment(secrets, environment)
    assert left.items() <= environment.items()
    assert not any(len(secret) >= 8 and secret in value for secret in secrets for value in left.values())


def test_no_program_of_ours_is_looked_for_where_a_command_may_have_put_one(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / ".venv/bin").mkdir(parents=True)
    (tmp_path / "link").symlink_to(work / ".venv/bin")
    path = os.pathsep.join(["", ".", "bin", f"{work}/.venv/bin", str(work), f"{work}2/bin", f"{tmp_path}/link", "/usr/bin"])
    assert path_outside(path, work) == os.pathsep.join([f"{work}2/bin", "/usr/bin"])
    assert path_outside(None, work) == path_outside(os.defpath, work)
