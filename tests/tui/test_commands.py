"""What a person can say to the chat itself: which command is meant, and what each does with real
runs in a real journal.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from tests.doubles import asks, call, says
from tests.fork_server import command
from tests.tui.desks import FakeDesk, a_desk
from treadle.config import Project, load
from treadle.config.trust import survey
from treadle.config.trust_store import trust
from treadle.errors import AgentError
from treadle.messages.message import Message, decode_message
from treadle.tui import confirm
from treadle.tui.commands.conversation import find_session
from treadle.tui.commands.files import code_blocks
from treadle.tui.commands.registry import SlashCommands, UnknownCommand, is_command

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Treadle's own folder, and a person who answers at once."""
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(confirm, "DEAF_S", 0)
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def journal(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'journal.db'}"


# ---------------------------------------------------------------- which one is meant


def meant(typed: str) -> tuple[str, str] | str:
    found = SlashCommands().find(typed)
    return found.message if isinstance(found, UnknownCommand) else (found[0].name, found[1])


def test_a_command_is_found_by_its_name_or_the_beginning_of_one() -> None:
    assert meant("/model  anthropic:x ") == ("model", "anthropic:x")
    assert meant("/mode plan") == ("mode", "plan")
    assert meant("/comp") == ("compact", "")
    assert meant("/HELP") == ("help", "")
    assert meant("/rename two\nlines") == ("rename", "two\nlines")


def test_what_is_no_command_is_told_with_the_nearest_ones() -> None:
    assert meant("/modle") == "unknown command /modle: did you mean /mode or /model?"
    assert meant("/zzzzzz") == "unknown command /zzzzzz: /help lists them"
    assert (
        meant("/co")
        == "/co is the beginning of /compact, /cost, /context, /config, /copy: write more of it"
    )
    assert "\x1b" not in str(meant("/\x1b[2Jevil"))


def test_a_path_is_no_command() -> None:
    assert [
        is_command(text)
        for text in (
            "/help",
            "/git:fix a b",
            " /mode plan",
            "/etc/hosts is wrong",
            "/ or",
            "say /help",
            "/",
        )
    ] == [True] * 3 + [False] * 4


async def test_each_command_can_be_called_by_its_name(folder: Path) -> None:
    """Of those that need nobody, with nothing said yet."""
    async with a_desk(folder, columns=200) as desk:
        for command in desk.commands:
            if command.name not in ("model", "sessions", "resume"):
                try:
                    await command.run(desk, "")
                except AgentError as e:
                    assert str(e)  # noqa: PT017  that nothing has been said is told by some


# ---------------------------------------------------------------- help


async def test_help_names_every_key_and_command_and_fits_the_width(folder: Path) -> None:
    for columns in (40, 80, 120):
        async with a_desk(folder, columns=columns) as desk:
            told = await desk.command("/help")
            assert max(len(line) for line in told.splitlines()) <= columns
            assert "Shift-Tab" in told
            assert all(f"/{command.name}"[: columns // 4] in told for command in desk.commands)
            assert columns != 80 or all(command.summary in told for command in desk.commands)
            assert columns < 80 or "/export [FILE]  save to a file" in told
            assert columns < 120 or len(told.splitlines()) <= 26


# ---------------------------------------------------------------- settings


async def test_a_mode_says_what_it_runs_unasked_and_full_is_confirmed(folder: Path) -> None:
    async with a_desk(folder) as desk:
        desk.conversation.use_mode("ask")
        told = await desk.command("/mode")
        assert all(mode in told for mode in ("plan", "ask", "accept-edits", "full"))
        assert "editing files" in await desk.command("/mode acc")
        assert desk.status.mode == "accept-edits"
        for refused in ("/mode fu", "/mode fast"):
            with pytest.RaisesGroup(pytest.RaisesExc(AgentError)):
                await desk.command(refused)
        await desk.command("/mode full", "\x1b")
        assert desk.conversation.setting.mode == "accept-edits"
        await desk.command("/mode full", "\r")  # Enter alone is no, where it is dangerous
        assert desk.conversation.setting.mode == "accept-edits"
        assert "everything" in await desk.command("/mode full", "y")
        assert desk.conversation.setting.mode == desk.status.mode == "full"


async def test_a_model_is_used_from_now_on_and_one_that_is_none_is_refused(folder: Path) -> None:
    (folder / "script.json").write_text('[{"text": "hi"}]')
    async with a_desk(folder) as desk:
        assert "is used from now on" in await desk.command(f"/model script:{folder}/script.json")
        assert desk.conversation.setting.agent.model == f"script:{folder}/script.json"
        with pytest.RaisesGroup(pytest.RaisesExc(AgentError)):
            await desk.command("/model nowhere")


async def test_config_shows_what_was_set_and_from_where_but_no_secret(
    folder: Path, home: Path
) -> None:
    home.mkdir()
    (home / "config.yaml").write_text(
        "limits: {turns: 7}\nproviders: {anthropic: {api_key: sk-ant-secret-secret-1234}}\n"
    )
    (home / "config.yaml").chmod(0o600)
    async with a_desk(folder, columns=160, config=load(cwd=folder)) as desk:
        told = await desk.command("/config")
    assert re.search(r"limits\.turns +7 +\S+config\.yaml:1", told)
    assert "secret-secret" not in told
    assert "limits.seconds" not in told


# ---------------------------------------------------------------- conversations


async def test_a_conversation_is_renamed_once_it_has_begun(folder: Path) -> None:
    async with a_desk(folder, [says("hi")]) as desk:
        with pytest.RaisesGroup(pytest.RaisesExc(AgentError, match="this conversation is empty")):
            await desk.command("/rename Early")
        await desk.say("hello")
        await desk.command("/rename  The\x1b[31m  plan ")
        info = desk.conversation.info()
        assert info is not None
        assert info.title == desk.status.session == "The plan"
        with pytest.RaisesGroup(pytest.RaisesExc(AgentError, match="/rename TITLE")):
            await desk.command("/rename")


async def test_another_conversation_is_found_by_id_beginning_or_as_the_last_one(
    folder: Path,
) -> None:
    async with a_desk(folder, [says("one"), says("two")]) as desk:
        await desk.say("first")
        first = desk.conversation.session_id
        assert first is not None
        desk.conversation.open(None)
        await desk.say("second")
        for given in ("last", first, first[:-4], first.removeprefix("session_")[:-4]):
            await desk.command(f"/resume {given}")
            assert desk.opened[-1] == first
            desk.conversation.open(None)
        store = desk.conversation.runtime.sessions
        with pytest.raises(AgentError, match="matches 2 ids"):
            find_session(store, "session")
        with pytest.raises(AgentError, match=f"Did you mean .*{first}"):
            find_session(store, f"{first}x")
        await desk.command("/new")
        assert desk.opened[-1] is None


async def test_sessions_opens_the_one_that_is_chosen(folder: Path) -> None:
    async with a_desk(folder, [says("one"), says("two")]) as desk:
        await desk.say("first")
        first = desk.conversation.session_id
        desk.conversation.open(None)
        await desk.say("second")
        await desk.command("/sessions", "\x1b")
        assert desk.opened == []
        await desk.command("/sessions", "\x1b[B", "\r")
        assert desk.opened == [first]


async def test_clear_forgets_what_was_said_after_a_yes(folder: Path) -> None:
    async with a_desk(folder, [says("hi")]) as desk:
        await desk.say("hello")
        await desk.command("/clear", "n")
        assert len(await desk.conversation.messages()) == 2
        await desk.command("/clear", "y")
        assert await desk.conversation.messages() == []
        assert desk.opened == [desk.conversation.session_id]


async def test_compact_says_when_it_happens(folder: Path) -> None:
    async with a_desk(folder, [says("hi")]) as desk:
        with pytest.RaisesGroup(pytest.RaisesExc(AgentError, match="nothing to compact")):
            await desk.command("/compact")
        await desk.say("hello")
        assert "with your next message" in await desk.command("/compact")


async def test_quit_leaves(folder: Path) -> None:
    async with a_desk(folder) as desk:
        await desk.command("/q")
        assert desk.has_left


# ---------------------------------------------------------------- files


WRITES = [
    asks(
        call("write", "c1", path="a.txt", content="one\ntwo\n"),
        call("write", "c2", path="new.txt", content="new\n"),
    ),
    says("done"),
]
CHANGES = [
    asks(call("read", "c3", path="a.txt")),
    asks(call("edit", "c4", path="a.txt", edits=[{"old": "two", "new": "three"}])),
    says("changed"),
]


async def test_diff_shows_what_the_conversation_changed_in_files(
    folder: Path, tmp_path: Path
) -> None:
    async with a_desk(folder, [*WRITES, *CHANGES], url=journal(tmp_path)) as desk:
        assert "No file was changed" in await desk.command("/diff")
        await desk.say("write it")
        await desk.say("change it")
        told = await desk.command("/diff")
    assert "a.txt" in told
    assert "new.txt" in told
    assert "three" in told
    # from before the conversation to now: what stood there in between is gone
    assert "two" not in told


async def test_undo_puts_files_back_and_the_prompt_into_the_input(
    folder: Path, tmp_path: Path
) -> None:
    async with a_desk(
        folder, [*WRITES, *CHANGES, says("anew"), says("more")], url=journal(tmp_path)
    ) as desk:
        await desk.say("write it")
        await desk.say("change it")
        last = (await desk.conversation.runs())[-1].run_id
        await desk.command("/undo", "n")
        assert (folder / "a.txt").read_text() == "one\nthree\n"
        assert desk.conversation.goes_back_to is None
        told = await desk.command("/undo", "y")
        assert "a.txt: its earlier content" in told
        assert (folder / "a.txt").read_text() == "one\ntwo\n"
        assert desk.conversation.goes_back_to == last
        assert desk.line.take() == "change it"
        await desk.say("change it otherwise")
        assert [
            message.text for message in await desk.conversation.messages() if message.role == "user"
        ] == ["write it", "change it otherwise"]


async def test_undo_said_again_goes_back_further_also_through_a_fork(
    folder: Path, tmp_path: Path
) -> None:
    async with a_desk(
        folder, [*WRITES, says("second"), says("third")], url=journal(tmp_path)
    ) as desk:
        await desk.say("write it")
        await desk.say("say two")
        await desk.command("/undo")
        assert desk.line.take() == "say two"
        await desk.say("say three")  # in the place of it, in a conversation of its own
        await desk.command("/undo")
        assert desk.line.take() == "say three"
        told = await desk.command("/undo", "y")
        assert "new.txt: removed: it did not exist" in told
        assert desk.line.take() == "write it"
        assert not (folder / "new.txt").exists()
        with pytest.RaisesGroup(pytest.RaisesExc(AgentError, match="no prompt to go back before")):
            await desk.command("/undo")


async def test_undo_leaves_a_file_that_somebody_else_has_changed_since(
    folder: Path, tmp_path: Path
) -> None:
    async with a_desk(folder, WRITES, url=journal(tmp_path)) as desk:
        await desk.say("write it")
        (folder / "a.txt").write_text("mine\n")
        assert "a.txt: it has been changed since" in await desk.command("/undo", "y")
        assert (folder / "a.txt").read_text() == "mine\n"
        assert not (folder / "new.txt").exists()


async def test_copy_gives_the_answer_or_one_of_its_code_blocks_to_the_terminal(
    folder: Path,
) -> None:
    answer = "Do:\n\n```sh\nls\n```\n\nor\n\n~~~\nps\x1b[31m\n~~~\n"
    async with a_desk(folder, [says(answer)]) as desk:
        with pytest.RaisesGroup(pytest.RaisesExc(AgentError, match="no answer to copy")):
            await desk.command("/copy")
        await desk.say("how")
        desk.transcript.replay(Message.assistant(answer))
        await desk.command("/copy")
        await desk.command("/copy 2")
        for wrong in ("/copy 3", "/copy 0", "/copy x", "/copy ²"):
            with pytest.RaisesGroup(pytest.RaisesExc(AgentError, match="code block")):
                await desk.command(wrong)
        copied = [
            base64.b64decode(found).decode()
            for found in re.findall(r"\x1b\]52;c;([^\x07]*)\x07", desk.stage.out.getvalue())
        ]
    assert copied == ["Do:\n\n```sh\nls\n```\n\nor\n\n~~~\nps\n~~~", "ps"]
    assert code_blocks("no code") == []


async def test_export_writes_for_its_owner_alone_and_overwrites_only_after_a_yes(
    folder: Path, tmp_path: Path
) -> None:
    script = [asks(call("ls", "c1", path=".")), says("Two `files`.\n")]
    async with a_desk(folder, script, url=journal(tmp_path)) as desk:
        with pytest.RaisesGroup(pytest.RaisesExc(AgentError, match="nothing to export")):
            await desk.command("/export")
        await desk.say("What is *here*?")
        await desk.command("/export")
        made = folder / "what-is-here.md"
        text = made.read_text()
        assert made.stat().st_mode & 0o777 == 0o600
        assert [line for line in text.splitlines() if line.startswith("#")] == [
            r"# What is \*here\*?",
            "## You",
            "## Agent",
        ]
        assert "Two `files`." in text
        made.write_text("mine")
        await desk.command("/export what-is-here.md", "n")
        assert made.read_text() == "mine"
        await desk.command("/export what-is-here.md", "y")
        assert made.read_text() == text
        assert made.stat().st_mode & 0o777 == 0o600
        await desk.command("/export all.jsonl")
        lines = (folder / "all.jsonl").read_bytes().splitlines()
        assert [decode_message(line).id for line in lines] == [
            message.id for message in await desk.conversation.messages()
        ]
        for wrong in (".", "nowhere/file.md"):
            with pytest.RaisesGroup(pytest.RaisesExc(AgentError)):
                await desk.command(f"/export {wrong}")
        assert sorted(path.name for path in folder.iterdir()) == ["all.jsonl", "what-is-here.md"]


# ---------------------------------------------------------------- what it takes


async def test_cost_counts_turns_tokens_and_the_cached_share_by_model(
    folder: Path, tmp_path: Path
) -> None:
    used = {"usage": {"input_tokens": 250, "cache_read_tokens": 750, "output_tokens": 20}}
    async with a_desk(
        folder, [says("a", **used), says("b", **used)], url=journal(tmp_path)
    ) as desk:
        await desk.say("one")
        await desk.say("two")
        told = await desk.command("/cost")
    assert "2 turns in 2 runs" in told
    assert re.search(r"2\.0k +75% +40", told)
    assert "Today" in told


async def test_context_says_what_takes_it(folder: Path) -> None:
    script = [asks(call("read", "c1", path="big.txt")), says("read")]
    (folder / "big.txt").write_text("word " * 3000)
    async with a_desk(folder, script) as desk:
        desk.status.window_tokens = 20_000
        await desk.say("read it")
        desk.transcript.live.context_tokens = 0
        told = await desk.command("/context")
        assert "by estimate" in told
        shares = {
            name: float(number)
            for name, number in re.findall(
                r"^  (instructions|tools|messages|tool results) +([\d.]+)k? ", told, re.MULTILINE
            )
        }
        assert set(shares) == {"instructions", "tools", "messages", "tool results"}
        assert "█" in told or "#" in told
        desk.transcript.live.context_tokens = 19_000
        assert "(95%), as the model counted it" in (nearly := await desk.command("/context"))
        assert "/compact frees space" in nearly


# ---------------------------------------------------------------- what stands around it


async def test_todos_shows_the_whole_list_with_marks(folder: Path) -> None:
    todos = [
        {"content": "Look", "status": "completed"},
        {"content": "Do", "active_form": "Doing", "status": "in_progress"},
        {"content": "Tell", "status": "pending"},
    ]
    async with a_desk(folder, [asks(call("todo_write", "c1", todos=todos)), says("ok")]) as desk:
        assert "no to-do list" in await desk.command("/todos")
        await desk.say("plan")
        told = [line.split() for line in (await desk.command("/todos")).splitlines()]
    assert [line[-1] for line in told[1:]] == ["Look", "Doing", "Tell"]


async def test_agents_names_those_that_are_defined_and_what_is_wrong(
    folder: Path, home: Path
) -> None:
    (agents := folder / ".treadle" / "agents").mkdir(parents=True)
    (agents / "reviewer.md").write_text("---\ndescription: Reviews changes\n---\nReview.\n")
    (agents / "asker.md").write_text(
        "---\ndescription: Asks\ninputs: {who: {type: string}}\n---\nAsk ${who}.\n"
    )
    (agents / "broken.md").write_text("no keys")
    async with a_desk(folder, columns=400) as desk:
        assert "its project is not trusted" in await desk.command("/agents")
        project = Project(folder, folder)
        trust(home, project, survey(project, home))
        told = await desk.command("/agents")
    assert re.search(r"reviewer +Reviews changes +\.treadle/agents/reviewer\.md", told)
    assert "it needs who" in told
    assert "broken.md:1" in told


async def test_no_agents_and_no_servers_are_told_as_such(folder: Path) -> None:
    async with a_desk(folder) as desk:
        assert "No agents are defined here" in await desk.command("/agents")
        assert "No MCP servers are configured" in await desk.command("/mcp")


async def test_mcp_tells_which_servers_run_and_what_is_wrong_with_others(folder: Path) -> None:
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    from treadle.tools.mcp import McpServer

    program = Path(__file__).parents[1] / "tools" / "mcp" / "a_server.py"
    servers = [
        McpServer(name="gone", command=["/no/such/program"]),
        McpServer(name="ours", command=command(str(program), "stdio"), start_timeout_s=60),
    ]
    async with a_desk(folder, [says("hi")], columns=120, mcp_servers=servers) as desk:
        assert re.search(r"gone +not started +/no/such/program", await desk.command("/mcp"))
        await desk.say("hello")
        told = await desk.command("/mcp")
    assert re.search(r"gone +cannot be used", told)
    assert re.search(r"ours +runs, \d+ tools", told)
    assert "ours_" in told
    assert "doctor --full" in told


def test_the_desk_of_these_tests_is_one() -> None:
    from treadle.tui.desk import Desk

    _: type[Desk] = FakeDesk
