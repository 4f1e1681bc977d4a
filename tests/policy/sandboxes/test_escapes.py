"""Each way out is held; each protection, taken away, lets something out."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.policy.sandboxes.conftest import BWRAP, Weakened, needs_bubblewrap, needs_root
from treadle.policy.sandboxes import bubblewrap, cage, system_escapes
from treadle.policy.sandboxes.control_files import ControlFiles
from treadle.policy.sandboxes.escape_attempt import EscapeAttempt, EscapeGround
from treadle.policy.sandboxes.escapes import ATTEMPTS, try_escape
from treadle.policy.sandboxes.limits import Group
from treadle.policy.sandboxes.mounts import MountView
from treadle.policy.sandboxes.workspace_secrets import SecretPaths, WorkspaceSecrets

pytestmark = [needs_bubblewrap]
BY_NAME = {attempt.name: attempt for attempt in ATTEMPTS}

PROOFS = {
    "user namespace": "share the user namespace of this machine",
    "no more user namespaces": "make a user namespace",
    "process namespace": "see other processes",
    "ipc namespace": "share the ipc namespace of this machine",
    "host name": "share the uts namespace of this machine",
    "control group namespace": "share the cgroup namespace of this machine",
    "no network": "reach a server of this machine",
    "no terminal": "stay in our session",
    "ends with us": "outlive a timeout as an orphan",
    "no capabilities": "keep a capability",
    "read-only disk": "write a file outside the workspace",
    "few devices": "make a device",
    "own processes only": "see other processes",
    "kernel settings": "write settings of the kernel",
    "private /run": "see sockets and files of running services",
    "private /var/tmp": "see the lasting temporary files of others",
    "private /tmp": "see the temporary files of others",
    "hidden secrets": "read a key of ssh",
    "control files": "change the configuration of git",
    "system calls": "open a Unix socket",
    "read-only workspace": "write in the workspace while only looking",
    "files of read rules": "read what a rule denies",
}
"""Protection -> what gets through without it."""
ONLY_FOR_ROOT = {"no capabilities", "kernel settings"}
"""Of an unprivileged caller bubblewrap keeps no capability anyway, and such a one cannot write
these files.
"""
BEHIND = {
    "no more user namespaces": {"system calls"},
    "user namespace": {"no more user namespaces"},
}
"""Another wall that would hold it too, and is taken away with it."""
PLACES = {"workspace", "repository of a worktree", "shown", "programs", "names of hosts"}
"""What is given, not what is held."""


def held(sandbox: Weakened, attempt: EscapeAttempt, base: Path) -> bool:
    anyio.run(sandbox.standing)
    return try_escape(sandbox, attempt, base) == ""


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=[attempt.name for attempt in ATTEMPTS])
def test_no_way_leads_out(sandbox: Weakened, base: Path, attempt: EscapeAttempt) -> None:
    if attempt.grouped and (group := Group.make(sandbox.limits)) is None:
        pytest.skip("this user may make no control group")
    elif attempt.grouped and group is not None:
        anyio.run(group.aclose)
    assert held(sandbox, attempt, base)


@pytest.mark.parametrize("name", PROOFS)
def test_without_a_protection_something_gets_out(sandbox: Weakened, base: Path, name: str) -> None:
    if name in ONLY_FOR_ROOT and os.geteuid() != 0:
        pytest.skip("only root needs it")
    if name == "private /run" and not os.listdir("/run"):
        pytest.skip("there is nothing in /run here")
    walls = BEHIND.get(name, set())
    if name != "user namespace":
        sandbox.without = walls
        assert held(sandbox, BY_NAME[PROOFS[name]], base), "the protection alone holds it"
    sandbox.without = {name} | walls
    assert not held(sandbox, BY_NAME[PROOFS[name]], base)


def test_every_protection_has_its_proof(sandbox: Weakened, base: Path) -> None:
    anyio.run(sandbox.standing)
    for is_open, is_read_only in ((False, False), (True, False), (False, True)):
        network = "open" if is_open else "none"
        room = bubblewrap.CommandRoom(
            workspace=base,
            scratch=lambda: base,
            quarantine=lambda: base,
            is_open=is_open,
            is_read_only=is_read_only,
            network=network,
        )
        names = {protection.name for protection in sandbox.protections(room, MountView())}
        assert names - PLACES <= PROOFS.keys()


def test_without_looking_afterwards_what_a_rule_denies_stays(
    sandbox: Weakened, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cage, "taken_away", lambda *_: [])
    assert not held(sandbox, BY_NAME["make a file that a rule denies"], base)


@pytest.mark.parametrize(
    "name", ["read the environment file of the workspace", "read a secret deep in the workspace"]
)
def test_without_a_look_at_the_workspace_its_secrets_are_read(
    sandbox: Weakened, base: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(WorkspaceSecrets, "look", lambda *_: SecretPaths())
    assert not held(sandbox, BY_NAME[name], base)


def test_without_the_list_of_variables_one_gets_in(
    sandbox: Weakened, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        bubblewrap, "confined_environment", lambda environment, is_open: dict(environment)
    )
    assert not held(sandbox, BY_NAME["read a variable of ours"], base)


@pytest.mark.parametrize(
    "name",
    [
        attempt.name
        for attempt in ATTEMPTS
        if attempt.name.startswith(("plant a control", "plant a rep", "lead a"))
    ],
)
def test_without_looking_afterwards_what_was_planted_stays(
    sandbox: Weakened, base: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(ControlFiles, "_clear", lambda *_, **__: [])
    assert not held(sandbox, BY_NAME[name], base)


@pytest.mark.parametrize("name", ["use much memory", "start many processes", "write a big file"])
def test_without_its_limit_much_is_used(
    sandbox: Weakened, base: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(bubblewrap.CommandLimits, "ulimits", lambda *_, **__: "true")
    monkeypatch.setattr(Group, "make", lambda _: None)
    assert not held(sandbox, BY_NAME[name], base)


def test_the_pins_are_what_keeps_a_folder_of_control_files_where_it_is(
    sandbox: Weakened, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarding = bubblewrap.guarding

    def unpinned(*args: Any) -> list[str]:
        arguments = list(guarding(*args))
        triples = [arguments[i : i + 3] for i in range(0, len(arguments), 3)]
        return [word for triple in triples if triple[0] != "--bind" for word in triple]

    monkeypatch.setattr(bubblewrap, "guarding", unpinned)
    assert not held(sandbox, BY_NAME["move .git away and make another"], base)


@pytest.mark.parametrize(("beats", "goes_on"), [(0, False), (2, False), (99, True)])
def test_a_process_has_gone_on_only_if_it_goes_on_for_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beats: int, *, goes_on: bool
) -> None:
    """After the first process, the kernel ends the others of its sandbox in its own time."""
    (tmp_path / "work").mkdir()
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) <= beats:
            with (tmp_path / "work/beat").open("a") as beat:
                beat.write(".\n")

    monkeypatch.setattr(system_escapes.time, "sleep", sleep)
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        subprocess.Popen(["true"]) as neighbour,
    ):
        ground = EscapeGround(tmp_path, tcp, tcp, tmp_path, neighbour, [])
        assert BY_NAME["outlive a timeout as an orphan"].traces(ground) is goes_on


@needs_root
def test_no_way_leads_out_for_an_unprivileged_user_either(base: Path) -> None:
    os.chown(base, 65534, 65534)
    child = Path(__file__).with_name("as_nobody.py")
    path = os.pathsep.join(sys.path)
    run = subprocess.run(
        [sys.executable, str(child), BWRAP, str(base)],
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert (run.returncode, run.stdout.split("\n")[-2:], run.stderr) == (
        0,
        ["all were held", ""],
        "",
    )
