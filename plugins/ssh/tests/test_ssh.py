"""The sandbox passes the contract, against an SSH server on the loopback address."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
from treadle.testing.contracts.sandboxes import *  # noqa: F403  every test of the contract
from treadle.testing.contracts.sandboxes import confined, room
from treadle_ssh import SshSandbox

from treadle.tools.confinement import Sandbox

SSHD = shutil.which("sshd", path=f"{os.defpath}:/usr/sbin:/usr/local/sbin")


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    if SSHD is None or shutil.which("ssh-keygen") is None or shutil.which("ssh") is None:
        pytest.skip("there is no sshd or no ssh: install openssh-server and openssh-client")
    folder = tmp_path_factory.mktemp("sshd")
    for name in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True
        )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host\nPidFile none\nUsePAM no\n"
        f"AuthorizedKeysFile {folder}/user.pub\nStrictModes no\nPasswordAuthentication no\n"
        "MaxStartups 50\nKexAlgorithms curve25519-sha256\n"  # others take 100 ms
        f"SetEnv HOME={folder}\n"  # bash would read the user's .bashrc for each command
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    server = subprocess.Popen(
        [SSHD, "-D", "-e", "-f", folder / "config"], stderr=subprocess.PIPE, text=True
    )
    assert server.stderr is not None
    if "listening" not in (told := server.stderr.readline()):
        pytest.skip(f"sshd does not start here: {told}")
    yield [
        *("-F", "none", "-i", str(folder / "user"), "-p", str(port)),
        *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"),
        *("-o", "LogLevel=ERROR", f"{getpass.getuser()}@127.0.0.1"),
    ]
    server.terminate()
    server.communicate()


@pytest.fixture
async def sandbox(host: list[str]) -> AsyncIterator[Sandbox]:
    opened = SshSandbox(host)
    yield opened
    await opened.aclose()


async def test_hidden_files_come_back_only_after_an_approved_command(
    sandbox: Sandbox, workspace: Path
) -> None:
    line = "mkdir -p .git && echo x > .git/config && echo y > seen.txt"
    await confined(sandbox, msgspec.structs.replace(room(workspace), is_open=False), line)
    assert sorted(os.listdir(workspace)) == ["notes.txt", "seen.txt"]
    await confined(sandbox, room(workspace), line)
    assert (workspace / ".git" / "config").read_text() == "x\n"


async def test_a_host_that_is_away_does_not_work() -> None:
    sandbox = SshSandbox(["-F", "none", "-p", "1", "127.0.0.1"])
    status = await sandbox.standing()
    await sandbox.aclose()
    assert not status.works
    assert "cannot be reached" in status.text
