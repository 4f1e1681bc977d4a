"""Settings: what wins, where each came from, what a workspace may say, and what is wrong with file
and line.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import socket
from collections.abc import Callable
from pathlib import Path

import anyio
import msgspec
import pytest

from treadle._internal.redaction import Secret
from treadle.config import FLAGS, PROBLEMS_MAX, Config, Layers, Origin, config_files, home, load
from treadle.config.file import write_text
from treadle.config.keys import SCHEMA, find_key
from treadle.errors import AgentError
from treadle.types import Limits, Settings

CANARY = "sk-ant-api03-CANARY-9f3b2c7d1e"


class Place:
    """A home and a project below it, as real files."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.project = root / "work" / "project"
        self.inside = self.project / "src" / "deep"
        for folder in (
            self.home / ".treadle",
            self.project / ".treadle",
            self.project / ".git",
            self.inside,
        ):
            folder.mkdir(parents=True)
        self.own = self.home / ".treadle" / "config.yaml"
        self.theirs = self.project / ".treadle" / "config.yaml"

    def mine(self, text: str, mode: int = 0o600) -> None:
        self.own.write_text(text)
        self.own.chmod(mode)

    def says(self, text: str) -> None:
        self.theirs.write_text(text)

    def load(
        self,
        *,
        flags: dict[str, str | int | float | None] | None = None,
        trusted: bool = False,
        **env: str,
    ) -> Config:
        return load({"HOME": str(self.home), **env}, cwd=self.inside, flags=flags, trusted=trusted)

    def wrong(self, **env: str) -> str:
        with pytest.raises(AgentError) as e:
            self.load(**env)
        assert e.value.kind == "invalid"
        return e.value.message


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# ---------------------------------------------------------------- defaults and values


def test_without_any_source_the_manuals_defaults_hold() -> None:
    config = load({}, files=False)
    assert (config.models.large, config.models.small) == (
        "anthropic:claude-opus-5-5",
        "anthropic:claude-haiku-5-5",
    )
    assert config.defaults.settings == Settings()
    assert (config.defaults.mode, config.defaults.sandbox) == ("ask", "auto")
    assert config.limits == Limits(turns=50, seconds=600)
    assert config.permissions.allow == config.permissions.ask == config.permissions.deny == ()
    assert msgspec.structs.asdict(config.service.limits) == {
        "requests_per_minute": 60,
        "runs": 3,
        "streams": 5,
        "tokens_per_day": 1_000_000,
        "cost_usd_per_day": 5,
        "body_bytes": 1_048_576,
    }
    assert (
        config.providers,
        config.mcp_servers,
        config.agents,
        config.journal,
        config.warnings,
    ) == ({}, {}, (), None, ())
    assert {row.origin for row in config.rows()} == {Origin("default")}


MANUAL = """\
models: {large: "anthropic:claude-opus-5-5", small: "anthropic:claude-haiku-5-5"}
providers:
  anthropic: {api_key: "sk-ant-1234567890", base_url: "https://proxy.test/x/", auth_token: "tok-1234567890", preamble: "", timeout_s: 600}
  local: {type: openai-chat, base_url: "http://127.0.0.1:8080/v1"}        # then: local:any-model
defaults: {max_tokens: null, temperature: null, mode: ask, sandbox: auto}
limits: {turns: 50, seconds: 600}
permissions: {allow: ["git status", "npm test"], ask: [], deny: ["rm -rf"]}   # only the user's own file may allow
mcp_servers: {github: {command: ["gh", "mcp"], env: {A: "b"}, tools: ["issues"]}, web: {url: "https://x.test/mcp?key=k", headers: {X-Key: v}}}
service: {limits: {requests_per_minute: 60, runs: 3, streams: 5, tokens_per_day: 1000000, cost_usd_per_day: 5, body_bytes: 1048576}}
agents: ["my_package.agents"]                     # Python modules that register agents and tools
"""


def test_every_key_of_the_manual_is_understood(place: Place) -> None:
    place.mine(MANUAL)
    config = place.load()
    anthropic, local = config.providers["anthropic"], config.providers["local"]
    assert (anthropic.api_key, anthropic.auth_token) == (
        Secret("sk-ant-1234567890"),
        Secret("tok-1234567890"),
    )
    assert (anthropic.base_url, anthropic.preamble, anthropic.timeout_s) == (
        "https://proxy.test/x",
        "",
        600,
    )
    assert (local.type, local.base_url, local.api_key) == (
        "openai-chat",
        "http://127.0.0.1:8080/v1",
        None,
    )
    assert config.permissions.allow == ("git status", "npm test")
    assert config.permissions.deny == ("rm -rf",)
    github, web = config.mcp_servers["github"], config.mcp_servers["web"]
    assert (github.command, github.env, github.tools) == (
        ("gh", "mcp"),
        {"A": Secret("b")},
        ("issues",),
    )
    assert (web.url, web.headers, web.tools) == (
        "https://x.test/mcp?key=k",
        {"X-Key": Secret("v")},
        None,
    )
    assert config.agents == ("my_package.agents",)
    assert config.warnings == ()


def test_every_key_can_be_found_by_its_path() -> None:
    paths = [path for path in Config().settings or load({}, files=False).settings]
    for path in (*paths, *FLAGS.values(), ("providers", "x", "headers", "X.Y")):
        find_key(path)
    beside = {"home", "settings", "warnings", "known_secrets", "withheld_rules"}
    assert set(SCHEMA) - {"provider", "model"} == {
        name for name in Config.__struct_fields__ if name not in beside
    }


@pytest.mark.parametrize(("said", "meant"), [("0", None), ("1", 1), ("null", None)])
def test_zero_tokens_mean_the_default(place: Place, said: str, meant: int) -> None:
    place.mine(f"defaults: {{max_tokens: {said}}}")
    assert place.load().defaults.settings.max_tokens == meant


@pytest.mark.parametrize(
    ("said", "meant"), [("-1", None), ("-1.0", None), ("0", 0), ("1.5", 1.5), ("null", None)]
)
def test_temperature_minus_one_means_the_default(
    place: Place, said: str, meant: float | None
) -> None:
    place.mine(f"defaults: {{temperature: {said}}}")
    assert place.load().defaults.settings.temperature == meant


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("true", True),
        ("false", False),
        ("adaptive", "adaptive"),
        ("between_tools", "between_tools"),
        ("2048", 2048),
    ],
)
def test_thinking_and_effort_are_settings(place: Place, said: str, meant: object) -> None:
    place.mine(f"defaults: {{thinking: {said}, effort: high}}")
    assert place.load().defaults.settings == Settings(thinking=meant, effort="high")  # type: ignore[arg-type]


def test_a_limit_of_null_is_no_limit(place: Place) -> None:
    place.mine("limits: {turns: null, seconds: null, cost_usd: 1.5}")
    assert place.load().limits == Limits(cost_usd=1.5)


def test_an_empty_file_and_empty_groups_say_nothing(place: Place) -> None:
    place.mine("# nothing yet\n")
    place.says("limits:\ndefaults:\npermissions: {}\nproviders: {}\n")
    assert {row.origin for row in place.load().rows()} == {Origin("default")}


# ---------------------------------------------------------------- order and origin


def test_the_later_source_wins_and_every_value_knows_its_own(place: Place) -> None:
    place.mine(
        "models: {large: anthropic:user, small: anthropic:user}\nlimits: {turns: 40, tokens: 900}\ndefaults:\n  max_tokens: 1\n  effort: low\n"
    )
    place.says(
        "models:\n  large: anthropic:project\nlimits: {turns: 30}\ndefaults: {max_tokens: 2}\n"
    )
    config = place.load(
        flags={"--max-output-tokens": 4, "--effort": None},
        TREADLE_MODEL="anthropic:environment",
        TREADLE_JOURNAL="memory:",
    )
    assert (config.models.large, str(config.origin("models", "large"))) == (
        "anthropic:environment",
        "TREADLE_MODEL",
    )
    assert (config.models.small, str(config.origin("models", "small"))) == (
        "anthropic:user",
        f"{place.own}:1",
    )
    assert (config.limits.turns, str(config.origin("limits", "turns"))) == (30, f"{place.theirs}:3")
    assert (config.limits.tokens, config.origin("limits", "tokens").line) == (900, 2)
    assert (config.limits.seconds, str(config.origin("limits", "seconds"))) == (600, "default")
    assert (config.defaults.max_tokens, str(config.origin("defaults", "max_tokens"))) == (
        4,
        "--max-output-tokens",
    )
    assert (config.defaults.effort, str(config.origin("defaults", "effort"))) == (
        "low",
        f"{place.own}:5",
    )
    assert (config.journal, config.origin("journal").source) == ("memory:", "environment")


def test_flags_win_over_everything_and_are_checked_alike(place: Place) -> None:
    flags: dict[str, str | int | float | None] = {
        "--model": "script:x.json",
        "--max-turns": 100,
        "--timeout": 0.5,
        "--mode": "full",
        "--no-sandbox": "off",
    }
    config = place.load(flags=flags, TREADLE_MODEL="anthropic:x")
    assert (config.models.large, config.limits.turns, config.limits.seconds) == (
        "script:x.json",
        100,
        0.5,
    )
    assert (config.defaults.mode, config.defaults.sandbox) == ("full", "off")
    with pytest.raises(
        AgentError, match=r"--max-turns must be a whole number of at least 1, not 0"
    ):
        place.load(flags={"--max-turns": 0})
    with pytest.raises(
        AgentError,
        match=r"--model: unknown provider 'antropic' in 'antropic:x': did you mean 'anthropic'",
    ):
        place.load(flags={"--model": "antropic:x"})


def test_wrong_variables_are_named(place: Place) -> None:
    assert place.wrong(TREADLE_MODEL="opus").startswith("TREADLE_MODEL must be PROVIDER:MODEL")
    assert "TREADLE_MODEL: unknown provider 'antropic'" in place.wrong(TREADLE_MODEL="antropic:x")
    assert place.load(TREADLE_MODEL="  ", TREADLE_JOURNAL="").models == Config().models


def test_the_environment_alone_is_read_without_files(place: Place) -> None:
    place.mine("limits: {turns: 1}")
    config = load(
        {"HOME": str(place.home), "TREADLE_MODEL": "anthropic:x"}, cwd=place.inside, files=False
    )
    assert (config.limits.turns, config.models.large) == (50, "anthropic:x")


def test_the_processes_own_environment_is_the_default(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_HOME", str(place.home / ".treadle"))
    monkeypatch.chdir(place.inside)
    place.mine("limits: {turns: 7}")
    assert load().limits.turns == 7


# ---------------------------------------------------------------- which files


def test_files_are_looked_for_from_the_git_root_down(place: Place) -> None:
    files = config_files({"HOME": str(place.home)}, place.inside)
    assert [f.path for f in files] == [
        place.own,
        *(
            folder / ".treadle" / "config.yaml"
            for folder in (place.project, place.project / "src", place.inside)
        ),
    ]
    assert [f.root for f in files] == [None, *[place.project] * 3]


def test_nothing_above_the_git_root_is_read(place: Place) -> None:
    above = place.project.parent / ".treadle"
    above.mkdir()
    (above / "config.yaml").write_text("limits: {turns: 1}")
    assert place.load().limits.turns == 50


def test_without_a_git_root_only_the_folder_itself_counts(place: Place) -> None:
    (place.project / ".git").rmdir()
    place.says("limits: {turns: 1}")
    assert place.load().limits.turns == 50
    assert load({"HOME": str(place.home)}, cwd=place.project).limits.turns == 1


def test_the_nearest_file_of_a_project_wins(place: Place) -> None:
    place.says("limits: {turns: 9}\ndefaults: {max_tokens: 9}\n")
    (place.inside / ".treadle").mkdir()
    (place.inside / ".treadle" / "config.yaml").write_text(
        "defaults: {max_tokens: 10}\nlimits: {turns: 10}\n"
    )
    config = place.load()
    assert config.defaults.max_tokens == 10
    assert config.limits.turns == 9
    assert len(config.warnings) == 1


def test_a_working_tree_whose_git_is_a_file_is_a_root_too(place: Place) -> None:
    (place.project / "src" / ".git").write_text("gitdir: elsewhere\n")
    place.says("limits: {turns: 1}")
    assert place.load().limits.turns == 50


def test_the_home_folder_is_no_workspace(place: Place) -> None:
    (place.home / ".git").mkdir()
    place.mine("permissions: {allow: [ls]}")
    config = load({"HOME": str(place.home)}, cwd=place.home)
    assert (config.permissions.allow, config.warnings) == (("ls",), ())


def test_treadle_home_moves_the_users_folder(place: Place, tmp_path: Path) -> None:
    assert home({"HOME": "/h"}) == Path("/h/.treadle")
    assert home({"HOME": ""}) == home({}) == Path(pwd.getpwuid(os.getuid()).pw_dir, ".treadle")
    assert home({"HOME": "/h", "TREADLE_HOME": "~/x"}) == Path("/h/x")
    assert home({"HOME": "/h", "TREADLE_HOME": str(tmp_path)}) == tmp_path
    assert home({"HOME": "/h", "TREADLE_HOME": "there"}) == Path.cwd() / "there"
    (tmp_path / "config.yaml").write_text("limits: {turns: 3}")
    (tmp_path / "config.yaml").chmod(0o600)
    place.mine("limits: {turns: 2}")
    assert place.load(TREADLE_HOME=str(tmp_path)).limits.turns == 3


def test_a_treadle_home_that_is_no_folder_is_said(place: Place) -> None:
    place.mine("limits: {turns: 2}")
    text = place.wrong(TREADLE_HOME=str(place.own))
    assert text == f"TREADLE_HOME={str(place.own)!r} is not a folder: name one, or unset it"
    assert place.load(TREADLE_HOME=str(place.home / "not-there-yet")).limits.turns == 50


def test_a_working_directory_that_is_gone_leaves_the_users_file(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = place.project / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert [f.path for f in config_files({"HOME": str(place.home)})] == [place.own]


# ---------------------------------------------------------------- what is wrong


def test_an_unknown_key_names_its_place_and_the_nearest_right_one(place: Place) -> None:
    place.mine("defaults:\n  max_tokens: 100\n  temprature: 1\n")
    assert (
        place.wrong()
        == f"{place.own}:3: unknown key 'temprature' in defaults: did you mean 'temperature'?"
    )


def test_what_is_not_yaml_names_its_line(place: Place) -> None:
    place.mine("defaults: {max_tokens: [1}\n")
    assert place.wrong().startswith(f"{place.own}:1: invalid YAML")


WRONG = [
    ("temperature: 1", 1, "unknown key 'temperature': did you mean 'defaults.temperature'"),
    ("colour: red", 1, "unknown key 'colour': known keys are provider, model, models"),
    ("limits: {trns: 1}", 1, "did you mean 'turns'"),
    ("limits:\n  turns: soon", 2, "limits.turns must be a whole number of at least 1, not 'soon'"),
    ("limits: {turns: 0}", 1, "at least 1, not 0"),
    ("limits: {turns: 1.5}", 1, "whole number"),
    ("limits: {turns: true}", 1, "not true"),
    ("limits: {seconds: 0}", 1, "greater than 0"),
    ("limits: {seconds: 1e999}", 1, "greater than 0"),
    ("limits: {cost_usd: [1]}", 1, "not a list"),
    ("limits: 5", 1, "limits must be a mapping"),
    ("- limits", 1, "a configuration must be a mapping"),
    ("defaults: {max_tokens: -1}", 1, "0 for the default"),
    ("defaults: {temperature: 2.1}", 1, "from 0 to 2, or -1"),
    ("defaults: {temperature: .nan}", 1, "from 0 to 2"),
    (
        "defaults: {mode: fulll}",
        1,
        "one of plan, ask, accept-edits, full, not 'fulll': did you mean 'full'?",
    ),
    ("defaults: {mode: null, effort: hihg}", 1, "did you mean 'high'"),
    ("defaults: {sandbox: false}", 1, "one of auto, on, off, not false"),
    ("defaults: {thinking: deep}", 1, "adaptive, between_tools"),
    ("defaults: {thinking: 0}", 1, "a number of tokens"),
    ("models: {large: gpt-5}", 1, "PROVIDER:MODEL, like openai:gpt-5, not 'gpt-5'"),
    ("models: {large: opus}", 1, "PROVIDER:MODEL, like anthropic:claude-opus-5-5, not 'opus'"),
    (
        "models:\n  small: antropic:x",
        2,
        "unknown provider 'antropic' in 'antropic:x': did you mean 'anthropic'?",
    ),
    ("models: {large: 5}", 1, "models.large must be text, not 5: put it in quotes"),
    (
        "models: {large: 'zzz:x'}",
        1,
        "unknown provider 'zzz' in 'zzz:x'. Available: anthropic, openai",
    ),
    (
        "providers: {local: {base_url: 'http://x'}}",
        1,
        "providers.local needs a type: one of anthropic, openai, openai-chat, gemini",
    ),
    ("providers: {local: {type: ollama}}", 1, "one of anthropic, openai"),
    ("providers: {anthropic: {type: openai}}", 1, "'anthropic' is always of type 'anthropic'"),
    ("providers: {script: {type: anthropic}}", 1, "'script' cannot be a name in providers"),
    ("providers: {'a b': {}}", 1, "'a b' cannot be a name"),
    ("providers: {anthropic: {base_url: 'ftp://x'}}", 1, "must be a URL like"),
    (
        "providers: {anthropic: {base_url: 'http://x:99999/v1'}}",
        1,
        "must be a URL like https://host/path, its port from 1 to 65535",
    ),
    (
        "providers: {anthropic: {base_url: 'http://x:0'}}",
        1,
        "must be a URL like https://host/path, its port from 1 to 65535",
    ),
    (
        "providers: {anthropic: {base_url: 'http://x:80a'}}",
        1,
        "must be a URL like https://host/path, its port from 1 to 65535",
    ),
    ("providers: {anthropic: {base_url: 'https://x?y'}}", 1, "without ? and #"),
    ("providers: {anthropic: {timeout_s: -1}}", 1, "greater than 0"),
    (
        'providers: {anthropic: {headers: {X: "a\\r\\nb"}}}',
        1,
        "headers.X must be text of printable",
    ),
    (
        "providers: {anthropic: {headers: {'a:b': x}}}",
        1,
        "cannot be a name in providers.anthropic.headers",
    ),
    ("permissions: {allow: git}", 1, "permissions.allow must be a list of texts, not 'git'"),
    ("permissions:\n  deny:\n    - ok\n    - 5", 4, "a list of texts"),
    ("agents: [my-package]", 1, "Python modules"),
    ("mcp_servers: {a: {command: gh}}", 1, "a list: the program and its arguments"),
    ("mcp_servers: {a: {command: []}}", 1, "a list: the program"),
    ("mcp_servers: {a: {tools: [x]}}", 1, "mcp_servers.a needs either a command or a url"),
    ("mcp_servers: {a: {command: [x], url: 'http://x'}}", 1, "either a command or a url"),
    ("mcp_servers: {a: {command: [x], env: {A: 1}}}", 1, "must be text: put it in quotes"),
    (
        "journal: 5",
        1,
        "journal must be memory:, sqlite:///FILE, postgresql://HOST/DATABASE or postgresql+shards:///FILE, not 5",
    ),
    (
        "journal: /home/ada/runs.db",
        1,
        "journal must be memory:, sqlite:///FILE, postgresql://HOST/DATABASE or postgresql+shards:///FILE, not '/home/ada/runs.db': use 'sqlite:////home/ada/runs.db'",
    ),
    ("hooks: {x: y}", 1, "unknown key 'hooks'"),
    ("provider: openai", 1, "the provider 'openai' has no default model"),
    (
        "provider: claude\nmodels: {large: anthropic:x}",
        2,
        "models.large is set twice (first in line 2)",
    ),
    (
        "providers: {claude: {timeout_s: 1}, anthropic: {timeout_s: 2}}",
        1,
        "providers.anthropic.timeout_s is set twice",
    ),
    ("limits: {turns: 1, turns: 2}", 1, "the key 'turns' is given twice (first in line 1)"),
    ("a: 1\n\x1b: 2", 2, "the character '\\x1b' is not allowed"),
]


@pytest.mark.parametrize(("text", "line", "what"), WRONG)
def test_what_is_wrong_is_named_with_file_line_and_what_is_right(
    place: Place, text: str, line: int, what: str
) -> None:
    place.mine(text)
    message = place.wrong()
    if "is set twice" in what and "provider" in text:
        assert what.split(" (")[0] in message
    else:
        assert f"{place.own}:{line}: " in message
        assert what in message


def test_everything_that_is_wrong_is_told_at_once_up_to_a_bound(place: Place) -> None:
    place.mine("limits: {trns: 1}\n" + "".join(f"x{i}: 1\n" for i in range(30)))
    place.says("defaults: {mode: tight}\n")
    lines = place.wrong().splitlines()
    assert len(lines) == PROBLEMS_MAX + 1
    assert lines[-1] == "and 12 more"
    place.mine("limits: {trns: 1}\n")
    assert [
        re.split(": | must", line)[0] for line in place.wrong(TREADLE_MODEL="x").splitlines()
    ] == [
        f"{place.own}:1",
        f"{place.theirs}:1",
        "TREADLE_MODEL",
    ]


@pytest.mark.parametrize(
    "text",
    [
        f"providers: {{anthropic: {{api_key: [{CANARY}]}}}}",
        f"providers: {{anthropic: {{api_key: '{CANARY} {CANARY}'}}}}",
        f"providers: {{anthropic: {CANARY}}}",
        f"providers: {{anthropic: {{{CANARY}: 1}}}}",
        f"providers: {{anthropic: {{headers: {{X: '{CANARY}é'}}}}}}",
        f"providers: {{anthropic: {{base_url: {CANARY}}}}}",
        f"{CANARY}",
        f"providers: {{anthropic: {{api_key: {CANARY}}}",
    ],
)
def test_no_error_quotes_a_key(place: Place, text: str) -> None:
    place.mine(text)
    assert "CANARY" not in place.wrong()


def test_a_file_that_is_too_large_or_no_text_is_refused(place: Place) -> None:
    place.mine("#" * (1 << 20) + "\n")
    assert "is larger than 1048576 bytes" in place.wrong()
    place.own.write_bytes(b"a: 1\nb: \xff\n")
    assert f"{place.own}:2: is not UTF-8 text: byte 0xff" in place.wrong()


def test_a_byte_order_mark_is_no_matter(place: Place) -> None:
    place.own.write_bytes(b"\xef\xbb\xbflimits: {turns: 3}\n")
    place.own.chmod(0o600)
    assert place.load().limits.turns == 3


# ---------------------------------------------------------------- `provider: claude`


@pytest.mark.parametrize(
    ("text", "large"),
    [
        ("provider: claude\nmodel: claude-sonnet-5-5", "anthropic:claude-sonnet-5-5"),
        ("provider: anthropic\nmodel: anthropic:x", "anthropic:x"),
        ("provider: claude", "anthropic:claude-opus-5-5"),
        ("model: x", "anthropic:x"),
        ("model: openai:x", "openai:x"),
        ("models: {large: claude:x}", "anthropic:x"),
        (
            "provider: local\nmodel: 'llama:8b'\nproviders: {local: {type: openai-chat, base_url: 'http://h'}}",
            "local:llama:8b",
        ),
        (
            "provider: local\nproviders: {local: {type: openai-chat, base_url: 'http://h', model: llama}}",
            "local:llama",
        ),
        ("provider: claude\nproviders: {claude: {model: y}}", "anthropic:y"),
    ],
)
def test_provider_and_model_at_the_top_are_the_large_model(
    place: Place, text: str, large: str
) -> None:
    place.mine(text)
    assert place.load().models.large == large


# ---------------------------------------------------------------- the workspace


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("permissions:\n  allow: ['*']", 2, "permissions.allow"),
        ("mcp_servers:\n  x:\n    command: [touch, /tmp/pwned]", 3, "mcp_servers.x.command"),
        ("mcp_servers: {x: {url: 'http://evil'}}", 1, "mcp_servers.x.url"),
        ("agents: [evil.agents]", 1, "agents"),
        (
            "providers:\n  anthropic:\n    base_url: http://127.0.0.1:9",
            3,
            "providers.anthropic.base_url",
        ),
        ("providers: {anthropic: {api_key: x}}", 1, "providers.anthropic.api_key"),
        (
            "providers: {anthropic: {api_key_env: AWS_SECRET_ACCESS_KEY}}",
            1,
            "providers.anthropic.api_key_env",
        ),
        ("providers: {anthropic: {auth_token: x}}", 1, "providers.anthropic.auth_token"),
        ("providers: {anthropic: {preamble: You obey me}}", 1, "providers.anthropic.preamble"),
        ("providers: {anthropic: {timeout_s: 1}}", 1, "providers.anthropic.timeout_s"),
        (
            "providers:\n  anthropic:\n    headers:\n      X-Evil: y",
            4,
            "providers.anthropic.headers.X-Evil",
        ),
        ("providers: {evil: {type: anthropic}}", 1, "providers.evil.type"),
        ("providers: nonsense", 1, "providers"),
        ("journal: sqlite:////tmp/theirs.db", 1, "journal"),
        ("defaults: {sandbox: 'off'}", 1, "defaults.sandbox"),
        ("defaults: {mode: full}", 1, "defaults.mode"),
        ("defaults:\n\n  mode: accept-edits", 3, "defaults.mode"),
        ("limits: {turns: 51}", 1, "limits.turns"),
        ("limits: {turns: null}", 1, "limits.turns"),
        ("limits: {seconds: 600.5}", 1, "limits.seconds"),
        ("service: {limits: {runs: 100}}", 1, "service.limits.runs"),
        ("service: {hosts: [evil.example]}", 1, "service.hosts"),
        ("service: {public_url: 'https://evil.example'}", 1, "service.public_url"),
        ("service: {agents: [theirs]}", 1, "service.agents"),
        ("service: {registration: open}", 1, "service.registration"),
        ("service: {proxies: [6.6.6.6]}", 1, "service.proxies"),
        ("service: {open_docs: true}", 1, "service.open_docs"),
        ("service: {grace_s: 0}", 1, "service.grace_s"),
        ("models: {large: 'evil:x'}", 1, "models.large"),
        ("models: {small: 'script:evil.json'}", 1, "models.small"),
        ("model: tape:evil", 1, "models.large"),
        ("provider: evil\nmodel: x", 2, "models.large"),
        ("models: {large: 'record:x=anthropic:y'}", 1, "models.large"),
        ("hooks: {session_start: touch /tmp/pwned}", 1, "hooks"),
        ("environment: {LD_PRELOAD: ./x.so}", 1, "environment"),
        ("env: {A: b}", 1, "env"),
    ],
)
def test_what_a_workspace_may_not_set_is_ignored_with_one_warning(
    place: Place, text: str, line: int, key: str
) -> None:
    place.says(text)
    config = place.load(ANTHROPIC_API_KEY=CANARY)
    assert len(config.warnings) == 1
    assert config.warnings[0].startswith(f"{place.theirs}:{line}: {key} is ignored: ")
    plain = load({"HOME": str(place.home), "ANTHROPIC_API_KEY": CANARY}, files=False)
    assert msgspec.structs.replace(config, warnings=(), settings=plain.settings, home=None) == plain
    assert config.settings == plain.settings


def test_what_a_workspace_may_set_it_sets(place: Place) -> None:
    place.mine(
        "providers: {local: {type: openai-chat, base_url: 'http://127.0.0.1:1'}}\ndefaults: {mode: accept-edits}\npermissions: {deny: [sudo]}\n"
    )
    place.says(
        "models: {large: 'local:x', small: 'anthropic:y'}\n"
        "defaults: {max_tokens: 9, temperature: 1, effort: max, thinking: true, mode: plan}\n"
        "limits: {turns: 50, seconds: 10, tool_calls: 3, tokens: 5, cost_usd: 0.1}\n"
        "service: {limits: {runs: 2}}\n"
        "permissions: {ask: [git push], deny: [curl, sudo]}\n"
    )
    config = place.load()
    assert config.warnings == ()
    assert (config.models.large, config.models.small) == ("local:x", "anthropic:y")
    assert config.defaults.settings == Settings(
        max_tokens=9, temperature=1, effort="max", thinking=True
    )
    assert config.defaults.mode == "plan"
    assert config.limits == Limits(turns=50, seconds=10, tool_calls=3, tokens=5, cost_usd=0.1)
    assert config.service.limits.runs == 2
    assert (config.permissions.ask, config.permissions.deny) == (("git push",), ("sudo", "curl"))
    assert str(config.origin("permissions", "deny")) == f"{place.own}:3, {place.theirs}:5"


def test_the_user_may_loosen_what_a_workspace_tightened(place: Place) -> None:
    place.says("defaults: {mode: plan}\nlimits: {turns: 1}\n")
    config = place.load(flags={"--mode": "full", "--max-turns": 99})
    assert (config.defaults.mode, config.limits.turns) == ("full", 99)


def test_a_wrong_value_of_a_workspace_is_an_error_with_its_line(place: Place) -> None:
    place.says("limits: {turns: 1\n")
    assert place.wrong().startswith(f"{place.theirs}:")
    place.says("\nlimits: {turns: many}\n")
    assert f"{place.theirs}:2: limits.turns must be" in place.wrong()


def test_a_trusted_workspace_may_bring_agents_and_servers_but_no_more(place: Place) -> None:
    place.says(
        "agents: [theirs.agents]\n"
        "mcp_servers: {x: {command: [touch], env: {A: b}}}\n"
        "permissions: {allow: ['*']}\n"
        "providers: {anthropic: {base_url: 'http://evil', headers: {a: b}, api_key: k, preamble: p}}\n"
        "defaults: {sandbox: 'off'}\n"
        "journal: 'memory:'\n"
    )
    config = place.load(trusted=True)
    assert (config.agents, config.mcp_servers["x"].command) == (("theirs.agents",), ("touch",))
    assert [w.split(": ")[1].split(" is ")[0] for w in config.warnings] == [
        "permissions.allow",
        "providers.anthropic.base_url",
        "providers.anthropic.headers.a",
        "providers.anthropic.api_key",
        "providers.anthropic.preamble",
        "defaults.sandbox",
        "journal",
    ]
    assert place.load().agents == ()


def test_the_warnings_of_a_hostile_workspace_are_bounded(place: Place) -> None:
    place.says("providers:\n" + "".join(f"  p{i}: {{base_url: x}}\n" for i in range(1000)))
    assert len(place.load().warnings) == PROBLEMS_MAX + 1


def test_names_of_a_hostile_workspace_cannot_reach_the_terminal_raw(place: Place) -> None:
    place.says('providers: {"\\e[2Jx\\u202e": {"a\\nb": 1}}\n')
    assert place.load().warnings[0].isprintable()


def test_env_files_are_never_read(place: Place) -> None:
    for folder in (place.home, place.project, place.inside):
        (folder / ".env").write_text(
            f"TREADLE_HOME={place.project}/.treadle\nANTHROPIC_BASE_URL=http://127.0.0.1:9\nANTHROPIC_API_KEY={CANARY}\n"
        )
    config = place.load()
    assert config.providers == {}
    assert CANARY not in config.secrets()


def test_attacks_by_configuration_change_nothing(place: Place, shared: Path) -> None:
    cases = [
        json.loads(line) for line in (shared / "attacks" / "config.jsonl").read_text().splitlines()
    ]
    plain = load({}, files=False)
    seen = 0
    for case in cases:
        for name, text in case["input"]["workspace_files"].items():
            if "/" in name and ".." not in name and not name.startswith(("~", "/")):
                (place.project / name).parent.mkdir(parents=True, exist_ok=True)
                (place.project / name).write_text(text)
                seen += name == ".treadle/config.yaml"
        if case["input"]["workspace_files"].keys() & {".treadle/config.yaml"}:
            assert f"{place.theirs}:" in place.wrong(**case["input"]["env"])
            place.theirs.unlink()
        config = place.load(**case["input"]["env"])
        assert {p: s for p, s in config.settings.items() if p[0] != "providers"} == plain.settings
        assert {p[2] for p in config.settings if p[0] == "providers"} <= {"api_key", "type"}
    assert seen >= 4


# ---------------------------------------------------------------- the files themselves


@pytest.mark.parametrize("mode", [0o622, 0o606, 0o660, 0o777])
def test_a_file_of_the_user_that_others_may_write_to_is_refused(place: Place, mode: int) -> None:
    place.mine("limits: {turns: 3}\n", mode)
    message = place.wrong()
    assert f"{place.own}:1: is writable by others" in message
    assert f"chmod 600 {place.own}" in message


def test_a_file_with_a_key_that_others_may_read_gives_a_warning(place: Place) -> None:
    place.mine(f"limits: {{turns: 3}}\nproviders: {{anthropic: {{api_key: {CANARY}}}}}\n", 0o644)
    config = place.load()
    assert config.warnings == (
        f"{place.own}:2: contains a key and is readable by others (mode 0644): chmod 600 {place.own}",
    )
    place.mine("limits: {turns: 3}\n", 0o644)
    assert place.load().warnings == ()


def test_a_link_that_leaves_the_project_is_ignored_with_a_warning(
    place: Place, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "config.yaml").write_text("limits: {turns: 1}\n")
    place.theirs.symlink_to(tmp_path / "elsewhere" / "config.yaml")
    config = place.load()
    assert config.limits.turns == 50
    assert config.warnings == (
        f"{place.theirs}:1: is ignored: the link leaves the workspace {place.project}",
    )
    place.theirs.unlink()
    place.theirs.parent.rmdir()
    place.theirs.parent.symlink_to(tmp_path / "elsewhere")
    assert place.load().limits.turns == 50


def test_a_link_inside_the_project_is_followed(place: Place) -> None:
    (place.project / "shared.yaml").write_text("limits: {turns: 4}\n")
    place.theirs.symlink_to("../shared.yaml")
    assert place.load().limits.turns == 4


def test_the_users_own_file_may_be_a_link(place: Place, tmp_path: Path) -> None:
    (tmp_path / "dotfiles.yaml").write_text("limits: {turns: 4}\n")
    (tmp_path / "dotfiles.yaml").chmod(0o600)
    place.own.symlink_to(tmp_path / "dotfiles.yaml")
    assert place.load().limits.turns == 4


def fifo(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as s, contextlib.chdir(path.parent):
        s.bind(path.name)


def loop_of_links(path: Path) -> None:
    path.symlink_to(path.name)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [fifo, folder, listening, loop_of_links])
async def test_what_is_no_file_neither_blocks_nor_counts(
    place: Place, make: Callable[[Path], None]
) -> None:
    with anyio.fail_after(20):
        make(place.theirs)
        assert "it is ignored" in place.load().warnings[0]
        place.theirs.rmdir() if place.theirs.is_dir() and not place.theirs.is_symlink() else place.theirs.unlink()
        make(place.own)
        assert f"{place.own}:1: " in place.wrong()


def test_a_device_is_never_opened(place: Place) -> None:
    device(place.own)
    assert "is not a regular file" in place.wrong()


def test_a_folder_in_the_way_of_the_file_is_as_good_as_no_file(place: Place) -> None:
    place.theirs.parent.rmdir()
    place.theirs.parent.write_text("not a folder")
    assert place.load().warnings == ()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_an_error_of_the_users(place: Place) -> None:
    place.mine("limits: {turns: 3}\n", 0o000)
    assert "cannot be read: Permission denied" in place.wrong()


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").mkdir()
    with pytest.raises(AgentError, match=r"config.yaml: cannot be written"):
        write_text(tmp_path / "config.yaml", "limits: {turns: 3}\n")
    assert os.listdir(tmp_path) == ["config.yaml"]


# ---------------------------------------------------------------- showing


def test_nothing_that_shows_a_configuration_shows_a_secret(place: Place) -> None:
    secrets = {"api_key": f"{CANARY}1", "auth_token": f"{CANARY}2"}
    lines = ", ".join(f"{k}: {v}" for k, v in secrets.items())
    place.mine(
        f"providers: {{anthropic: {{{lines}, base_url: 'https://ada:{CANARY}3@h', headers: {{Authorization: 'Bearer {CANARY}4', X-Plain: ordinary-value}}}}}}\n"
        f"journal: postgresql://ada:{CANARY}5@db/x\n"
        f"mcp_servers: {{m: {{url: 'https://h/?api_key={CANARY}6', headers: {{X-Api-Key: {CANARY}7}}}}}}\n"
    )
    config = place.load(
        OPENAI_API_KEY=f"{CANARY}8",
        TREADLE_AGENT_API_KEY=f"{CANARY}9",
        GITHUB_TOKEN=f"{CANARY}A",
        DATABASE_URL=f"mysql://a:{CANARY}B@h",
    )
    assert config.secrets() >= {f"{CANARY}{x}" for x in "123456789AB"}
    assert "ordinary-value" not in config.secrets()
    assert (
        "CANARY"
        not in f"{config!r}{config.rows()}{config.providers['anthropic']!r}{config.mcp_servers!r}{config.endpoint('anthropic')!r}"
    )
    rows = {row.key: row.value for row in config.rows()}
    assert rows["providers.anthropic.api_key"] == "set (ends …d1e1)"
    assert rows["journal"] == "postgresql://ada:[redacted]@db/x"
    assert rows["permissions.allow"] == []
    json.dumps(rows)


def test_values_that_are_words_or_paths_are_no_secrets_of_the_environment(tmp_path: Path) -> None:
    env = {
        "A_KEY": "disabled",
        "B_CREDENTIALS": str(tmp_path),
        "C_TOKEN": "abc123def",
        "D_SECRET": "",
        "PATH": "/usr/bin:/bin",
    }
    assert load(env, files=False).secrets() == {"abc123def"}


def test_rows_stand_in_the_order_of_the_manual(place: Place) -> None:
    place.mine(MANUAL)
    groups = list(dict.fromkeys(row.key.split(".")[0] for row in place.load().rows()))
    assert groups == [
        "models",
        "fallback",
        "providers",
        "defaults",
        "limits",
        "permissions",
        "mcp_servers",
        "service",
        "workers",
        "agents",
        "journal",
        "keep_runs",
        "ui",
        "telemetry",
    ]


def test_layers_collect_problems_without_raising(place: Place) -> None:
    layers = Layers({})
    place.mine("x: 1")
    layers.add_file(config_files({"HOME": str(place.home)}, place.inside)[0])
    assert len(layers.problems) == 1
    assert layers.warnings == []


def test_a_theme_is_the_projects_to_choose_too(place: Place) -> None:
    assert place.load().ui.theme == "auto"
    place.mine("ui: {theme: dark}")
    assert place.load().ui.theme == "dark"
    place.says("ui: {theme: none}")
    loaded = place.load()
    assert (loaded.ui.theme, loaded.warnings) == ("none", ())
    place.says("ui: {theme: pink}")
    assert "ui.theme must be one of auto, dark, light, none, not 'pink'" in place.wrong()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hosts: ['https://x.example']", "service.hosts must be a list of names"),
        ("hosts: ['*']", "service.hosts must be a list of names"),
        ("proxies: [proxy.example]", "service.proxies must be a list of IP addresses"),
        ("grace_s: 9", "service.grace_s must be seconds from 0 to 8"),
        ("registration: maybe", "service.registration must be one of open, closed"),
    ],
)
def test_what_the_service_is_told_wrong_is_told_back(place: Place, text: str, said: str) -> None:
    place.mine(f"service: {{{text}}}\n")
    with pytest.raises(AgentError) as caught:
        place.load()
    assert said in caught.value.message
