"""Commands that only look, secrets of the workspace and rules about files: what a run's commands
can do in each mode, with a real sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.policy.sandboxes.conftest import needs_bubblewrap
from treadle import Agent, Runtime
from treadle.config import Config, load
from treadle.config.sections import Permissions
from treadle.messages.message import ToolResult
from treadle.testing import ScriptedModel
from treadle.tools.builtin.bash import Bash
from treadle.types import Mode

pytestmark = needs_bubblewrap
MODES: tuple[Mode, ...] = ("plan", "ask", "accept-edits", "full")


@pytest.fixture
def work(base: Path) -> Path:
    """A workspace outside /tmp, of which a command sees its own."""
    place = base / "work"
    for file in (
        "a.txt",
        "sub/b.txt",
        "private/key",
        "private/deep/key",
        "prod/settings",
        ".env",
        "secrets.json",
        "certs/server.key",
        ".npmrc",
    ):
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).write_text("CANARY\n")
    (place / ".git").mkdir()
    return place


def config(
    sandbox: str = "auto",
    *,
    allow: Sequence[str] = (),
    ask: Sequence[str] = (),
    deny: Sequence[str] = (),
) -> Config:
    said = load(
        {"HOME": "/nonexistent", "PATH": os.environ["PATH"]},
        files=False,
        flags={"--no-sandbox": sandbox},
    )
    return structs.replace(
        said, permissions=Permissions(allow=tuple(allow), ask=tuple(ask), deny=tuple(deny))
    )


def ruled(what: str, rule: str) -> Config:
    return config(deny=[rule]) if what == "deny" else config(ask=[rule])


def agent_of(command: str, *, background: bool = False) -> Agent[Any, Any]:
    calls = [
        {
            "tool_calls": [
                {"name": "bash", "arguments": {"command": command, "background": in_background}}
            ]
        }
        for in_background in (True, False)
    ]
    return Agent(
        name="a", model=ScriptedModel([*calls[not background :], {"text": "done"}]), tools=[Bash()]
    )


async def ran(
    work: Path, command: str, mode: Mode, given: Config | None = None, *, background: bool = False
) -> ToolResult:
    """What the last of the commands says: there is a second one after one in the background."""
    async with Runtime(config=given or config()) as runtime:
        result = await runtime.run(
            agent_of(command, background=background), "go", cwd=work, mode=mode
        )
    (told,) = result.messages[-2].tool_results
    return told


async def approved(work: Path, command: str, mode: Mode, given: Config) -> ToolResult:
    """The result of a command that a person approved."""
    agent = agent_of(command)
    async with Runtime(config=given) as runtime:
        held = await runtime.run(agent, "go", cwd=work, mode=mode, on_ask="wait")
        state = await runtime.journal.load(held.run_id)
        result = await runtime.resume(held.run_id, approve=[state.current.open_calls[0].id])
    (told,) = result.messages[-2].tool_results
    return told


def found_in(text: str) -> set[str]:
    """The files in which `grep -r CANARY .` found it."""
    return {
        line.partition(":")[0].removeprefix("./") for line in text.split("\n") if ":CANARY" in line
    }


# ---------------------------------------------------------------- only looking

TREACHEROUS = "touch made; echo x > a.txt; rm -rf sub; touch /tmp/scratch && echo scratch; readlink /proc/self/ns/net"
"""What a line could do that the policy took for one that only looks."""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "line", ["cat a.txt", "git log", "cat /etc/hostname"], ids=["reads", "held", "beyond"]
)
@pytest.mark.parametrize("background", [False, True])
async def test_what_only_looks_can_write_nothing_and_reach_nothing(
    work: Path, mode: Mode, line: str, background: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy judges a harmless line, and bash is given another: so it would be if the two read
    a line differently.
    """
    from treadle.tools.builtin import bash

    started = bash.start

    pieces = [
        f"( {TREACHEROUS} ) > /tmp/said 2> /dev/null; touch /tmp/done",
        "until [ -e /tmp/done ]; do sleep 0.01; done; cat /tmp/said",
    ]
    lines = iter(pieces if background else ["; ".join(pieces)])

    async def mistaken(ctx: Any, command: str, output: int) -> Any:
        return await started(ctx, next(lines), output)

    monkeypatch.setattr(bash, "start", mistaken)
    told = await ran(work, line, mode, background=background)
    if line.endswith("hostname") and mode != "full":
        assert told.is_error, "it asks"
        return
    assert told.text.startswith("scratch\nnet:[")
    assert os.readlink("/proc/self/ns/net") not in told.text
    assert sorted(path.name for path in work.iterdir() if path.is_file()) == [
        ".env",
        ".npmrc",
        "a.txt",
        "secrets.json",
    ]
    assert (work / "a.txt").read_text() == "CANARY\n"
    assert (work / "sub/b.txt").exists()


async def _mistaken(
    monkeypatch: pytest.MonkeyPatch,
    work: Path,
    real: str,
    given: Config | None = None,
    mode: Mode = "full",
) -> str:
    """What `real` says where the policy took it for a line that only looks."""
    from treadle.tools.builtin import bash

    started = bash.start

    async def mistaken(ctx: Any, command: str, output: int) -> Any:
        return await started(ctx, real, output)

    monkeypatch.setattr(bash, "start", mistaken)
    return (await ran(work, "cat a.txt", mode, given)).text


@pytest.mark.parametrize("mode", ["plan", "full"])
async def test_what_only_looks_writes_into_no_named_pipe(
    work: Path, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = work / "sub/pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert "Permission denied" in await _mistaken(
            monkeypatch, work, "echo evil > sub/pipe", mode=mode
        )
        assert os.read(reader, 100) == b""
    finally:
        os.close(reader)


async def test_what_only_looks_has_no_network_in_mode_full(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = structs.replace(config(), permissions=Permissions(network="open"))
    host = os.readlink("/proc/self/ns/net")
    assert (
        await ran(work, "touch made && readlink /proc/self/ns/net", "full", opened)
    ).text == host
    assert await _mistaken(monkeypatch, work, "readlink /proc/self/ns/net", opened) not in (
        host,
        "",
    )


async def test_what_only_looks_cannot_write_the_repository_of_its_worktree(
    work: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / ".git").rmdir()
    own = base / "main/.git/worktrees/w"
    files = {
        f"{work}/.git": f"gitdir: {own}\n",
        f"{own}/gitdir": f"{work}/.git\n",
        f"{own}/commondir": "../..\n",
        f"{base}/main/.git/config": "[core]\n",
    }
    for file, text in files.items():
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(text)
    (work / "x.sh").write_text(f"touch {own}/ORIG_HEAD\n")
    await ran(work, "bash x.sh", "full")
    assert (own / "ORIG_HEAD").exists()
    assert "Read-only file system" in await _mistaken(monkeypatch, work, f"touch {own}/FETCH_HEAD")
    assert not (own / "FETCH_HEAD").exists()


async def test_what_may_write_does_in_the_modes_that_let_it(work: Path) -> None:
    await ran(work, "touch made-in-full", "full")
    await ran(work, "touch made-by-edit", "accept-edits")
    await ran(work, "./x.sh || touch made-by-rule", "ask", config(allow=["./x.sh", "touch *"]))
    assert {path.name for path in work.glob("made-*")} == {
        "made-in-full",
        "made-by-edit",
        "made-by-rule",
    }


@pytest.mark.parametrize(
    ("sandbox", "mode", "writes"),
    [("auto", "ask", True), ("on", "ask", True), ("on", "plan", False)],
)
async def test_what_a_person_approved_may_write_but_for_a_plan_that_is_confined(
    work: Path, sandbox: str, mode: Mode, writes: bool
) -> None:
    command = "cat /etc/hostname; touch made" if mode == "ask" else "cat /etc/hostname"
    if mode == "plan":
        assert (await approved(work, command, mode, config(sandbox))).is_error is False
        return
    await approved(work, command, mode, config(sandbox))
    assert (work / "made").exists() is writes


# ---------------------------------------------------------------- secrets of the workspace


@pytest.mark.parametrize("mode", ["ask", "accept-edits"])
async def test_secrets_of_the_workspace_are_hidden(work: Path, mode: Mode) -> None:
    assert found_in((await ran(work, "grep -r CANARY .", mode)).text) == {
        "a.txt",
        "sub/b.txt",
        "private/key",
        "private/deep/key",
        "prod/settings",
    }


async def test_a_rule_that_allows_reading_shows_a_secret(work: Path) -> None:
    told = await ran(
        work, "grep -r CANARY .", "ask", config(allow=["read(certs/**)", "read(.npmrc)"])
    )
    assert found_in(told.text) >= {"certs/server.key", ".npmrc"}
    assert ".env" not in found_in(told.text)


async def test_in_mode_full_they_are_in_view_also_for_what_only_looks(work: Path) -> None:
    assert found_in((await ran(work, "grep -r CANARY .", "full")).text) >= {
        ".env",
        "secrets.json",
        "certs/server.key",
    }
    assert (await ran(work, "sh -c 'cat .env'", "full")).text == "CANARY"


# ---------------------------------------------------------------- rules about reading

READERS = [
    "grep -r CANARY .",
    "grep -rn CANARY private sub",
    "cat */*",
    "sh -c 'cat private/*; cat private/deep/*; cat sub/*'",
    "git grep --no-index CANARY",
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "rule",
    ["read(private/**)", "read(private)", "read(p?ivate/**)", "read(**/key)", "read(PRIVATE/**)"],
)
async def test_what_a_rule_denies_to_read_is_hidden_in_every_mode(
    work: Path, mode: Mode, rule: str
) -> None:
    found = found_in((await ran(work, "grep -r CANARY .", mode, config(deny=[rule]))).text)
    assert "a.txt" in found
    assert not {"private/key", "private/deep/key"} & found


@pytest.mark.parametrize("what", ["deny", "ask"])
@pytest.mark.parametrize(
    "command",
    [
        "python3 -c \"import glob; print([open(f).read() for f in glob.glob('**/key', recursive=True)])\"",
        "sh -c 'cat */key'",
    ],
)
async def test_code_that_no_parser_reads_finds_nothing_there_either(
    work: Path, what: str, command: str
) -> None:
    assert "CANARY" not in (await ran(work, command, "full", ruled(what, "read(private/**)"))).text
    assert "CANARY" in (await ran(work, command, "full")).text


async def test_a_link_that_leads_to_itself_shows_nothing(work: Path) -> None:
    """Asking whether it is a folder fails, which must not end the look at what lies beside it."""
    for name in ("loop", "secrets.yaml"):
        (work / name).symlink_to(name)
    told = await ran(work, "sh -c 'echo begun'", "full", config(deny=["read(private/**)"]))
    assert (told.text, told.is_error) == ("begun", False)
    assert (
        await ran(
            work,
            "cat private/key secrets.json .env; true",
            "ask",
            config(allow=["cat"], deny=["read(private/**)"]),
        )
    ).text.count("CANARY") == 0
    told = await ran(work, "grep -rhs CANARY . | wc -l", "ask")
    assert told.text == "5"  # and not those of the secrets


async def test_a_rule_outlives_a_folder_that_is_renamed(work: Path) -> None:
    (work / "a/private").mkdir(parents=True)
    (work / "a/private/key").write_text("CANARY")
    rules = config(deny=["read(a/private/**)"])
    await ran(work, "mv a b; cp -r a c", "full", rules)
    assert "CANARY" not in (await ran(work, "cat b/private/key c/private/key", "full", rules)).text


async def test_links_lead_to_nothing_that_a_rule_denies(work: Path) -> None:
    (work / "link").symlink_to("private")
    (work / "outer").symlink_to("../outside")
    (work.parent / "outside").mkdir()
    (work.parent / "outside/key").write_text("CANARY")
    told = await ran(
        work,
        "sh -c 'cat link/key; cat outer/key; cat ../outside/key'",
        "full",
        config(deny=["read(private/**)", "read(outer/**)"]),
    )
    assert "CANARY" not in told.text


async def test_a_person_s_approval_does_not_undo_a_denial(work: Path) -> None:
    told = await approved(
        work, "grep -r CANARY .; rm prod/settings", "ask", config(deny=["read(private/**)"])
    )
    assert not {"private/key", "private/deep/key"} & found_in(told.text)
    assert not (work / "prod/settings").exists()


@pytest.mark.parametrize("mode", MODES)
async def test_without_a_sandbox_what_reads_below_is_denied_or_asks(work: Path, mode: Mode) -> None:
    denied = await ran(work, "grep -r CANARY .", mode, config("off", deny=["read(private/**)"]))
    asked = await ran(work, "grep -r CANARY .", mode, config("off", ask=["read(private/**)"]))
    assert denied.is_error
    assert "denies reading files below '.'" in denied.text
    assert denied.text.endswith("only a sandbox could hide them: none works here."), (
        "nobody can approve it"
    )
    assert asked.is_error
    assert "only in a sandbox" in asked.text


async def test_rules_that_cover_too_much_to_tell_keep_commands_from_running(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from treadle.policy import ruled_files

    rules = config(deny=["read(**/*.pem)"])
    monkeypatch.setattr(ruled_files, "MAX_LOOKED_AT", 3)
    told = await ran(work, "sh -c 'echo begun'", "full", rules)
    assert told.is_error
    assert "would have to be compared with more than 3 files; name a folder in it" in told.text
    monkeypatch.undo()
    monkeypatch.setattr(ruled_files, "MAX_FOUND", 3)
    for i in range(4):
        (work / f"{i}.pem").touch()
    told = await ran(work, "sh -c 'echo begun'", "full", rules)
    assert "cover more than 3 separate files" in told.text


# ---------------------------------------------------------------- rules about writing

WRITERS = [
    "sh -c 'echo x > prod/settings'",
    "sh -c 'echo x > prod/new; mkdir prod/more'",
    "sh -c 'mv prod elsewhere; rm -rf prod'",
    "python3 -c \"open('prod/settings', 'w')\"",
]


@pytest.mark.parametrize("command", WRITERS)
@pytest.mark.parametrize("what", ["deny", "ask"])
async def test_what_a_rule_denies_to_write_cannot_be_written(
    work: Path, what: str, command: str
) -> None:
    await ran(work, command, "full", ruled(what, "write(prod/**)"))
    assert [(path.name, path.read_text()) for path in (work / "prod").iterdir()] == [
        ("settings", "CANARY\n")
    ]


@pytest.mark.parametrize("path", ["new/prod/x", "new/x.lock", "top.lock"])
async def test_what_came_up_against_a_denial_is_moved_away(work: Path, path: str) -> None:
    code = f"import os; p = '{path}'.replace('+', ''); os.makedirs(os.path.dirname(p) or '.', exist_ok=True); open(p, 'w').write('x')"
    spelled = code.replace(path, "+".join(path))
    told = await ran(
        work,
        f'python3 -c "{spelled}"',
        "full",
        config(deny=["write(new/prod/**)", "write(**/*.lock)"]),
    )
    assert "appeared, although a rule denies writing it: it was moved to" in told.text
    assert not (work / path).exists()


@pytest.mark.parametrize("limit", ["MAX_FOUND", "MAX_LOOKED_AT"])
async def test_however_many_files_come_up_against_a_denial_none_stays(
    work: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    from treadle.policy import ruled_files

    monkeypatch.setattr(ruled_files, limit, 30)
    rules = config(deny=["write(**/*.lock)"])
    told = await ran(
        work,
        "python3 -c \"import os; os.mkdir('n'); [open(f'n/{i}.loc' + 'k', 'w') for i in range(40)]\"",
        "full",
        rules,
    )
    assert "appeared, although a rule denies writing it: it was moved to" in told.text
    assert "and 20 more like these" in told.text
    assert list((work / "n").iterdir()) == []
    assert (await ran(work, "sh -c 'echo begun'", "full", rules)).text == "begun"
