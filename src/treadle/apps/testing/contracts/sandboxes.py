"""Contract of sandboxes, over the fixture `sandbox`: a `Sandbox` whose commands have a POSIX shell.
Import its tests: `from treadle.testing.contracts.sandboxes import *`. They are skipped where it does
not work.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import anyio
import msgspec
import pytest

from treadle.tools.confinement import CommandNotes, CommandRoom, Sandbox

WITHIN_S = 50.0


class Command(NamedTuple):
    """A command that has ended, in a sandbox."""

    code: int
    output: str
    notes: CommandNotes


def room(workspace: Path) -> CommandRoom:
    """Return the room of an approved command in this workspace."""
    scratch, quarantine = workspace.with_name("scratch"), workspace.with_name("quarantine")
    scratch.mkdir(exist_ok=True)
    quarantine.mkdir(exist_ok=True)
    return CommandRoom(
        workspace=workspace, scratch=lambda: scratch, quarantine=lambda: quarantine, is_open=True
    )


async def confined(
    sandbox: Sandbox,
    inside: CommandRoom,
    line: str,
    environment: Mapping[str, str] | None = None,
) -> Command:
    """Run a line of shell as the bash tool does."""
    if not (status := await sandbox.standing()).works:
        pytest.skip(status.text)
    given = {"PATH": os.environ.get("PATH", os.defpath), **(environment or {})}
    with anyio.fail_after(WITHIN_S):
        cage = await sandbox.cage(["/bin/sh", "-c", line], inside.workspace, given, inside)
        try:
            process = await anyio.open_process(
                [*cage.argv],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.STDOUT,
                cwd=inside.workspace,
                env=cage.environment,
                pass_fds=tuple(cage.pass_fds),
                start_new_session=True,
            )
            async with process:
                await cage.entered(process.pid)
                assert process.stdout is not None
                output = b"".join([chunk async for chunk in process.stdout])
                code = await process.wait()
        finally:
            notes = await cage.leave()
        assert await cage.leave() == notes
    return Command(code, output.decode(), notes)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "workspace"
    folder.mkdir()
    (folder / "notes.txt").write_text("high tide at noon\n")
    return folder


async def test_a_sandbox_has_a_name_and_one_status(sandbox: Sandbox) -> None:
    sandbox.begin()
    first = await sandbox.standing()
    assert sandbox.name
    assert first.text
    assert await sandbox.standing() == first


async def test_a_command_reads_the_workspace_and_ends_with_its_own_code(
    sandbox: Sandbox, workspace: Path
) -> None:
    ended = await confined(sandbox, room(workspace), "cat notes.txt; exit 7")
    assert (ended.code, ended.output) == (7, "high tide at noon\n")
    assert ended.notes.begun


async def test_a_command_gets_its_environment(sandbox: Sandbox, workspace: Path) -> None:
    ended = await confined(
        sandbox, room(workspace), 'printf "%s" "$TIDE"', {"TIDE": "a 'high' $one\n"}
    )
    assert ended.output == "a 'high' $one\n"


async def test_what_an_open_command_writes_is_in_the_workspace(
    sandbox: Sandbox, workspace: Path
) -> None:
    ended = await confined(sandbox, room(workspace), "mkdir -p a/b && echo low > a/b/tide.txt")
    assert ended.code == 0, ended.output
    assert (workspace / "a" / "b" / "tide.txt").read_text() == "low\n"
    assert (workspace / "notes.txt").read_text() == "high tide at noon\n"


async def test_a_read_only_command_leaves_the_workspace_as_it_was(
    sandbox: Sandbox, workspace: Path
) -> None:
    inside = msgspec.structs.replace(room(workspace), is_open=False, is_read_only=True)
    await confined(sandbox, inside, "echo low > notes.txt; echo new > new.txt; rm -f notes.txt")
    assert (workspace / "notes.txt").read_text() == "high tide at noon\n"
    assert os.listdir(workspace) == ["notes.txt"]


async def test_commands_at_the_same_time_do_not_mix(sandbox: Sandbox, workspace: Path) -> None:
    ended: dict[int, str] = {}

    async def run(number: int) -> None:
        ended[number] = (await confined(sandbox, room(workspace), f"echo {number}")).output

    async with anyio.create_task_group() as group:
        for number in range(3):
            group.start_soon(run, number)
    assert ended == {number: f"{number}\n" for number in range(3)}


async def test_closing_twice_is_closing_once(sandbox: Sandbox) -> None:
    await sandbox.aclose()
    await sandbox.aclose()
