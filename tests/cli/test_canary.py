"""Canaries that nothing may carry: each sink there is, at its most talkative, is searched for them,
in every form in which they travel.

What tools and servers say is clean on the disk too. What a person or a model says themselves stands
in the journal, and is masked wherever it is shown (docs/decisions/005-redaction.md).
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest
from anyio import to_thread

from tests.cli.conftest import Answer, Cli
from tests.models.providers import loopback
from tests.models.providers.loopback import document, serving, stream

FROM_ENVIRONMENT = "canary of a key: 0815/4711+x"
"""Looks like no key: nothing but its value gives it away.

It changes its look in JSON, URLs and base64.
"""
FROM_TOKEN = "canary-token-31415926"
FROM_FILE = "canary-in-the-file-2718"
FROM_SERVER = "canary-of-a-server-1618"
CANARIES = (FROM_ENVIRONMENT, FROM_TOKEN, FROM_FILE, FROM_SERVER)
KNOWN = {"OPENAI_API_KEY": FROM_TOKEN, "SOME_SECRET": FROM_ENVIRONMENT}
CONFIG = f"""
providers:
  local: {{type: openai-chat, base_url: "URL/v1", api_key: "{FROM_FILE}"}}
mcp_servers: {{one: {{command: [one], env: {{TOKEN: "{FROM_SERVER}"}}}}}}
"""


def forms(canary: str) -> Iterator[bytes]:
    yield canary.encode()
    yield quote(canary, safe="").encode()
    yield json.dumps(canary)[1:-1].encode()
    for before in range(3):
        yield base64.b64encode(bytes(before) + canary.encode())[4:-4]


def found_in(data: bytes) -> list[str]:
    return [canary for canary in CANARIES if any(form in data for form in forms(canary))]


def assert_clean(answer: Answer) -> Answer:
    assert found_in((answer.out + answer.err).encode()) == [], answer
    return answer


def dirty_files(*folders: Path, but: tuple[str, ...] = ()) -> list[str]:
    files = [
        path
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and path.name not in but
    ]
    return [f"{path}: {found}" for path in files if (found := found_in(path.read_bytes()))]


class Watched(Cli):
    """Knows the canaries, and looks through whatever a command says."""

    def __init__(self, tmp_path: Path) -> None:
        super().__init__(tmp_path)
        self.temporary = tmp_path / "temporary"
        self.temporary.mkdir()
        self.knows = True
        self.configure("http://127.0.0.1:9")
        leak = "\n".join(
            (*CANARIES, *(json.dumps(c) for c in CANARIES), *(quote(c, safe="") for c in CANARIES))
        )
        (self.workspace / "leak.txt").write_text(
            f"{leak}\n{base64.b64encode(leak.encode()).decode()}\n"
        )

    def configure(self, url: str) -> None:
        folder = self.home / ".treadle"
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / "config.yaml").write_text(CONFIG.replace("URL", url))
        (folder / "config.yaml").chmod(0o600)

    def environment(self, **extra: str) -> dict[str, str]:
        known: Mapping[str, str] = KNOWN if self.knows else {}
        return super().environment(
            TMPDIR=str(self.temporary), PYTHONASYNCIODEBUG="1", **known, **extra
        )

    def __call__(self, *arguments: str, stdin: str | None = None, **environment: str) -> Answer:
        return assert_clean(super().__call__(*arguments, stdin=stdin, **environment))


@pytest.fixture
def cli(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def bash(command: str, **more: object) -> dict[str, object]:
    return {"name": "bash", "arguments": {"command": command, **more}}


FULL = ("--mode", "full", "--no-sandbox")
SHOWS = (
    *(
        "runs list",
        "runs list --json",
        "runs show last",
        "runs show last --json",
        "runs replay last",
        "runs replay last --output stream-json",
    ),
    *("runs cost --json", "runs undo last --json"),
    *(
        "sessions list",
        "sessions list --json",
        "sessions show last",
        "sessions show last --json",
        "sessions search canary --json",
    ),
)
EXPORTS = ("runs export last", "sessions export last")
"""As it is stored: what a person or a model said is in it."""


def show(cli: Watched, *commands: str) -> None:
    for command in commands:
        assert cli(*command.split()).code == 0, command


# ---------------------------------------------------------------- from tools and servers: clean everywhere


def test_what_tools_bring_is_clean_in_every_output_and_on_the_disk(cli: Watched) -> None:
    leaks = [
        bash("cat leak.txt; cat leak.txt >&2; exit 3"),
        bash("cat leak.txt; sleep 30", background=True),
        {"name": "read", "arguments": {"path": "leak.txt"}},
        {"name": "grep", "arguments": {"pattern": "canary"}},
        {"name": "read", "arguments": {"path": "nowhere.txt"}},
    ]
    script = cli.script(
        {"text": "I look.", "tool_calls": leaks},
        {"text": "Again.", "tool_calls": [bash("false; cat leak.txt")]},
        {"text": "Done."},
    )
    for output in ("text", "json", "stream-json"):
        assert (
            cli(
                "run",
                "look",
                "-v",
                *FULL,
                "--output",
                output,
                "-o",
                str(cli.home / output),
                "--model",
                script,
            ).code
            == 0
        )
    assert (
        cli("run", "look", *FULL, "--model", f"record:{cli.home / 'talk.tape'}={script}").code == 0
    )
    show(cli, *SHOWS, *EXPORTS)
    cli.knows = False
    show(cli, "runs show last --json", *EXPORTS)
    assert dirty_files(cli.home, cli.temporary, but=("config.yaml",)) == []


def test_what_is_too_long_for_the_model_is_clean_in_the_file_that_is_left_when_the_process_dies(
    cli: Watched,
) -> None:
    script = cli.script(
        {"tool_calls": [bash("for i in $(seq 400); do cat leak.txt; done")]},
        {"text": "a"},
        {"text": "b"},
    )
    for boundary in range(6, 30):
        killed = cli("run", "look", *FULL, "--model", script, TREADLE_CRASH_AT=str(boundary))
        if files := [
            path
            for path in cli.temporary.rglob("*")
            if path.is_file() and path.stat().st_size > 30_000
        ]:
            break
    assert killed.code == -signal.SIGKILL
    assert files
    assert dirty_files(cli.home, cli.temporary, but=("config.yaml",)) == []


async def test_what_a_server_echoes_is_clean(cli: Watched) -> None:
    def echo(status: int) -> loopback.Answer:
        words = f"key {FROM_FILE} at /v1?key={quote(FROM_ENVIRONMENT, safe='')} with Bearer {FROM_TOKEN} and {FROM_SERVER}"
        return document(
            {"error": {"message": words, "type": words, "code": words}},
            status=status,
            headers={"retry-after": "0"},
        )

    async def call(*arguments: str) -> Answer:
        return await to_thread.run_sync(partial(cli, *arguments))

    for status, code in ((401, 1), (400, 1), (404, 1)):
        async with serving(*[echo(status)] * 4) as server:
            cli.configure(server.url)
            for output in ("text", "stream-json"):
                assert (
                    await call("run", "hi", "-v", "--output", output, "--model", "local:x")
                ).code == code
            await call("models", "--provider", "local")
            await call("models", "--provider", "local", "--json")
    async with serving(*[echo(529)] * 5) as server:
        cli.configure(server.url)
        assert (
            await call("run", "hi", "-v", "--output", "stream-json", "--model", "local:x")
        ).code == 75
    await to_thread.run_sync(
        partial(show, cli, "runs list --json", "runs show last --json", *EXPORTS)
    )
    assert dirty_files(cli.home, cli.temporary, but=("config.yaml",)) == []


# ---------------------------------------------------------------- from people and models: clean wherever it is shown


def test_what_a_person_and_a_model_say_is_masked_wherever_it_is_shown(cli: Watched) -> None:
    said = " ".join(CANARIES)
    (cli.workspace / "kept.txt").write_text("nothing\n")
    entries = (
        {
            "reasoning": said,
            "text": said,
            "tool_calls": [
                bash(f"echo '{said}'"),
                {"name": "read", "arguments": {"path": "kept.txt"}},
            ],
        },
        {
            "text": said,
            "tool_calls": [
                {"name": "write", "arguments": {"path": "kept.txt", "content": said}},
                {"name": said, "arguments": {said: said}},
            ],
        },
        {
            "tool_calls": [
                {
                    "name": "todo_write",
                    "arguments": {
                        "todos": [{"content": said, "active_form": said, "status": "in_progress"}]
                    },
                }
            ]
        },
        {"text": said},
    )
    for output in ("text", "json", "stream-json"):
        cli("run", said, "-v", *FULL, "--output", output, "--model", cli.script(*entries))
    cli(
        "run",
        said,
        "--output",
        "json",
        "--model",
        cli.script({"error": {"kind": "invalid", "message": said}}),
    )
    show(cli, *SHOWS)
    cli(
        "runs", "fork", "last", "--turn", "1", "--text", said, "--model", cli.script({"text": said})
    )
    runs = json.loads(cli("runs", "list", "--json").out)
    cli("runs", "diff", runs[0]["run_id"], runs[1]["run_id"])
    cli("runs", "undo", runs[2]["run_id"], "--json")


def test_a_report_on_many_prompts_holds_none(cli: Watched) -> None:
    said = " ".join(CANARIES)
    script = cli.script({"text": said})
    for output in ("text", "json", "markdown"):
        report = cli.home / f"report.{output}"
        cli(
            "work",
            said,
            "--gate",
            "cat leak.txt; cat leak.txt >&2; false",
            *FULL,
            "--model",
            script,
            "--output",
            output,
        )
        cli(
            "work",
            said,
            "--gate",
            f"echo '{said}'; false",
            *FULL,
            "--model",
            script,
            "--output",
            output,
            "-o",
            str(report),
        )
        assert found_in(report.read_bytes()) == []
    cli("work", "--resume", "last", "--output", "json")


@pytest.mark.parametrize(
    "command",
    [
        ("doctor", "--offline"),
        ("doctor", "--offline", "--json"),
        ("config", "show"),
        ("config", "show", "--json"),
        ("config", "check"),
        (
            "policy",
            "check",
            "--",
            f"curl -H 'x: {FROM_TOKEN}' {FROM_FILE}; echo '{FROM_ENVIRONMENT}' > {FROM_SERVER}",
        ),
        ("policy", "check", "--allow", f"echo {FROM_TOKEN}", "--", f"echo {FROM_TOKEN}"),
        ("run", "x", "--model", f"nobody:{FROM_TOKEN}"),
        ("run", "x", "--model", f"script:/nowhere/{FROM_FILE}"),
        ("run", "x", "--session", FROM_TOKEN, "--model", f"tape:{FROM_FILE}"),
        ("runs", "show", FROM_FILE),
        ("runs", "resume", FROM_TOKEN),
        ("sessions", "show", FROM_TOKEN),
        ("sessions", "search", FROM_TOKEN),
        ("trust", FROM_FILE),
        ("trust", "--revoke", FROM_FILE),
    ],
    ids=" ".join,
)
def test_no_command_repeats_one(cli: Watched, command: tuple[str, ...]) -> None:
    cli(*command)


def test_what_a_project_says_is_told_without_one(cli: Watched) -> None:
    (cli.workspace / ".git").mkdir()
    folder = cli.workspace / ".treadle" / "skills" / FROM_FILE
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: x\n---\n")
    (cli.workspace / ".treadle" / "config.yaml").write_text(
        f"journal: 'sqlite:///{FROM_TOKEN}'\nmcp_servers: {{x: {{headers: {{X: {FROM_TOKEN}}}}}}}\n"
    )
    (cli.workspace / "AGENTS.md").write_text(f"The key is {FROM_TOKEN}.\n")
    for _ in range(2):
        cli("run", "x", "--model", cli.script({"text": "ok"}))
        cli("trust")
        cli("trust", "--list")
        (cli.workspace / ".treadle" / "config.yaml").unlink(missing_ok=True)
    assert dirty_files(cli.home / ".treadle", but=("config.yaml", "trust.json")) == []


# ---------------------------------------------------------------- bugs and logs

BUG = """
import treadle.cli, treadle.cli.app
def app(**_):
    raise RuntimeError({!r})
treadle.cli.app.app = app
treadle.cli.main()
"""


@pytest.mark.parametrize("traceback", ["", "1"])
def test_a_bug_of_ours_is_told_without_one(cli: Watched, traceback: str) -> None:
    environment = cli.environment(TREADLE_TRACEBACK=traceback)
    done = subprocess.run(
        [sys.executable, "-c", BUG.format(" ".join(CANARIES))],
        env=environment,
        cwd=cli.workspace,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "RuntimeError" in done.stderr
    assert found_in((done.stdout + done.stderr).encode()) == []


LOGGING = """
import logging, sys
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
import anyio
from treadle import Agent, Runtime, tool
from treadle.config import load

said = sys.argv[1]

@tool
def look() -> str:
    raise KeyError(said)

def broken(event):
    raise ValueError(said)

async def main():
    async with Runtime(config=load()) as rt:
        for _ in range(2):
            result = await rt.run(Agent(name="a", model="local:x", tools=[look]), "go", on_event=broken)
        logging.getLogger("treadle").debug("%s", said, extra={"header": said})

anyio.run(main)
"""


async def test_logs_at_debug_level_hold_none(cli: Watched) -> None:
    call = {
        "id": "c",
        "type": "function",
        "index": 0,
        "function": {"name": "look", "arguments": "{}"},
    }
    asks = stream(
        {
            "type": "x",
            "choices": [
                {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
            ],
        }
    )
    fails = document({"error": {"message": " ".join(CANARIES)}}, status=400)
    async with serving(asks, fails, fails) as server:
        cli.configure(server.url)
        command = [sys.executable, "-X", "dev", "-c", LOGGING, " ".join(CANARIES)]
        run = partial(
            subprocess.run,
            command,
            env=cli.environment(),
            cwd=cli.workspace,
            capture_output=True,
            text=True,
            timeout=200,
        )
        done = await to_thread.run_sync(run)
    assert done.returncode == 0, done.stderr
    assert "DEBUG" in done.stdout
    assert "ValueError: [redacted]" in done.stdout
    assert found_in((done.stdout + done.stderr).encode()) == []


def test_the_canaries_would_be_found() -> None:
    for canary in CANARIES:
        assert all(found_in(b"x" + form + b"x") == [canary] for form in forms(canary))
    assert os.sep not in FROM_FILE
