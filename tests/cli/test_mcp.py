"""`treadle mcp` as a client starts it: a real process, whose standard output is the protocol's
alone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client import ClientRequestContext
from mcp.types import CallToolResult, ElicitRequestParams, ElicitResult, TextContent

from tests.cli.conftest import KEY, Cli
from tests.fork_server import command

ERAS = ["legacy", "2026-07-28"]
PROMPT = {"prompt": "do it"}


def bash(command: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "bash", "arguments": {"command": command}}]}


def parameters(cli: Cli, *arguments: str, **environment: str) -> StdioServerParameters:
    program, *words = command("treadle", "mcp", *arguments)
    return StdioServerParameters(
        command=program,
        args=words,
        env=cli.environment(**environment),
        cwd=cli.workspace,
    )


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


class Session:
    """A client that writes lines and reads them."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self._in, self._out = process, process.stdin, process.stdout
        self._id = 0

    def tell(self, method: str, **params: Any) -> None:
        self.write({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, **params: Any) -> int:
        self._id += 1
        self.write({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        return self._id

    def write(self, message: object) -> None:
        self._in.write(json.dumps(message).encode() + b"\n")
        self._in.flush()

    def write_raw(self, line: bytes) -> None:
        self._in.write(line)
        self._in.flush()

    def read(self) -> dict[str, Any]:
        return json.loads(self._out.readline())

    def begin(self) -> None:
        self.ask(
            "initialize",
            protocolVersion="2025-11-25",
            capabilities={},
            clientInfo={"name": "test", "version": "1"},
        )
        assert self.read()["result"]["serverInfo"]["name"] == "treadle"
        self.tell("notifications/initialized")

    def end(self) -> tuple[int, str, str]:
        """What the client has left to read once the input is closed."""
        self._in.close()
        out, err = self._out.read(), self.process.stderr.read() if self.process.stderr else b""
        return self.process.wait(20), out.decode(), err.decode()


@contextmanager
def serving(
    cli: Cli, *arguments: str, handshake: bool = True, **environment: str
) -> Generator[Session]:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command("treadle", "mcp", *arguments),
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        cwd=cli.workspace,
        env=cli.environment(**environment),
    ) as process:
        try:
            session = Session(process)
            if handshake:
                session.begin()
            yield session
        finally:
            process.kill()


def listed(cli: Cli, *more: str) -> list[dict[str, Any]]:
    return json.loads(cli("runs", "list", "--json", *more).out)


def only_run(cli: Cli) -> dict[str, Any]:
    (run,) = listed(cli)
    return run


@pytest.mark.parametrize("era", ERAS)
async def test_the_coding_assistant_is_served_to_the_sdks_client_in_both_eras(cli: Cli, era: str):
    async with Client(
        parameters(cli, "--model", cli.script({"text": "Hello ✓"})), mode=era
    ) as client:
        (served,) = (await client.list_tools()).tools
        result = await client.call_tool("treadle", PROMPT)
    assert served.name == "treadle"
    assert (result.is_error, text_of(result)) == (False, "Hello ✓")
    assert only_run(cli)["outcome"] == "completed"


@pytest.mark.parametrize("era", ERAS)
async def test_a_person_at_the_client_is_asked_before_a_command_runs(cli: Cli, era: str):
    asked: list[str] = []

    async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"decision": "allow"})

    model = cli.script(bash("echo 42 > made.txt"), {"text": "done"})
    async with Client(
        parameters(cli, "--model", model, "--mode", "ask", "--no-sandbox"),
        mode=era,
        elicitation_callback=answer,
    ) as client:
        result = await client.call_tool("treadle", PROMPT)
    assert text_of(result) == "done"
    assert (cli.workspace / "made.txt").read_text() == "42\n"
    (question,) = asked
    assert "echo 42 > made.txt" in question


async def test_where_the_client_cannot_ask_the_command_does_not_run(cli: Cli):
    model = cli.script(bash("echo 42 > made.txt"), {"text": "could not"})
    async with Client(parameters(cli, "--model", model, "--mode", "ask", "--no-sandbox")) as client:
        await client.call_tool("treadle", PROMPT)
    assert not (cli.workspace / "made.txt").exists()


def test_what_tools_print_does_not_reach_the_protocol(cli: Cli):
    noise = bash(
        "echo NOISE; echo NOISE >&2; echo NOISE > /dev/stderr; cat; echo NOISE > /proc/$PPID/fd/1 || true"
    )
    with serving(
        cli, "--model", cli.script(noise, {"text": "quiet"}), "--mode", "full", "--no-sandbox"
    ) as session:
        number = session.ask("tools/call", name="treadle", arguments=PROMPT)
        reply = session.read()
        assert (reply["id"], reply["result"]["content"][0]["text"]) == (number, "quiet")
        code, out, _ = session.end()
    assert (code, out) == (0, "")


def test_what_the_process_prints_does_not_reach_the_protocol(tmp_path: Any):
    """A server whose own code prints, with Python's print, straight to the descriptor, and from a
    child.
    """
    program = """
import os, subprocess, sys, anyio
from mcp.types import CallToolResult, TextContent, Tool
from treadle.apps.mcp_server.server import McpToolServer
from treadle.apps.mcp_server.stdio import serve_stdio

class Loud:
    definition = Tool(name="loud", input_schema={"type": "object"})
    async def call(self, context, params):
        print("NOISE")
        os.write(1, b"NOISE\\n")
        subprocess.run([sys.executable, "-c", "import sys; print('NOISE', sys.stdin.read())"])
        return CallToolResult(content=[TextContent(text="said " + chr(0xD800))])

print("before", flush=True)
anyio.run(serve_stdio, McpToolServer([Loud()]))
print("after")
"""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=pipe, stdout=pipe, stderr=pipe, cwd=tmp_path
    ) as process:
        session = Session(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"before\n"
        session.begin()
        session.ask("tools/call", name="loud", arguments={})
        assert session.read()["result"]["content"][0]["text"] == "said ?"  # half a surrogate pair
        code, out, err = session.end()
    assert (code, out) == (0, "after\n")
    assert err.count("NOISE") == 3


def test_the_end_of_the_input_closes_what_runs(cli: Cli):
    model = cli.script(bash("echo begun > begun.txt; sleep 60"), {"text": "never"})
    with serving(cli, "--model", model, "--mode", "full", "--no-sandbox") as session:
        session.ask(
            "tools/call", name="treadle", arguments={**PROMPT}, _meta={"progressToken": "p"}
        )
        while "bash" not in session.read()["params"]["message"]:
            pass
        code, _, _ = session.end()
    assert code == 0
    assert only_run(cli)["outcome"] == "cancelled"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_closes_what_runs_though_the_input_stays_open(cli: Cli, number: signal.Signals):
    with serving(
        cli,
        "--model",
        cli.script(bash("sleep 60"), {"text": "never"}),
        "--mode",
        "full",
        "--no-sandbox",
    ) as session:
        session.ask("tools/call", name="treadle", arguments=PROMPT, _meta={"progressToken": "p"})
        while "bash" not in session.read()["params"]["message"]:
            pass
        session.process.send_signal(number)
        assert session.process.wait(20) == 130
    assert only_run(cli)["outcome"] == "cancelled"


def test_a_cancelled_request_is_not_answered_and_its_run_closed(cli: Cli):
    with serving(
        cli,
        "--model",
        cli.script(bash("sleep 60"), {"text": "never"}),
        "--mode",
        "full",
        "--no-sandbox",
    ) as session:
        number = session.ask(
            "tools/call", name="treadle", arguments=PROMPT, _meta={"progressToken": "p"}
        )
        while "bash" not in session.read()["params"]["message"]:
            pass
        session.tell("notifications/cancelled", requestId=number, reason="test")
        ping = session.ask("ping")
        replies = [session.read()]
        while replies[-1].get("id") != ping:
            replies.append(session.read())
        assert number not in [reply.get("id") for reply in replies]
        code, out, _ = session.end()
    assert (code, out) == (0, "")
    assert only_run(cli)["outcome"] == "cancelled"


def test_limits_and_journal_are_those_of_a_run(cli: Cli):
    url = f"sqlite:///{cli.home / 'own.db'}"
    with serving(
        cli,
        "--model",
        cli.script(bash("true"), bash("true"), {"text": "x"}),
        "--mode",
        "full",
        "--max-turns",
        "1",
        "--journal",
        url,
    ) as session:
        session.ask("tools/call", name="treadle", arguments=PROMPT)
        result = session.read()["result"]
    assert result["isError"]
    assert "limit of turns after 1 turn" in result["content"][0]["text"]
    (run,) = listed(cli, "--journal", url)
    assert run["run_id"] == result["_meta"]["treadle/run_id"]


def test_a_key_is_in_no_answer(cli: Cli):
    with serving(
        cli, "--model", cli.script({"text": f"it is {KEY}"}), ANTHROPIC_API_KEY=KEY
    ) as session:
        session.ask("tools/call", name="treadle", arguments={"prompt": f"my key is {KEY}"})
        reply = json.dumps(session.read())
        _, _, err = session.end()
    assert KEY not in reply + err
    assert "[redacted]" in reply


def test_wrong_use_is_told_in_one_sentence(cli: Cli):
    unknown = cli("mcp", "--agent", "nobody")
    assert (unknown.code, unknown.out) == (2, "")
    assert "there is no agent 'nobody'" in unknown.err
    assert cli("mcp", "--cwd", "/nowhere/at/all").code == 2
    assert cli("mcp", "--file", "x").code == 2


def test_without_the_sdk_the_pip_line_is_told(cli: Cli):
    (cli.home / "sitecustomize.py").write_text(
        "import sys, importlib.util as u\nold = u.find_spec\nu.find_spec = lambda name, *a: None if name == 'mcp' else old(name, *a)\n"
    )
    answer = cli("mcp", PYTHONPATH=str(cli.home))
    assert (answer.code, answer.out) == (2, "")
    assert "pip install 'treadle[mcp]'" in answer.err


def test_help_brings_no_sdk(cli: Cli):
    looks = "print(sorted({'mcp', 'pydantic', 'starlette'} & set(sys.modules)))"
    probe = f"import sys; from treadle.cli.app import app; app(['mcp', '--help'], standalone_mode=False); {looks}"
    done = subprocess.run(
        [sys.executable, "-c", probe],
        capture_output=True,
        text=True,
        env={**cli.environment(), "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=200,
    )
    assert done.stdout.splitlines()[-1] == "[]", done


def test_a_server_without_an_open_input_ends_at_once(cli: Cli):
    answer = cli("mcp", "--model", cli.script({"text": "x"}))
    assert (answer.code, answer.out) == (0, "")


async def test_many_calls_at_once_are_each_a_run(cli: Cli):
    async with (
        Client(parameters(cli, "--model", cli.script({"text": "one"}))) as client,
        anyio.create_task_group() as group,
    ):
        for _ in range(8):
            group.start_soon(client.call_tool, "treadle", PROMPT)
    runs = listed(cli)
    assert [run["outcome"] for run in runs] == ["completed"] * 8


def define(cli: Cli, name: str, text: str) -> None:
    folder = cli.home / ".treadle" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(text)


async def test_agents_in_files_are_served_instead_with_their_inputs(cli: Cli):
    define(
        cli,
        "poet",
        "---\ndescription: Writes poems\ninputs:\n  about:\n    type: string\n---\nWrite about ${about}.\n",
    )
    define(cli, "broken", "---\nno: such key\n---\n")
    async with Client(parameters(cli, "--model", cli.script({"text": "A rose"}))) as client:
        (poet,) = (await client.list_tools()).tools
        result = await client.call_tool("poet", {**PROMPT, "about": "roses"})
        missing = await client.call_tool("poet", PROMPT)
    assert (poet.name, poet.description, poet.input_schema["required"]) == (
        "poet",
        "Writes poems",
        ["prompt", "about"],
    )
    assert text_of(result) == "A rose"
    assert "about" in text_of(missing)
    async with Client(parameters(cli, "--agent", "poet", "--agent", "treadle")) as client:
        assert [one.name for one in (await client.list_tools()).tools] == ["poet", "treadle"]
    assert cli("mcp", "--agent", "broken").code == 2


def test_a_key_is_in_no_refusal(cli: Cli):
    define(
        cli,
        "counter",
        "---\ndescription: Counts\ninputs:\n  number:\n    type: integer\n---\nCount to ${number}.\n",
    )
    with serving(cli, "--model", cli.script({"text": "never"}), ANTHROPIC_API_KEY=KEY) as session:
        session.ask("tools/call", name="counter", arguments={**PROMPT, "number": KEY})
        result = session.read()["result"]
    assert result["isError"]
    assert KEY not in json.dumps(result)
