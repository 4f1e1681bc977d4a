"""Messages for the likeliest mistakes of new users, each with its remedy."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

import treadle
from tests.cli.conftest import KEY, Cli
from treadle import (
    Agent,
    AgentError,
    Callbacks,
    ErrorKind,
    Limits,
    MediaPart,
    Message,
    Runtime,
    Settings,
    ToolContext,
    tool,
)
from treadle.budget import costs as treadle_costs
from treadle.runtime.options import answers_of
from treadle.testing import ScriptedModel
from treadle.tools.mcp import McpServer
from treadle.tools.tool import Tool

HI = {"text": "Hi."}
made: Any = Agent
run_sync: Any = treadle.run_sync
as_given: Any = tool
scripted: Any = ScriptedModel
callbacks: Any = Callbacks
opened: Any = Runtime.open
given: Any = Settings
limited: Any = Limits
"""Public names as `Any`, for mistakes that a type checker would report."""


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


# ---------------------------------------------------------------- on the command line

TYPED: dict[str, tuple[tuple[str, ...], str]] = {
    "no key": (("run", "x"), "no API key for the provider 'anthropic'. You can:"),
    "a model without its provider": (("run", "--model", "gpt-5", "x"), "PROVIDER:MODEL, like "),
    "a misspelt provider": (
        ("run", "--model", "antropic:x", "x"),
        "unknown provider 'antropic' in 'antropic:x': did you mean 'anthropic'?",
    ),
    "a provider that has to be named first": (
        ("run", "--model", "office:x", "x"),
        "providers: {NAME: {type: openai-chat, base_url: URL}}",
    ),
    "a misspelt command": (
        ("runn", "x"),
        "unknown command 'runn': did you mean 'run'? See `treadle --help`",
    ),
    "a command of a group": (
        ("undo", "last"),
        "unknown command 'undo': use `treadle runs undo`",
    ),
    "a command of a later version": (
        ("acp",),
        "unknown command 'acp': it is planned for a later version. See `treadle --help`",
    ),
    "a word for an option": (("version",), "use `treadle --version`"),
    "a prompt without run": (("fix the bug",), 'to run a prompt, use `treadle run "…"`'),
    "a misspelt command of a group": (
        ("runs", "shwo", "last"),
        "unknown command 'shwo': did you mean 'show'? See `treadle runs --help`",
    ),
    "a misspelt option": (
        ("run", "--modle", "x"),
        "unknown option '--modle': did you mean --mode or --model? See `treadle run --help`",
    ),
    "an option without its value": (("run", "--model"), "option '--model' requires an argument"),
    "a misspelt mode": (
        ("run", "--mode", "acept-edits", "x"),
        "--mode must be one of 'ask', 'accept-edits', 'plan', 'full', not 'acept-edits'.",
    ),
    "a word for a number": (
        ("run", "--max-turns", "many", "x"),
        "--max-turns must be a whole number of at least 1, not 'many'.",
    ),
    "a number that is too small": (
        ("run", "--timeout", "0", "x"),
        "--timeout must be a number greater than 0, not 0.",
    ),
    "no prompt": (
        ("run",),
        "the prompt is empty: write it after `treadle run`, in quotes, or pipe it in",
    ),
    "a prompt for the chat": (
        ("chat", "fix the bug"),
        "unexpected argument 'fix the bug'. See",
    ),
    "a prompt without quotes": (
        ("run", "fix", "it"),
        "unexpected argument 'it': put words that belong together in quotes.",
    ),
    "prompts in a file that is not there": (
        ("work", "--from", "gone.txt"),
        "cannot read 'gone.txt': No such file or directory",
    ),
    "a file that is not there": (
        ("run", "--file", "gone.png", "x"),
        "--file 'gone.png' does not exist",
    ),
    "a directory that is not there": (
        ("run", "--cwd", "gone", "x"),
        "--cwd 'gone' is not a directory",
    ),
    "a script that is not there": (
        ("run", "--model", "script:gone.json", "x"),
        "gone.json': No such file or directory",
    ),
    "an unknown run": (("runs", "show", "nope"), "there are no runs yet"),
    "no run": (("runs", "show"), "missing argument: ID. See `treadle runs show --help`"),
    "a misspelt key": (
        ("config", "set", "limits.trns", "3"),
        "unknown key 'trns' in limits: did you mean 'turns'?",
    ),
    "a wrong value": (
        ("config", "set", "limits.turns", "lots"),
        "limits.turns must be a whole number of at least 1, not 'lots'",
    ),
    "a journal that is no URL": (("run", "--journal", "runs.db", "x"), "not 'runs.db'"),
    "a journal that is a directory": (
        ("run", "--model", "HERE", "--journal", "sqlite:///.", "x"),
        "is a directory: give the path of a file.",
    ),
    "a command without quotes": (
        ("policy", "check", "--", "ls", "-l"),
        "quote it, like `treadle policy check -- 'ls -l'`",
    ),
    "a command without quotes that has options": (
        ("policy", "check", "ls", "-la"),
        "quote it, like `treadle policy check -- 'ls -la'`",
    ),
    "a command without quotes among options": (
        ("policy", "check", "rm", "-r", "x", "--mode", "full"),
        "quote it, like `treadle policy check -- 'ls -la'`",
    ),
    "a misspelt option of a command on commands": (
        ("policy", "check", "ls", "--mdoe", "ask"),
        "unknown option '--mdoe': did you mean --mode?",
    ),
    "a misspelt command of a small group": (
        ("config", "shwo"),
        "unknown command 'shwo': did you mean 'show'? See `treadle config --help`",
    ),
    "a command that a small group has not": (
        ("policy", "explain"),
        "unknown command 'explain'. Available: check. See `treadle policy --help`",
    ),
}


@pytest.mark.parametrize("mistake", TYPED)
def test_what_is_mistyped_is_answered_in_one_sentence(cli: Cli, mistake: str) -> None:
    words, said = TYPED[mistake]
    here = cli.script(HI)
    answer = cli(*(here if word == "HERE" else word for word in words))
    assert (answer.code, answer.out) == (2, ""), answer
    assert said in answer.err
    lines = answer.err.splitlines()
    assert len(lines) == (4 if mistake == "no key" else 1), answer.err
    assert lines[0].startswith("treadle: ")
    assert not re.search(r"\?\.|\.\.$", answer.err)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("limits: {trns: 3}", "config.yaml:1: unknown key 'trns' in limits: did you mean 'turns'?"),
        (
            "limits:\n\tturns: 3\n",
            "config.yaml:2: invalid YAML: found character that cannot start any token: indent with spaces, not with tabs",
        ),
        ("limits: {turns: 3\n", "config.yaml:2: invalid YAML: "),
        ("- turns\n", "config.yaml:1: a configuration must be a mapping of keys to values"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_line(cli: Cli, text: str, said: str) -> None:
    (cli.workspace / ".treadle").mkdir()
    (cli.workspace / ".treadle/config.yaml").write_text(text)
    answer = cli("run", "x", "--model", cli.script(HI))
    assert (answer.code, answer.out, len(answer.err.splitlines())) == (2, "", 1)
    assert said in answer.err


def test_a_finished_run_is_not_run_again_and_its_result_is_given(cli: Cli) -> None:
    cli("run", "x", "--model", cli.script(HI))
    answer = cli("runs", "resume", "last")
    assert (answer.code, answer.out) == (0, "Hi.\n")
    assert "has already finished; this is its result" in answer.err


def test_undo_leaves_what_was_changed_since(cli: Cli) -> None:
    script = cli.script(
        {"tool_calls": [{"name": "write", "arguments": {"path": "a.txt", "content": "one"}}]}, HI
    )
    cli("run", "x", "--mode", "accept-edits", "--model", script)
    (cli.workspace / "a.txt").write_text("mine")
    answer = cli("runs", "undo", "last")
    assert answer.code == 1
    assert answer.out.startswith(
        "refused a.txt: it has been changed since\nA refused file is not changed. If a later run or turn changed it, undo that one first;"
    )


def test_a_server_that_is_not_there_is_told_with_what_to_check(cli: Cli) -> None:
    answer = cli("run", "x", ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL="http://127.0.0.1:1")
    assert answer.code == 75
    assert (
        "network: cannot connect to 127.0.0.1:1: Connection refused: check base_url, and that the server is running"
        in answer.err
    )


def test_a_proxy_that_is_not_there_is_told_with_what_to_check(cli: Cli) -> None:
    answer = cli("run", "x", ANTHROPIC_API_KEY=KEY, HTTPS_PROXY="http://127.0.0.1:1", NO_PROXY="")
    assert answer.code == 75
    assert (
        "cannot connect to the proxy 127.0.0.1:1: Connection refused: check HTTPS_PROXY, or add the host to NO_PROXY"
        in answer.err
    )


def test_ctrl_c_ends_a_run_with_130_and_says_what_goes_on(cli: Cli) -> None:
    words = [
        "run",
        "x",
        "--output",
        "stream-json",
        "--model",
        cli.script({"text": "word " * 500, "delay_ms": 200}),
    ]
    run = subprocess.Popen(
        [sys.executable, "-m", "treadle", *words],
        cwd=cli.workspace,
        env=cli.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with run:
        assert run.stdout is not None
        run.stdout.readline()
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=200)
    assert run.returncode == 130
    assert b"continues it" in err
    assert b"Traceback" not in err


# ---------------------------------------------------------------- in Python


@dataclass
class Shop:
    till: int = 0


class Thing:
    pass


@tool
def plain(a, b):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]  without hints, as newcomers write it
    return a + b  # pyright: ignore[reportUnknownVariableType]  likewise


@tool
def thing() -> Thing:
    return Thing()


@tool
def breaks() -> str:
    raise ValueError("boom")


@tool
def charge(ctx: ToolContext[Shop], amount: int) -> str:
    ctx.deps.till += amount
    return "charged"


def hello(*tools: Tool[Any], **more: Any) -> Agent:
    return made(**{"name": "hello", "model": ScriptedModel([HI]), "tools": tools, **more})


def run(*arguments: Any, **options: Any) -> Any:
    return run_sync(*(arguments or (hello(), "x")), **options)


def as_tool(function: Any, **options: Any) -> Any:
    return tool(**options)(function)


def starred(*words: str) -> str:
    return " ".join(words)


WRITTEN: dict[str, tuple[Callable[[], object], str]] = {
    "a lambda as a tool": (lambda: as_tool(eval("lambda text: text")), "pass name="),
    "a tool with *args": (
        lambda: as_tool(starred),
        "the parameter '*words' cannot be described to a model: name each parameter",
    ),
    "a name as @tool's argument": (
        lambda: as_given("add"),
        "pass options by keyword, like @tool(name='add')",
    ),
    "a misspelt effect": (
        lambda: as_tool(starred, effect="prue"),
        "effect='prue' is not one of 'pure', 'idempotent', 'once'",
    ),
    "a function without @tool": (
        lambda: hello(tools=[run]),
        "run is not a tool: put @tool above the function",
    ),
    "a tool in place of a list": (
        lambda: hello(tools=breaks),
        "agent 'hello': tools= is a FunctionTool: pass a list of tools",
    ),
    "two tools of one name": (
        lambda: hello(breaks, breaks),
        "two tools are named 'breaks': tool names must be unique; rename one",
    ),
    "no instructions": (
        lambda: hello(instructions=None),
        "agent 'hello': instructions= is None: pass a string",
    ),
    "instructions from a function": (
        lambda: hello(instructions=eval("lambda deps, inputs: 'Help.'")),
        "agent 'hello': instructions= is a function that cannot be called with one argument "
        "(missing a required argument: 'inputs'): write def instructions(ctx: RunContext[Deps]) -> "
        "str",
    ),
    "a dollar in the instructions": (
        lambda: run(hello(instructions="Look into ${PATH}."), "x"),
        "agent 'hello' needs the input(s) PATH: pass inputs={'PATH': ...}, or write $${PATH} to "
        "keep it as text",
    ),
    "an agent without keywords": (
        lambda: made("hello", "anthropic:claude-opus-5-5"),
        "Agent takes keyword arguments only, like Agent(name='hello', model=…)",
    ),
    "Pydantic AI's name for the output": (
        lambda: hello(output_type=int),
        "Agent has no argument 'output_type': use output=",
    ),
    "Pydantic AI's declaration of deps": (
        lambda: hello(deps_type=dict),
        "Agent has no argument 'deps_type': leave it out, because the types of deps come from the tools; "
        "pass deps= to the run",
    ),
    "the Agents SDK's description for handoffs": (
        lambda: hello(handoff_description="Knows the weather."),
        "Agent has no argument 'handoff_description': use description=",
    ),
    "Pydantic AI's name for corrections of the output": (
        lambda: hello(output_retries=3),
        "Agent has no argument 'output_retries': use retries=, the number of times that the model "
        "may correct an output",
    ),
    "the Agents SDK's checks of the output": (
        lambda: hello(output_guardrails=[]),
        "Agent has no argument 'output_guardrails': use output_check=",
    ),
    "LangChain's name for the instructions": (
        lambda: hello(system_prompt="Be brief."),
        "Agent has no argument 'system_prompt': use instructions=",
    ),
    "a misspelt argument": (
        lambda: hello(instrctions="Be brief."),
        "Agent has no argument 'instrctions': did you mean 'instructions'? Its arguments: name, description",
    ),
    "no name": (lambda: made(name=None), "None is not a valid agent name"),
    "a name of two words": (
        lambda: Agent(name="my agent"),
        "'my agent' is not a valid agent name: use up to 64 letters",
    ),
    "an agent without a model": (
        lambda: run(Agent(name="a"), "x"),
        "no API key for the provider 'anthropic'",
    ),
    "a model without its provider": (
        lambda: run(hello(model="gpt-5"), "x"),
        "'gpt-5' is not a model name: write PROVIDER:MODEL, like 'openai:gpt-5'",
    ),
    "a class as a model": (
        lambda: hello(model=ScriptedModel),
        "agent 'hello': model= is the class ScriptedModel: pass a name like 'anthropic:claude-opus-5-5', or a Model object",
    ),
    "an output that JSON cannot describe": (
        lambda: hello(output=print),
        "agent 'hello': output= is ",
    ),
    "a server that is none": (
        lambda: hello(mcp_servers=[{"command": ["x"]}]),
        "agent 'hello': mcp_servers= takes a list of McpServer objects",
    ),
    "one server": (
        lambda: hello(mcp_servers=McpServer(name="x", command=["x"])),
        "agent 'hello': mcp_servers= takes a list of McpServer objects",
    ),
    "a hook's class": (
        lambda: hello(hooks=[treadle.Hook]),
        "agent 'hello': hooks= takes a list of Hook objects",
    ),
    "a dictionary of limits": (
        lambda: hello(limits={"turns": 3}),
        "agent 'hello': limits= is a dict: pass Limits(turns=…)",
    ),
    "no turns at all": (
        lambda: Limits(turns=0),
        "Limits(turns=0): pass a whole number of at least 1, or None for no limit",
    ),
    "a word for a temperature": (
        lambda: given(temperature="hot"),
        "Settings(temperature='hot'): pass a number from 0 to 2, like 0.7",
    ),
    "a yes for a temperature": (
        lambda: given(temperature=True),
        "Settings(temperature=True): pass a number from 0 to 2, like 0.7",
    ),
    "a text as what ends an answer": (
        lambda: given(stop="END"),
        "Settings(stop='END'): pass a tuple of strings, like stop=('END',)",
    ),
    "a list of what ends an answer": (
        lambda: given(stop=["END"]),
        "Settings(stop=['END']): pass a tuple of strings, like stop=('END',)",
    ),
    "no text as what ends an answer": (
        lambda: given(stop=(1,)),
        "Settings(stop=(1,)): pass a tuple of strings",
    ),
    "a misspelt way of thinking": (
        lambda: given(thinking="high"),
        "pass True, False, 'adaptive', 'between_tools', or a number of tokens",
    ),
    "an effort that is none": (
        lambda: given(effort="hard"),
        "Settings(effort='hard'): pass one of 'low', 'medium', 'high', 'xhigh', 'max'",
    ),
    "a tool in place of its name": (
        lambda: given(tool_choice=plain),
        "pass 'auto', 'any', 'none', or a tool's name",
    ),
    "a class as a schema": (
        lambda: given(output_schema=Shop),
        "pass a JSON Schema as a dict, like {'type': 'object', 'properties': {…}}",
    ),
    "a word for a switch": (
        lambda: given(cache="off"),
        "Settings(cache='off'): pass True, False, '5m' or '1h'",
    ),
    "a text as what is added": (
        lambda: given(extra="x"),
        "Settings(extra='x'): pass a dict of fields for the request body",
    ),
    "a dictionary of settings": (
        lambda: run(settings={"temperature": 1}),
        "settings= is a dict: pass Settings(max_tokens=…, temperature=…)",
    ),
    "an option of the command line": (
        lambda: run(max_turns=3),
        "a run has no option 'max_turns': use limits=Limits(turns=…)",
    ),
    "an option of the settings": (
        lambda: run(temperature=1),
        "use settings=Settings(temperature=…)",
    ),
    "an option of the agent": (
        lambda: run(model="openai:gpt-5"),
        "pass model= to the agent",
    ),
    "Pydantic AI's name for earlier messages": (
        lambda: run(message_history=[]),
        "a run has no option 'message_history': use messages=, or session= to keep the conversation",
    ),
    "the Agents SDK's name for dependencies": (
        lambda: run(context=Shop),
        "a run has no option 'context': use deps= for what tools receive",
    ),
    "LangGraph's name for a session": (
        lambda: run(thread_id="ada"),
        "a run has no option 'thread_id': use session=",
    ),
    "a misspelt option": (
        lambda: run(limit=Limits()),
        "a run has no option 'limit': did you mean 'limits'? Its options: callbacks, cwd",
    ),
    "a misspelt mode": (
        lambda: run(mode="fulll"),
        "mode='fulll' is not one of: ask, accept-edits, plan, full",
    ),
    "a number as a user": (
        lambda: run(user_id=5),
        "user_id= is a value of type int: pass a string",
    ),
    "a misspelt answer to a question": (
        lambda: run(on_ask="waitt"),
        "on_ask='waitt' is not one of: deny, wait",
    ),
    "a misspelt way with the unknown": (
        lambda: run(on_unknown="huh"),
        "on_unknown='huh' is not one of: tell, wait, fail",
    ),
    "a no without a reason": (
        lambda: treadle.Deny(cast("Any", None)),
        "Deny(None): pass the reason as a string, or omit it",
    ),
    "an object as a result": (
        lambda: answers_of(cast("Any", {"results": {"c1": {"id": 5}}})),
        "results= takes a string for each call",
    ),
    "a list of denials": (
        lambda: answers_of(cast("Any", {"deny": ["c1"]})),
        "deny= takes a string for each call",
    ),
    "a directory that is not there": (
        lambda: run(cwd="/gone/away"),
        "cwd='/gone/away' is not a directory",
    ),
    "a dictionary of callbacks": (
        lambda: run(callbacks={"on_text_delta": print}),
        "callbacks= is a dict: pass Callbacks(",
    ),
    "a callback that is none": (
        lambda: callbacks(on_complete="print"),
        "on_complete= is a str: pass a function",
    ),
    "an event's callback that is none": (
        lambda: run(on_event="print"),
        "on_event= is a str: pass a function",
    ),
    "the agent's name in place of the agent": (
        lambda: run("hello", "x"),
        "the first argument must be the agent, like Agent(name=…), not a str",
    ),
    "an empty prompt": (
        lambda: run(hello(), " "),
        "the prompt is empty: say what the agent should do",
    ),
    "bytes as a prompt": (
        lambda: run(hello(), b"x"),
        "a list of strings, paths and MediaParts, not bytes: use .decode(), or",
    ),
    "a picture of nothing": (
        lambda: run(hello(), [MediaPart(media_type="image/png")]),
        "needs either data or url",
    ),
    "a message as a prompt": (
        lambda: run(hello(), Message.user("x")),
        "not a Message: earlier messages belong in a session",
    ),
    "None as a prompt": (
        lambda: run(hello(), None),
        "a prompt must be a string, or a list of strings, paths and MediaParts, not None",
    ),
    "inputs that were forgotten": (
        lambda: run(hello(instructions="${who}"), "x"),
        "needs the input(s) who: pass inputs={'who': ...}",
    ),
    "a list of inputs": (
        lambda: run(inputs=["Ada"]),
        "inputs= is a list: pass values by name, like inputs={'who': 'Ada'}",
    ),
    "a text as a script": (
        lambda: scripted(["Hi."]),
        'entry 1 is not a script entry: Expected `object`, got `str`. Write {"text": "Hi."}',
    ),
    "a text in place of a script": (
        lambda: scripted("Hi."),
        'script:inline: pass a list of entries, like [{"text": "Hi."}]',
    ),
    "the Agents SDK's end of a run by a tool": (
        lambda: hello(tool_use_behavior="stop_on_first_tool"),
        "Agent has no argument 'tool_use_behavior': return ToolDone(value) from the tool",
    ),
    "a file's name as a journal": (
        lambda: Runtime.open("runs.db"),
        "'runs.db' is not a journal URL: use 'sqlite:///runs.db'",
    ),
    "a path as a journal": (
        lambda: opened(Path("runs.db")),
        "a journal needs a URL, not a PosixPath: pass f'sqlite:///{path}'",
    ),
    "a directory as a journal": (
        lambda: Runtime.open("sqlite:////"),
        "is a directory: give the path of a file",
    ),
    "a number as a session": (
        lambda: opened().session(5, agent=hello()),
        "5 is not a valid session ID: use up to 128 printable characters",
    ),
}


@pytest.fixture
def nothing_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "TREADLE_AGENT_API_KEY",
        "TREADLE_MODEL",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("nothing_configured")
@pytest.mark.parametrize("mistake", WRITTEN)
def test_what_is_wrong_in_a_program_is_told_before_anything_runs(mistake: str) -> None:
    make, said = WRITTEN[mistake]
    with pytest.raises(AgentError, match=re.escape(said)) as raised:
        make()
    assert raised.value.kind in (ErrorKind.INVALID, ErrorKind.AUTH)


def test_an_agent_without_methods_to_run_it_says_what_runs_it() -> None:
    agent: Any = hello()
    with pytest.raises(AttributeError, match=re.escape("use treadle.run_sync(agent, …)")):
        agent.run_sync("x")
    assert not hasattr(agent, "anything_else")


def test_an_error_of_an_unknown_kind_names_the_kinds() -> None:
    with pytest.raises(ValueError, match="'server' is not a kind of error: use one of agent, tool"):
        AgentError("server", "It failed.")


@pytest.mark.parametrize(
    ("one", "arguments", "said"),
    [
        (cast("Any", plain), {"a": 19, "b": 23}, "42"),
        (
            thing,
            {},
            "it returned a Thing that cannot be written as JSON (tests.test_newcomer.Thing has no JSON form): text, numbers, lists,",
        ),
        (breaks, {}, "ValueError: boom"),
        (
            charge,
            {"amount": 1},
            "AttributeError: 'NoneType' object has no attribute 'till' (ctx.deps is None: pass deps= to the run)",
        ),
    ],
)
def test_what_a_tool_does_wrong_is_read_by_the_model_and_the_run_goes_on(
    one: Tool[Any], arguments: dict[str, int], said: str
) -> None:
    model = ScriptedModel([{"tool_calls": [{"name": one.name, "arguments": arguments}]}, HI])
    result = treadle.run_sync(Agent(name="a", model=model, tools=[one]), "x")
    assert said in result.messages[2].tool_results[0].text
    assert result.text == "Hi."


def test_a_script_that_runs_out_says_so() -> None:
    result = treadle.run_sync(Agent(name="a", model=ScriptedModel([])), "x")
    with pytest.raises(
        AgentError,
        match=r"is exhausted: it has 0 entries, and another response was requested\. Add an entry to it",
    ):
        result.unwrap()


async def in_a_loop() -> None:
    treadle.run_sync(hello(), "x")


async def after_its_end() -> None:
    async with Runtime.open() as runtime:
        pass
    await runtime.run(hello(), "x")


async def without_its_block() -> None:
    async with Runtime.open() as runtime:
        async for _ in runtime.stream(hello(), "x"):
            pass


async def twice() -> None:
    async with Runtime.open() as runtime, runtime.stream(hello(), "x") as stream:
        assert [event async for event in stream]
        async for _ in stream:
            pass


async def too_early() -> None:
    async with Runtime.open() as runtime, runtime.stream(hello(), "x") as stream:
        assert stream.result


async def at_once() -> None:
    async with Runtime.open() as runtime:
        session = runtime.session("ada", agent=hello())
        async with session.stream("x"):
            await session.send("y")


async def unknown() -> None:
    async with Runtime.open() as runtime:
        await runtime.resume("nope")


async def no_text_in_a_fork() -> None:
    async with Runtime.open() as runtime:
        result = await runtime.run(hello(), "x")
        await runtime.fork(result.run_id, turn=0, results=cast("Any", {"c": 5}))


async def in_no_queue() -> None:
    async with Runtime.open() as runtime:
        await runtime.submit(hello(), "x", queue="nope")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            in_a_loop,
            "run_sync cannot run inside a running event loop: use `await treadle.run(…)` there",
        ),
        (after_its_end, "this runtime is closed: open a new one"),
        (without_its_block, "this run has not started: enter it with `async with` first"),
        (twice, "the events of this run can be read only once"),
        (too_early, "this run has not ended: read its events to the end first"),
        (at_once, "session 'ada' has an active run: wait for it to end, cancel it, or steer it"),
        (unknown, "unknown run 'nope'"),
        (no_text_in_a_fork, "results= takes a string for each call"),
        (in_no_queue, "unknown queue 'nope'. Available: default"),
    ],
)
async def test_what_is_wrong_about_a_loop_is_told(
    wrong: Callable[[], Awaitable[None]], said: str
) -> None:
    with anyio.fail_after(20), pytest.raises(AgentError, match=re.escape(said)):
        await wrong()


def test_a_runtime_can_be_used_in_one_loop_after_the_other(tmp_path: Path) -> None:
    runtime = Runtime.open(f"sqlite:///{tmp_path / 'runs.db'}")
    for _ in range(2):
        assert asyncio.run(runtime.run(hello(), "x")).text == "Hi."
    asyncio.run(runtime.aclose())


def test_an_await_that_was_forgotten_is_told_by_python() -> None:
    runtime = Runtime.open()
    coroutine: Any = runtime.run(hello(), "x")
    with (
        contextlib.closing(coroutine),
        pytest.raises(AttributeError, match="'coroutine' object has no attribute 'text'"),
    ):
        assert coroutine.text


def test_a_misspelt_name_is_told_with_the_right_one() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import treadle; treadle.Agnt"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.endswith(
        "AttributeError: module 'treadle' has no attribute 'Agnt'. Did you mean: 'Agent'?\n"
    )


def test_settings_and_limits_are_given_by_name() -> None:
    assert run(settings=Settings(temperature=0.5), limits=Limits(turns=3)).success


NAMED: dict[str, tuple[Callable[[], object], str]] = {
    "the Agents SDK's name of the answer": (
        lambda: run(hello(), "x").final_output,
        "'RunResult' object has no attribute 'final_output': use .unwrap(), or .output",
    ),
    "Pydantic AI's messages of a result": (
        lambda: run(hello(), "x").all_messages,
        "'RunResult' object has no attribute 'all_messages': use .messages",
    ),
    "a synchronous method of the runtime": (
        lambda: opened().run_sync,
        "'Runtime' object has no attribute 'run_sync': use treadle.run_sync(agent, …)",
    ),
    "Pydantic AI's decorator of a tool": (
        lambda: made(name="hello").tool_plain,
        "'Agent' object has no attribute 'tool_plain': use @treadle.tool",
    ),
    "Pydantic AI's limits": (
        lambda: cast("Any", treadle).UsageLimits,
        "module 'treadle' has no attribute 'UsageLimits': use treadle.Limits",
    ),
    "the Agents SDK's name of a limit": (
        lambda: limited(max_turns=3),
        "Limits has no field 'max_turns': use turns=",
    ),
    "a misspelt limit": (
        lambda: limited(turn=3),
        "Limits has no field 'turn'. Its fields: turns, tool_calls, seconds, tokens, cost_usd",
    ),
    "the name of OpenAI's setting": (
        lambda: given(max_output_tokens=3),
        "Settings has no field 'max_output_tokens': use max_tokens=",
    ),
    "a path as a picture": (
        lambda: cast("Any", MediaPart)("loom.png"),
        "MediaPart takes keyword arguments only: media_type=, data=",
    ),
    "the Agents SDK's filter of a handoff": (
        lambda: cast("Any", treadle.handoff)(hello(), input_filter=None),
        "handoff() has no argument 'input_filter': use history=",
    ),
    "LangGraph's name for the journal": (
        lambda: opened(checkpointer=None),
        "open() has no argument 'checkpointer': pass the URL of a journal first, like 'sqlite:///runs.db'",
    ),
    "an option that a runtime has not": (
        lambda: opened(modle=None),
        "Runtime.open() got an unexpected keyword argument 'modle'",
    ),
    "arguments as in a configuration of MCP": (
        lambda: cast("Any", McpServer)(name="x", command="npx", args=["server"]),
        "McpServer has no field 'args': append the arguments to command=",
    ),
    "the Agents SDK's method of a session": (
        lambda: opened().session("ada", agent=hello()).get_items,
        "'Session' object has no attribute 'get_items': use history()",
    ),
    "Pydantic AI's text of a stream": (
        lambda: opened().stream(hello(), "x").stream_text,
        "'RunStream' object has no attribute 'stream_text': use .text_stream()",
    ),
    "Pydantic AI's approval of a tool": (
        lambda: as_given(requires_approval=True),
        "unexpected keyword argument 'requires_approval': use needs_approval=True",
    ),
}


@pytest.mark.parametrize("mistake", NAMED)
def test_a_name_of_another_library_is_answered_by_the_name_here(mistake: str) -> None:
    make, said = NAMED[mistake]
    with pytest.raises((AttributeError, TypeError), match=re.escape(said)):
        make()


async def test_a_runtime_without_async_and_a_stream_that_is_awaited_say_how() -> None:
    use = re.escape("use `async with Runtime.open(…)`")
    with pytest.raises(TypeError, match=use), cast("Any", Runtime.open()):
        pass
    async with Runtime.open() as runtime:
        with pytest.raises(AgentError, match="a stream cannot be awaited: use `async with"):
            await cast("Any", runtime.stream(hello(), "x"))


def test_a_warning_without_subscribers_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    missing = McpServer(name="wiki", command=[sys.executable, "gone.py"])
    assert run(hello(mcp_servers=[missing]), "x").text == "Hi."
    assert "the MCP server 'wiki' cannot be used" in caplog.text


def test_costs_are_iterated_by_row() -> None:
    rows = (treadle_costs.Cost(key="ada", cost_usd=1.0), treadle_costs.Cost(key="bob"))
    costs = treadle_costs.Costs(rows=rows, total=treadle_costs.Cost(key=None, cost_usd=1.0))
    assert [row.key for row in costs] == ["ada", "bob"]
