"""`treadle config`: what it shows, what it refuses, and what it leaves on the disk."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from treadle.cli.config import config

CANARY = "sk-ant-api03-CANARY-9f3b2c7d1e"


class Desk:
    """A user's folder and a project, and the command in it."""

    def __init__(self, root: Path) -> None:
        self.file = root / "home" / ".treadle" / "config.yaml"
        self.project = root / "project"
        (self.project / ".treadle").mkdir(parents=True)
        (self.project / ".git").mkdir()
        self.theirs = self.project / ".treadle" / "config.yaml"
        self.env: dict[str, str] = {}

    def says(self, text: str, mode: int = 0o600) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(text)
        self.file.chmod(mode)

    def __call__(self, *args: str, code: int = 0, given: str | None = None) -> Result:
        where = [] if args[0] == "set" else ["--cwd", str(self.project)]
        result = CliRunner().invoke(
            config,
            [*args, *where],
            env={"TREADLE_HOME": str(self.file.parent), **self.env},
            input=given,
        )
        assert result.exit_code == code, result.output
        if code:
            assert result.stdout == ""
            assert "Traceback" not in result.stderr
        return result


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    for name in list(os.environ):
        if name.startswith(("TREADLE_", "ANTHROPIC_", "OPENAI_", "GEMINI_", "GOOGLE_")):
            monkeypatch.delenv(name)
    return Desk(tmp_path)


def test_show_prints_every_setting_with_its_origin(desk: Desk) -> None:
    desk.says(f"limits: {{turns: 30}}\nproviders: {{anthropic: {{api_key: {CANARY}}}}}\n")
    out = desk("show").stdout
    lines = [line.split("  # ") for line in out.splitlines()]
    shown = {setting.strip(): origin for setting, origin in lines}
    assert shown["limits.turns: 30"] == f"{desk.file}:1"
    assert shown["providers.anthropic.api_key: set (ends …7d1e)"] == f"{desk.file}:2"
    assert shown["defaults.temperature: null"] == "default"
    assert shown["permissions.allow: []"] == "default"
    assert CANARY not in out


def test_show_as_json_is_one_object(desk: Desk) -> None:
    desk.says("limits: {turns: 30}\n")
    desk.env["ANTHROPIC_API_KEY"] = CANARY
    result = desk("show", "--json")
    table = json.loads(result.stdout)
    assert table["limits.turns"] == {
        "value": 30,
        "source": "file",
        "name": str(desk.file),
        "line": 1,
    }
    assert table["providers.anthropic.api_key"] == {
        "value": "set (ends …7d1e)",
        "source": "environment",
        "name": "ANTHROPIC_API_KEY",
        "line": None,
    }
    assert table["journal"] == {"value": None, "source": "default", "name": None, "line": None}
    assert CANARY not in result.output


def test_warnings_go_to_stderr(desk: Desk) -> None:
    desk.theirs.write_text("permissions: {allow: ['*']}\n")
    for command in (("show",), ("check",)):
        result = desk(*command)
        assert "permissions.allow is ignored" in result.stderr
        assert "is ignored" not in result.stdout


def test_path_names_the_files_whatever_they_hold(desk: Desk) -> None:
    desk.theirs.write_text("{{{{")
    out = desk("path").stdout.splitlines()
    assert out == [f"{desk.file}  (not found, your own)", f"{desk.theirs}  (found, project)"]


def test_check_says_ok_or_everything_that_is_wrong(desk: Desk) -> None:
    assert desk("check").stdout == "ok: no file, only defaults and the environment\n"
    desk.says("limits: {turns: 30}\n")
    assert desk("check").stdout == f"ok: {desk.file}\n"
    desk.says("limits: {trns: 30}\ndefaults:\n  temprature: 1\n")
    desk.theirs.write_text("a: [1}\n")
    error = desk("check", code=2).stderr
    for piece in (
        f"{desk.file}:1: ",
        "'turns'",
        f"{desk.file}:3: ",
        "'temperature'",
        f"{desk.theirs}:1: ",
    ):
        assert piece in error


def test_check_takes_any_file(desk: Desk, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("permissions: {allow: [ls]}\n")
    other.chmod(0o600)
    result = desk("check", str(other))
    assert (result.stdout, result.stderr) == (f"ok: {other}\n", "")
    other.write_text("x: 1\n")
    assert f"{other}:1: unknown key 'x'" in desk("check", str(other), code=2).stderr
    assert "none.yaml" in desk("check", str(tmp_path / "none.yaml"), code=2).stderr
    desk.theirs.write_text("permissions: {allow: [ls]}\n")
    assert "is ignored" in desk("check", str(desk.theirs)).stderr


def test_a_wrong_configuration_is_told_without_a_traceback(desk: Desk) -> None:
    desk.says("defaults: {max_tokens: [1}\n")
    assert f"{desk.file}:1: invalid YAML" in desk("show", code=2).stderr


# ---------------------------------------------------------------- set


def test_set_makes_a_private_file(desk: Desk) -> None:
    result = desk("set", "limits.turns", "30")
    assert result.stdout == f"limits.turns: 30  # {desk.file}\n"
    assert desk.file.read_text() == "limits:\n  turns: 30\n"
    assert stat.S_IMODE(desk.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(desk.file.parent.stat().st_mode) == 0o700


def test_set_keeps_comments_and_order_and_closes_the_file_to_others(desk: Desk) -> None:
    desk.says(
        "# mine\nlimits:\n  turns: 5   # few\n  seconds: 9\n\ndefaults: {mode: ask}   # careful\n",
        0o644,
    )
    desk("set", "limits.turns", "7")
    desk("set", "defaults.effort", "low")
    desk("set", "permissions.deny", '["rm -rf", sudo]')
    assert desk.file.read_text() == (
        '# mine\nlimits:\n  turns: 7   # few\n  seconds: 9\n\ndefaults: {mode: ask, effort: low}   # careful\npermissions:\n  deny: ["rm -rf", sudo]\n'
    )
    assert stat.S_IMODE(desk.file.stat().st_mode) == 0o600
    assert os.listdir(desk.file.parent) == ["config.yaml"]


@pytest.mark.parametrize(
    ("key", "value", "written"),
    [
        ("defaults.temperature", "null", "null"),
        ("defaults.temperature", "0.5", "0.5"),
        ("defaults.thinking", "true", "true"),
        ("defaults.thinking", "adaptive", "adaptive"),
        ("defaults.sandbox", "off", '"off"'),
        ("models.large", "anthropic:x", '"anthropic:x"'),
        ("providers.anthropic.api_key", "12345678", '"12345678"'),
        ("providers.anthropic.headers.X-Team", "blue", "blue"),
        ("limits.cost_usd", "1.5", "1.5"),
    ],
)
def test_set_takes_values_as_they_are_typed(desk: Desk, key: str, value: str, written: str) -> None:
    desk("set", key, value)
    assert desk.file.read_text().endswith(f"{key.rpartition('.')[2]}: {written}\n")
    desk("check")


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("limits.trns", "3", "did you mean 'turns'"),
        ("limts.turns", "3", "did you mean 'limits'"),
        ("limits", "3", "limits is a group: name a key in it: turns"),
        ("providers", "3", "providers is a group: name a key in it: NAME"),
        ("limits.turns.x", "3", "limits.turns is a single value"),
        ("limits.turns", "soon", "limits.turns must be a whole number of at least 1, not 'soon'"),
        ("limits.turns", "[1", "whole number"),
        ("limits.turns", "", "whole number"),
        ("permissions.allow", "git", "must be a list"),
        ("defaults.mode", "fulll", "did you mean 'full'"),
        ("models.large", "antropic:x", "did you mean 'anthropic'"),
        ("models.large", "opus", "PROVIDER:MODEL"),
        ("providers.local.base_url", "http://h", "providers.local needs a type"),
        ("providers.script.type", "openai", "'script' cannot be a name"),
        ("", "1", "unknown key ''"),
    ],
)
def test_set_refuses_what_would_be_wrong_and_writes_nothing(
    desk: Desk, key: str, value: str, what: str
) -> None:
    desk.says("# mine\n")
    assert what in desk("set", key, value, code=2).stderr
    assert desk.file.read_text() == "# mine\n"


def test_set_never_shows_a_secret(desk: Desk) -> None:
    assert CANARY not in desk("set", "providers.anthropic.api_key", CANARY).output
    assert CANARY in desk.file.read_text()
    assert (
        CANARY
        not in desk("set", "providers.anthropic.api_key", f"{CANARY} {CANARY}", code=2).output
    )


def test_set_reads_a_dash_from_standard_input(desk: Desk) -> None:
    desk("set", "providers.anthropic.api_key", "-", given=f"{CANARY}\n")
    assert desk.file.read_text() == f"providers:\n  anthropic:\n    api_key: {CANARY}\n"


def test_set_mends_a_wrong_value_but_does_not_build_on_a_broken_file(desk: Desk) -> None:
    desk.says("limits: {turns: soon}\n")
    desk("set", "limits.turns", "3")
    desk.says("limits: {turns: soon}\n")
    assert (
        f"{desk.file}:1: limits.turns must be"
        in desk("set", "defaults.mode", "plan", code=2).stderr
    )
    desk.says("limits: {turns: 3\n")
    assert f"{desk.file}:" in desk("set", "defaults.mode", "plan", code=2).stderr


def test_set_does_not_bless_a_file_that_others_may_write_to(desk: Desk) -> None:
    desk.says("limits: {turns: 3}\n", 0o666)
    assert "chmod 600" in desk("set", "limits.turns", "4", code=2).stderr
    assert desk.file.read_text() == "limits: {turns: 3}\n"


def test_set_follows_a_link_and_leaves_it_one(desk: Desk, tmp_path: Path) -> None:
    desk.file.parent.mkdir(parents=True)
    (tmp_path / "dotfiles.yaml").write_text("limits: {turns: 3}\n")
    (tmp_path / "dotfiles.yaml").chmod(0o600)
    desk.file.symlink_to(tmp_path / "dotfiles.yaml")
    desk("set", "limits.turns", "4")
    assert desk.file.is_symlink()
    assert (tmp_path / "dotfiles.yaml").read_text() == "limits: {turns: 4}\n"


@pytest.mark.parametrize(
    "command", [("show",), ("path",), ("check",), ("set", "limits.turns", "30")]
)
def test_a_home_that_is_a_file_is_said_by_every_command(
    desk: Desk, command: tuple[str, ...]
) -> None:
    desk.env["TREADLE_HOME"] = str(desk.project / "notes.txt")
    (desk.project / "notes.txt").write_text("mine")
    assert "notes.txt' is not a folder: name one" in desk(*command, code=2).stderr
    assert (desk.project / "notes.txt").read_text() == "mine"


def test_set_says_where_it_cannot_write(desk: Desk) -> None:
    desk.file.parent.parent.write_text("a file where the folder should be")
    assert f"{desk.file}: cannot be written" in desk("set", "limits.turns", "4", code=2).stderr


def test_set_of_the_same_value_twice_changes_nothing(desk: Desk) -> None:
    desk("set", "limits.turns", "4")
    before = desk.file.read_text()
    desk("set", "limits.turns", "4")
    assert desk.file.read_text() == before
