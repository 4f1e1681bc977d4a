"""What child processes of tools find in their environment, and what they never do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle._internal.environment import (
    KEY_VARIABLES,
    child_environment,
    for_a_shell,
    path_outside,
)
from treadle._internal.secret_patterns import names_a_secret

KEY = "sk-ant-0123456789abcdef"


def test_all_else_is_passed_on_as_it_is() -> None:
    environment = {
        "PATH": "/bin",
        "HOME": "/home/ada",
        "LANG": "C.UTF-8",
        "EMPTY": "",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1",
    }
    given = child_environment([KEY], environment)
    assert given == environment
    given["PATH"] = "changed"
    assert environment["PATH"] == "/bin"


@pytest.mark.parametrize(
    "name",
    [
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "TREADLE_AGENT_API_KEY",
    ],
)
def test_the_variables_of_providers_are_left_out_whatever_they_hold(name: str) -> None:
    assert child_environment([], {name: "anything", "PATH": "/bin"}) == {"PATH": "/bin"}
    assert name in KEY_VARIABLES


@pytest.mark.parametrize(
    "value", [KEY, f"Bearer {KEY}", f"https://user:{KEY}@host/", f'{{"key": "{KEY}"}}']
)
def test_a_variable_that_holds_a_known_secret_is_left_out_whatever_its_name(value: str) -> None:
    assert child_environment([KEY, "another-secret"], {"MY_PROXY": value, "PATH": "/bin"}) == {
        "PATH": "/bin"
    }


@pytest.mark.parametrize("short", ["", "x", "1", "none", "dummy", "1234567"])
def test_a_key_that_is_none_takes_nothing_away(short: str) -> None:
    """Local servers are often given a key like `x`, which stands in most variables by chance."""
    environment = {
        "PATH": "/usr/local/bin:/opt/x/1/none/dummy/1234567",
        "TERM": "xterm",
        "SHLVL": "1",
    }
    assert child_environment([short], environment) == environment


def test_it_is_our_own_environment_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("COPY_OF_IT", f"={KEY}=")
    monkeypatch.setenv("HARMLESS", "yes")
    found = child_environment([KEY])
    assert found["HARMLESS"] == "yes"
    assert (
        found.keys()
        == {name for name in os.environ if name not in KEY_VARIABLES and not names_a_secret(name)}
        - {"COPY_OF_IT"}
        | {"PWD"} & os.environ.keys()
    )


CREDENTIALS = """
DB_PASSWORD MY_PASSWORD PASSWORD PGPASSWORD MYSQL_PWD MYSQL_PASSWD RESTIC_PASSWORD_FILE SMTP_PASS SSHPASS BORG_PASSPHRASE
GITHUB_TOKEN TOKEN API_TOKENS HF_TOKEN AWS_SESSION_TOKEN ACTIONS_ID_TOKEN_REQUEST_URL CI_JOB_TOKEN npm_config__authToken
CLIENT_SECRET AWS_SECRET_ACCESS_KEY SECRET_KEY_BASE DJANGO_SECRET MY_SECRETS APP_SECRET_2 AWS_ACCESS_KEY_ID
STRIPE_API_KEY MAILGUN_APIKEY API_KEYS SSH_PRIVATE_KEY SIGNING_KEY ENCRYPTION_KEY FERNET_KEY GOOGLE_APPLICATION_CREDENTIALS AZURE_CREDENTIALS CREDS
GITHUB_PAT COMPOSER_AUTH DOCKER_AUTH_CONFIG SESSION_COOKIE SENTRY_DSN AZURE_STORAGE_CONNECTION_STRING SLACK_WEBHOOK_URL CI_JOB_JWT
OTEL_EXPORTER_OTLP_HEADERS
"""
NO_CREDENTIALS = """
PATH HOME PWD OLDPWD SSH_AUTH_SOCK SSH_ASKPASS GIT_ASKPASS TOKENIZERS_PARALLELISM MAX_TOKENS CLAUDE_CODE_MAX_OUTPUT_TOKENS TOKEN_LIMIT KEYBOARD MONKEY
XDG_SESSION_ID COMPAT AUTHOR GIT_AUTHOR_NAME PASSENGER_ROOT LS_COLORS SECRETARY KEYMAP
"""


@pytest.mark.parametrize("name", CREDENTIALS.split())
def test_a_variable_with_the_name_of_a_credential_is_withheld_whatever_it_holds(name: str) -> None:
    for value in ("word", "1", "", "/home/me/file"):
        assert child_environment([], {name: value, name.lower(): value, "PATH": "/bin"}) == {
            "PATH": "/bin"
        }


@pytest.mark.parametrize("name", NO_CREDENTIALS.split())
def test_a_variable_with_another_name_is_passed_on(name: str) -> None:
    assert child_environment([], {name: "4096"}) == {name: "4096"}


@pytest.mark.parametrize("name", ["DATABASE_URL", "AMQP", "https_proxy"])
def test_a_url_with_a_password_is_withheld(name: str) -> None:
    assert child_environment(
        [], {name: "postgres://ada:x@db/shop", "OTHER_URL": "postgres://ada@db/shop"}
    ) == {"OTHER_URL": "postgres://ada@db/shop"}


READ_BY_BASH = {
    "BASH_ENV": "{file}",
    "ENV": "{file}",
    "SHELLOPTS": "braceexpand:noglob:xtrace",
    "BASHOPTS": "nullglob:dotglob:failglob",
    "GLOBIGNORE": "*.txt",
    "CDPATH": "{place}/elsewhere",
    "IFS": "x",
    "PS4": "$(touch {place}/ran)",
    "PROMPT_COMMAND": "touch {place}/ran",
    "POSIXLY_CORRECT": "1",
    "BASH_COMPAT": "31",
    "BASH_FUNC_ls%%": "() {{ touch {place}/ran; }}",
    "BASH_FUNC_cat%%": "() {{ touch {place}/ran; }}",
    "GREP_OPTIONS": "-v",
    "RIPGREP_CONFIG_PATH": "{file}",
}
LINE = "ls; cat *.txt; cd sub && ls; shopt; set -o; type -t ls cat; echo one x two"


@pytest.mark.parametrize("name", READ_BY_BASH)
def test_no_variable_changes_how_bash_reads_a_line(tmp_path: Path, name: str) -> None:
    for file in ("a.txt", "b.md", "sub/c", "elsewhere/sub/d"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(f"{file}\n")
    (tmp_path / "b.md").write_text("touch ran\n")
    plain = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
    value = READ_BY_BASH[name].format(place=tmp_path, file=tmp_path / "b.md")

    def said(environment: dict[str, str]) -> str:
        run = subprocess.run(
            ["/bin/bash", "-c", "--", LINE],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return run.stdout + run.stderr

    assert said(for_a_shell({**plain, name: value})) == said(plain)
    assert not (tmp_path / "ran").exists()


@given(st.dictionaries(st.text(), st.text() | st.just(KEY)), st.lists(st.text() | st.just(KEY)))
def test_no_long_secret_stands_in_any_variable(
    environment: dict[str, str], secrets: list[str]
) -> None:
    left = child_environment(secrets, environment)
    assert left.items() <= environment.items()
    assert not any(
        len(secret) >= 8 and secret in value for secret in secrets for value in left.values()
    )


def test_no_program_of_ours_is_looked_for_where_a_command_may_have_put_one(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / ".venv/bin").mkdir(parents=True)
    (tmp_path / "link").symlink_to(work / ".venv/bin")
    path = os.pathsep.join(
        [
            "",
            ".",
            "bin",
            f"{work}/.venv/bin",
            str(work),
            f"{work}2/bin",
            f"{tmp_path}/link",
            "/usr/bin",
        ]
    )
    assert path_outside(path, work) == os.pathsep.join([f"{work}2/bin", "/usr/bin"])
    assert path_outside(None, work) == path_outside(os.defpath, work)
