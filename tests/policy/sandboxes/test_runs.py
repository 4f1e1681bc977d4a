"""What a run does where commands can be confined, where they cannot, and where nobody wants it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.policy.sandboxes.conftest import BWRAP, needs_bubblewrap
from treadle import Agent, AgentError, Runtime
from treadle.config import Config, load
from treadle.messages.events import Event, Warned
from treadle.messages.message import ToolResult
from treadle.policy.sandboxes import trial
from treadle.policy.sandboxes.bubblewrap import Bubblewrap
from treadle.runtime.sandboxing import IDLE_KEPT, OPEN
from treadle.testing import ScriptedModel
from treadle.tools.builtin.bash import Bash
from treadle.tools.function import tool
from treadle.tools.tool import ToolContext
from treadle.types import Mode

GIT = "git status --short; echo $?"
"""Reads as far as one can see, and may run what the repository names: it needs the sandbox."""
LYING = '#!/bin/sh\nif [ "$1" = --version ]; then echo bubblewrap 0.11.0; exit; fi\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n'
"""A bubblewrap that takes all its options and confines nothing."""
REFUSED = "#!/bin/sh\nif [ \"$1\" = --version ]; then echo bubblewrap 0.11.0; exit; fi\necho 'bwrap: setting up uid map: Permission denied' >&2; exit 1\n"

Programs = Callable[[str | None], None]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Puts a program named bwrap into PATH, or none at all."""

    def put(text: str | None) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        for name in ("git", "bash", "sh", "cat", "touch", "sleep"):
            (folder / name).symlink_to(
                f"/usr/bin/{name}" if Path(f"/usr/bin/{name}").exists() else f"/bin/{name}"
            )
        if text is not None:
            (folder / "bwrap").write_text(text)
            (folder / "bwrap").chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))

    return put


def config(sandbox: str = "auto", network: str | None = None, allow: Sequence[str] = ()) -> Config:
    """As a user's own file would say it."""
    flags = {"--no-sandbox": sandbox, "--network": network, "--allow": allow or None}
    return load({"HOME": "/nonexistent", "PATH": os.environ["PATH"]}, files=False, flags=flags)


async def ran(
    cwd: Path, command: str, *, sandbox: str = "auto", network: str | None = None, **options: Any
) -> tuple[ToolResult, list[str], str]:
    """The command's result, what was warned of, and the outcome."""
    allow: Sequence[str] = options.pop("allow", ())
    warned: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, Warned) and not event.text.startswith("bash was not run"):
            warned.append(event.text)

    agent = Agent(
        name="a",
        model=ScriptedModel(
            [
                {"tool_calls": [{"name": "bash", "arguments": {"command": command}}]},
                {"text": "done"},
            ]
        ),
        tools=[Bash()],
    )
    async with Runtime(config=config(sandbox, network, allow)) as runtime:
        result = await runtime.run(agent, "go", cwd=cwd, on_event=hear, **options)
    (told,) = result.messages[-2].tool_results
    return told, warned, result.outcome.value


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


# ---------------------------------------------------------------- it works


@needs_bubblewrap
async def test_what_only_the_sandbox_can_hold_runs_unasked_in_it(work: Path) -> None:
    told, warned, outcome = await ran(work, GIT, mode="ask")
    assert (told.is_error, warned, outcome) == (False, [], "completed")
    assert "128" in told.text  # there is no repository


@needs_bubblewrap
async def test_in_mode_full_it_confines_too(work: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    told, warned, _ = await ran(
        work,
        f"touch {outside}; touch inside; readlink /proc/self/ns/net; echo $HTTPS_PROXY",
        mode="full",
    )
    namespace, proxy = told.text.split("\n")[-2:]
    assert namespace != os.readlink("/proc/self/ns/net")
    assert proxy.startswith("http://127.0.0.1:")
    assert (work / "inside").exists()
    assert (outside.exists(), warned) == (False, [])


@needs_bubblewrap
async def test_an_open_network_is_the_machines_and_is_announced_at_the_start(work: Path) -> None:
    (work / "look.sh").write_text("readlink /proc/self/ns/net")
    told, warned, _ = await ran(work, "bash look.sh", mode="full", network="open")
    assert told.text == os.readlink("/proc/self/ns/net")
    assert warned == [
        "commands have an open network (permissions.network is open): they reach every host, private networks and the servers of this machine"
    ]


@pytest.mark.parametrize(
    ("begun", "network", "times"), [("ask", "open", 1), ("full", "open", 1), ("ask", "none", 0)]
)
async def test_an_open_network_is_announced_once_where_a_run_comes_to_mode_full_later(
    work: Path, begun: Mode, network: str, times: int
) -> None:
    @tool(effect="pure")
    async def switch(ctx: ToolContext[None]) -> str:
        """Changes the mode."""
        assert ctx.session_id is not None
        for mode in ("plan", "full", "ask", "full"):
            runtime.use_mode(ctx.session_id, mode)
        return "full"

    warned: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, Warned):
            warned.append(event.text)

    model = ScriptedModel([{"tool_calls": [{"name": "switch", "arguments": {}}]}, {"text": "done"}])
    async with Runtime(config=config("auto", network)) as runtime:
        await runtime.run(
            Agent(name="a", model=model, tools=[switch, Bash()]),
            "go",
            session="s",
            cwd=work,
            mode=begun,
            on_event=hear,
        )
    assert [text for text in warned if "open network" in text] == [OPEN] * times


@needs_bubblewrap
@pytest.mark.parametrize(
    ("mode", "network"), [("full", "none"), ("ask", "open"), ("ask", "example.org"), ("ask", None)]
)
async def test_the_setting_none_and_every_other_mode_give_no_network(
    work: Path, mode: str, network: str | None
) -> None:
    (work / "look.sh").write_text(
        "readlink /proc/self/ns/net; grep -c : /proc/net/dev; echo proxy: $HTTP_PROXY"
    )
    told, warned, _ = await ran(
        work, "bash look.sh", mode=mode, network=network, allow=["bash look.sh"]
    )
    namespace, devices, proxy = told.text.split("\n")
    assert namespace != os.readlink("/proc/self/ns/net")
    assert (devices, proxy, warned) == ("1", "proxy:", [])


@needs_bubblewrap
async def test_a_refused_host_is_told_to_the_model_and_to_people_once(work: Path) -> None:
    ask = r"""ask() { exec 9<>"/dev/tcp/127.0.0.1/${HTTP_PROXY##*:}"; printf 'CONNECT %s:443 HTTP/1.1\r\n\r\n' $1 >&9; cat <&9; }; ask evil.net; ask evil.net"""
    told, warned, _ = await ran(work, ask, mode="full")
    assert "403 Forbidden" in told.text
    text = "commands cannot reach evil.net:443: the setting permissions.network does not list it. The user can add it there"
    assert f"[{text}]" in told.text
    assert warned == [f"bash: {text}"]


@needs_bubblewrap
async def test_nobody_is_asked_for_a_sandbox_where_none_is_wanted(
    work: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    told, warned, _ = await ran(work, f"touch {outside}", mode="full", sandbox="off")
    assert (told.is_error, outside.exists(), warned) == (False, True, [])
    told, warned, outcome = await ran(work, GIT, mode="ask", sandbox="off")
    assert (told.is_error, warned, outcome) == (True, [], "approval_needed")
    assert "only in a sandbox, and none works here" in told.text


async def held(runtime: Runtime, agent: Agent[Any, Any], cwd: Path) -> tuple[str, str]:
    """A run that waits for a person, and the call that it waits with."""
    result = await runtime.run(agent, "go", cwd=cwd, mode="ask", on_ask="wait")
    state = await runtime.journal.load(result.run_id)
    return result.run_id, state.current.open_calls[0].id


@needs_bubblewrap
@pytest.mark.parametrize(("sandbox", "writes"), [("auto", True), ("on", False)])
async def test_what_a_person_said_yes_to_runs_outside_unless_the_configuration_insists(
    work: Path, tmp_path: Path, sandbox: str, writes: bool
) -> None:
    outside = tmp_path / "outside"
    command = f"touch {outside}; readlink /proc/self/ns/net"
    agent = Agent(
        name="a",
        model=ScriptedModel(
            [
                {"tool_calls": [{"name": "bash", "arguments": {"command": command}}]},
                {"text": "done"},
            ]
        ),
        tools=[Bash()],
    )
    async with Runtime(config=config(sandbox)) as runtime:
        run_id, call_id = await held(runtime, agent, work)
        result = await runtime.resume(run_id, approve=[call_id])
    assert outside.exists() is writes
    assert os.readlink("/proc/self/ns/net") in result.messages[-2].tool_results[0].text


# ---------------------------------------------------------------- it does not


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (None, "bubblewrap is not installed: install bubblewrap (apt install bubblewrap"),
        (LYING, "bubblewrap 0.11.0 does not confine commands here: "),
        (REFUSED, "User namespaces are refused"),
        ("#!/bin/sh\nexit 1\n", "bubblewrap could not be tried"),
        ("no program", "bubblewrap could not be tried"),
    ],
    ids=["none", "one that lies", "refused", "one that fails", "one that cannot run"],
)
async def test_where_it_does_not_work_what_needs_it_asks_and_that_is_said_once(
    work: Path, programs: Programs, program: str | None, why: str
) -> None:
    programs(program)
    told, warned, outcome = await ran(work, GIT, mode="ask")
    assert (told.is_error, outcome) == (True, "approval_needed")
    assert "only in a sandbox, and none works here" in told.text
    (warning,) = warned
    assert warning.startswith("commands are not confined: ")
    assert why in warning
    assert warning.endswith("; commands that a sandbox would contain need approval instead")


async def test_what_needs_none_goes_on_without_one(work: Path, programs: Programs) -> None:
    programs(None)
    (work / "a").write_text("text")
    told, warned, outcome = await ran(work, "cat a", mode="ask")
    assert (told.text, outcome, len(warned)) == ("text", "completed", 1)


async def test_in_mode_full_it_is_said_that_nothing_confines(
    work: Path, programs: Programs
) -> None:
    programs(None)
    told, (warning,), _ = await ran(work, "echo ran", mode="full")
    assert told.text == "ran"
    assert warning.endswith("; in mode full they may do whatever you may")


async def test_whoever_insists_on_it_gets_no_run_without(work: Path, programs: Programs) -> None:
    programs(None)
    with pytest.raises(
        AgentError,
        match=r"defaults\.sandbox is on, and no sandbox works: bubblewrap is not installed: install bubblewrap",
    ) as raised:
        await ran(work, "echo ran", sandbox="on")
    assert raised.value.kind.value == "invalid"


async def test_an_agent_without_commands_needs_none(work: Path, programs: Programs) -> None:
    programs(None)
    async with Runtime(config=config("on")) as runtime:
        assert (
            await runtime.run(
                Agent(name="a", model=ScriptedModel([{"text": "hi"}])), "go", cwd=work
            )
        ).text == "hi"


# ---------------------------------------------------------------- trying


@needs_bubblewrap
async def test_a_success_is_remembered_until_the_program_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bwrap"
    program.write_text(
        f'#!/bin/sh\necho "$1" >> {tmp_path}/asked\nexec -a {tmp_path}/bwrap {BWRAP} "$@"\n'.replace(
            "/bin/sh", "/bin/bash"
        )
    )
    program.chmod(0o755)

    async def standing(own: Path = tmp_path) -> str:
        sandbox = Bubblewrap(str(program), own=own)
        found = await sandbox.standing()
        await sandbox.aclose()
        assert found.works, found.text
        return (tmp_path / "asked").read_text()

    once = await standing()
    monkeypatch.setattr(trial, "_succeeded", {})  # as in another process
    assert await standing() == once
    monkeypatch.undo()
    other = tmp_path / "other"
    other.mkdir()
    assert await standing(other) == once
    assert (other / "sandbox.json").read_bytes() == (tmp_path / "sandbox.json").read_bytes()
    os.utime(program, ns=(1, 1))
    again = await standing()
    assert again != once
    os.utime(program, ns=(2, 2))
    assert await standing(other) != again


async def test_a_trial_that_is_not_confined_touches_nothing_here(
    work: Path, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(LYING)
    (Path(os.environ["PATH"]) / "mv").symlink_to("/bin/mv")
    (work / ".git/hooks").mkdir(parents=True)
    (work / ".git/config").write_text("ours")
    monkeypatch.chdir(work)
    sandbox = Bubblewrap(f"{os.environ['PATH']}/bwrap")
    assert not (await sandbox.standing()).works
    assert [str(path.relative_to(work)) for path in sorted(work.rglob("*"))] == [
        ".git",
        ".git/config",
        ".git/hooks",
    ]
    assert (work / ".git/config").read_text() == "ours"


@needs_bubblewrap
async def test_a_failure_is_tried_again(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text(REFUSED)
    program.chmod(0o755)
    assert not (await Bubblewrap(str(program), own=tmp_path).standing()).works
    assert not (tmp_path / "sandbox.json").exists()


@needs_bubblewrap
async def test_sessions_that_do_nothing_keep_no_network_and_get_it_back(work: Path) -> None:
    def agent(command: str, **more: Any) -> Agent[Any, Any]:
        call = {"name": "bash", "arguments": {"command": command, **more}}
        return Agent(
            name="a",
            model=ScriptedModel([{"tool_calls": [call]}, {"text": "done"}]),
            tools=[Bash()],
        )

    ask = r"""ask() { exec 9<>"/dev/tcp/127.0.0.1/${HTTP_PROXY##*:}"; printf 'CONNECT evil.net:443 HTTP/1.1\r\n\r\n' >&9; cat <&9; }; """
    async with Runtime(config=config()) as runtime:
        await runtime.run(
            agent("readlink /proc/self/ns/net > place; sleep 100", background=True),
            "go",
            cwd=work,
            mode="full",
            session="busy",
        )
        counts: list[int] = []
        for number in range(IDLE_KEPT + 6):
            await runtime.run(agent("touch x"), "go", cwd=work, mode="full", session=f"s{number}")
            counts.append(
                len(
                    [
                        fd
                        for fd in os.listdir("/proc/self/fd")
                        if os.path.islink(f"/proc/self/fd/{fd}") and _is_network(fd)
                    ]
                )
            )
        assert max(counts) <= 2 * (IDLE_KEPT + 2)
        assert counts[-1] == counts[-4]
        result = await runtime.run(
            agent(f"{ask} ask; readlink /proc/self/ns/net"),
            "go",
            cwd=work,
            mode="full",
            session="s0",
        )
        assert "403 Forbidden" in result.messages[-2].tool_results[0].text
        again = await runtime.run(
            agent("touch x; readlink /proc/self/ns/net"),
            "go",
            cwd=work,
            mode="full",
            session="busy",
        )
        assert again.messages[-2].tool_results[0].text == (work / "place").read_text().strip()


def _is_network(fd: str) -> bool:
    return os.readlink(f"/proc/self/fd/{fd}").startswith(("net:", "user:"))
