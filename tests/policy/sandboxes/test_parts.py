"""What the sandbox is made of: system calls, control files, hidden places, limits, and the profile
for macOS.
"""

from __future__ import annotations

import os
import re
import struct
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from treadle._internal import stamps
from treadle.policy.sandboxes import control_files
from treadle.policy.sandboxes.control_files import ControlFiles
from treadle.policy.sandboxes.hidden import HiddenPlaces
from treadle.policy.sandboxes.limits import CommandLimits, Group
from treadle.policy.sandboxes.seatbelt import HiddenPaths, Seatbelt, profile_of
from treadle.policy.sandboxes.seccomp import AARCH64, MACHINES, X86_64, seccomp_filter
from treadle.policy.sandboxes.workspace_secrets import WorkspaceSecrets
from treadle.tools.confinement import CommandRoom, Ruled

HEADERS = {
    "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "aarch64": "/usr/include/asm-generic/unistd.h",
}


def make(root: Path, *files: str) -> None:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("as it was\n")


# ---------------------------------------------------------------- system calls


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_the_headers(machine: str) -> None:
    if not Path(HEADERS[machine]).exists():
        pytest.skip("the headers of the kernel are not installed")
    text = Path(HEADERS[machine]).read_text()
    known = {m[1]: int(m[2]) for m in re.finditer(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)}
    ours = MACHINES[machine].refused | MACHINES[machine].judged
    assert {name: known.get(name, number) for name, number in ours.items()} == ours


def verdict(program: bytes, audit: int, number: int, *arguments: int) -> int:
    """What the kernel would do, by running the program as it does."""
    steps = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    data = struct.pack("=IIQ6Q", number, audit, 0, *arguments, *[0] * (6 - len(arguments)))
    held, at = 0, 0
    while True:
        code, then, otherwise, value = steps[at]
        at += 1
        if code == 0x20:
            (held,) = struct.unpack_from("=I", data, value)
        elif code == 0x06:
            return value
        else:
            holds = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[code]
            at += then if holds else otherwise


ALLOW, KILL, EPERM, ENOSYS, NO_FAMILY = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026, 0x00050061


@pytest.mark.parametrize(("machine", "audit"), [("x86_64", X86_64), ("aarch64", AARCH64)])
def test_each_call_is_judged_by_its_number_and_arguments(machine: str, audit: int) -> None:
    closed, opened = seccomp_filter(machine), seccomp_filter(machine, network=True)
    judged = MACHINES[machine].judged
    for program in (closed, opened):
        assert {
            verdict(program, audit, number) for number in MACHINES[machine].refused.values()
        } == {EPERM}
        assert verdict(program, audit, 0) == ALLOW
        assert verdict(program, 0x40000003, 0) == KILL
        assert verdict(program, audit, judged["clone3"]) == ENOSYS
        assert verdict(program, audit, judged["clone"], 0x11) == ALLOW
        assert {
            verdict(program, audit, judged["clone"], 1 << bit)
            for bit in (17, 25, 26, 27, 28, 29, 30)
        } == {EPERM}
        assert [
            verdict(program, audit, judged["ioctl"], 0, request)
            for request in (0x5401, 0x5412, 0x541C)
        ] == [ALLOW, EPERM, EPERM]
        assert [
            verdict(program, audit, judged["socket"], family) for family in (1, 2, 10, 17, 40)
        ] == [NO_FAMILY, ALLOW, ALLOW, NO_FAMILY, NO_FAMILY]
    assert verdict(closed, audit, judged["socket"], 16, 3, 0) == NO_FAMILY
    assert [verdict(opened, audit, judged["socket"], 16, 3, protocol) for protocol in (0, 12)] == [
        ALLOW,
        NO_FAMILY,
    ]


def test_the_other_numbers_of_x86_are_none() -> None:
    program = seccomp_filter("x86_64")
    assert {verdict(program, X86_64, 0x40000000 + number) for number in (0, 39, 272)} == {ENOSYS}


# ---------------------------------------------------------------- control files


def test_what_is_guarded_is_found_wherever_it_lies_and_however_it_is_written(
    tmp_path: Path,
) -> None:
    make(
        tmp_path,
        "AGENTS.md",
        "src/claude.MD",
        "sub/.envrc",
        ".vscode/settings.json",
        ".github/workflows/ci.yml",
        "src/main.py",
        "config.yaml",
    )
    make(
        tmp_path,
        "node_modules/x/AGENTS.md",
        ".git/config",
        ".git/hooks/pre-commit",
        ".git/HEAD",
        ".env",
    )
    (tmp_path / "GEMINI.md").symlink_to("AGENTS.md")
    sight = ControlFiles(tmp_path).look(is_open=False)
    assert sorted(sight.guarded) == snapshot(
        [
            ".git",
            ".git/config",
            ".git/hooks",
            ".github/workflows",
            ".vscode",
            "AGENTS.md",
            "GEMINI.md",
            "src/claude.MD",
            "sub/.envrc",
        ]
    )
    assert sight.guarded.keys() - ControlFiles(tmp_path).look(is_open=True).guarded.keys() == {
        ".github/workflows"
    }


def test_looking_again_reads_only_what_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, *(f"d{i}/file" for i in range(20)))
    monkeypatch.setattr(stamps, "CLOCK_STEP_NS", -1)  # as if the folders were older
    files, read = ControlFiles(tmp_path), []
    files.look(is_open=False)
    scandir = os.scandir
    monkeypatch.setattr(
        os, "scandir", lambda path: (read.append(os.path.basename(path)), scandir(path))[1]
    )
    files.look(is_open=False)
    assert read == []
    make(tmp_path, "d3/.mcp.json")
    os.utime(tmp_path / "d3", ns=(0, 0))
    assert ".mcp.json" in str(files.look(is_open=False).guarded)
    assert read == ["d3"]


def _make_at_one_moment(work: Path, *files: str) -> None:
    """Make folders and files without looking at any of them.

    The kernel gives a file that somebody has looked at a finer time at its next change, and one
    that nobody has looked at the time of the last tick of its clock.
    """
    os.mkdir(work)
    for folder in ("a", "a/x", "node_modules", "node_modules/b", "node_modules/b/x"):
        os.mkdir(work / folder)
    for file in files:
        os.close(os.open(work / file, os.O_WRONLY | os.O_CREAT))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no two folders have the same time")
def test_folders_of_one_moment_are_not_taken_for_one_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stamps, "CLOCK_STEP_NS", -1)  # as if the folders were older
    inner = ("a/x", "node_modules/b/x")
    for attempt in range(1_000):
        work = tmp_path / str(attempt)
        _make_at_one_moment(
            work, "node_modules/b/x/.env", "node_modules/b/x/.mcp.json", "a/x/harmless"
        )
        if len({(work / path).stat().st_ctime_ns for path in inner}) == 1:
            break
    else:
        pytest.fail("no two folders were made in one tick of the clock")
    files, secrets = ControlFiles(work), WorkspaceSecrets(work)
    files.enter(is_open=True)
    secrets.look(lambda _: False)
    (work / "a").rename(work / "old")
    (work / "node_modules/b").rename(work / "a")
    assert ".env" in str(secrets.look(lambda _: False).paths)
    assert "a/x/.mcp.json" in str(files.leave(lambda: tmp_path, is_open=True))


def test_what_came_up_is_moved_away_and_what_was_there_is_not(tmp_path: Path) -> None:
    work, away = tmp_path / "work", tmp_path / "away"
    away.mkdir()
    make(work, "AGENTS.md", "src/x.py")
    files = ControlFiles(work)
    files.enter(is_open=False)
    make(work, "src/AGENTS.md", ".vscode/settings.json", "src/y.py")
    said = files.leave(lambda: away, is_open=False)
    assert said == [
        f"'.vscode' is new and decides what runs later: it was moved to '{away}/moved-.vscode'",
        f"'src/AGENTS.md' is new and decides what runs later: it was moved to '{away}/moved-src-AGENTS.md'",
    ]
    assert sorted(str(path.relative_to(work)) for path in work.rglob("*")) == [
        "AGENTS.md",
        "src",
        "src/x.py",
        "src/y.py",
    ]


def test_a_folder_that_became_a_link_leads_nothing_else_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, away, home = tmp_path / "work", tmp_path / "away", tmp_path / "home"
    away.mkdir()
    make(work, "x.py")
    make(home, ".bashrc")
    files = ControlFiles(work)
    files.enter(is_open=False)
    make(work, "d/.bashrc")
    look = files.look

    def swapped(*, is_open: bool) -> control_files.Sight:
        sight = look(is_open=is_open)
        (work / "d").rename(work / "e")
        (work / "d").symlink_to(home)
        return sight

    monkeypatch.setattr(files, "look", swapped)
    said = files.leave(lambda: away, is_open=False)
    assert (home / ".bashrc").exists()
    assert [text.rpartition(": ")[2] for text in said] == ["Not a directory. Check it"]


def test_deep_trees_hide_nothing_new_and_lose_nothing_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, away = tmp_path / "work", tmp_path / "away"
    away.mkdir()
    monkeypatch.setattr(control_files, "MAX_FOLDERS", 3)
    make(work, "a/x", "b/x", "c/AGENTS.md")
    os.utime(work / "c/AGENTS.md", ns=(0, 0))
    # as if it had been there for a minute
    monkeypatch.setattr(control_files, "CLOCK_STEP_NS", -60_000_000_000)
    files = ControlFiles(work)
    files.enter(is_open=False)
    (work / "a/x").unlink()
    (work / "a").rmdir()  # now the third folder is looked into
    assert files.leave(lambda: away, is_open=False) == []
    assert (work / "c/AGENTS.md").exists()


@pytest.mark.parametrize(
    ("config", "stays"),
    [
        (
            '[core]\n\tbare = false\n[remote "origin"]\n\turl = https://host/x.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n',
            True,
        ),
        ("[core]\n\tfsmonitor = ./evil\n", False),
        ("[core]\n\thooksPath = .\n", False),
        ("[include]\n\tpath = ../evil\n", False),
        ("[alias]\n\tst = !evil\n", False),
        ('[filter "x"]\n\tclean = evil\n', False),
        ('[remote "x"]\n\turl = ext::sh -c evil\n', False),
        ("[core]\n\tbare = false \\\n\tfsmonitor = evil\n", False),
        ("[core] fsmonitor = evil\n", False),
    ],
)
def test_only_a_plain_new_repository_stays(tmp_path: Path, config: str, stays: bool) -> None:
    (tmp_path / "away").mkdir()
    files = ControlFiles(tmp_path / "work")
    (tmp_path / "work").mkdir()
    files.enter(is_open=True)
    make(tmp_path / "work", "r/.git/HEAD", "r/.git/hooks/a.sample")
    (tmp_path / "work/r/.git/config").write_text(config)
    assert (files.leave(lambda: tmp_path / "away", is_open=True) == []) is stays
    assert (tmp_path / "work/r/.git").exists() is stays


# ---------------------------------------------------------------- what is hidden


def test_keys_and_passwords_of_the_home_are_hidden_and_what_programs_need_is_not(
    tmp_path: Path,
) -> None:
    make(
        tmp_path,
        ".ssh/id_ed25519",
        ".aws/credentials",
        ".netrc",
        ".config/gh/hosts.yml",
        ".docker/config.json",
        ".bash_history",
        "own/journal.db",
    )
    make(
        tmp_path,
        ".gitconfig",
        ".bashrc",
        "src/main.py",
        ".config/nvim/init.lua",
        ".cargo/bin/cargo",
    )
    found = HiddenPlaces(tmp_path, tmp_path / "own", {}).look()
    hidden = {
        str(place.path.relative_to(tmp_path))
        for place in found
        if place.path.is_relative_to(tmp_path)
    }
    assert hidden == {
        ".ssh",
        ".aws",
        ".netrc",
        ".config/gh",
        ".docker/config.json",
        ".bash_history",
        "own",
    }


# ---------------------------------------------------------------- limits


def test_where_there_is_no_group_each_process_is_limited() -> None:
    limits = CommandLimits(memory_bytes=1 << 30, processes=100, file_bytes=1 << 20)
    assert limits.ulimits(grouped=True) == "ulimit -c 0 -f 1024"
    assert limits.ulimits(grouped=False).startswith("ulimit -c 0 -f 1024; ulimit -d 1048576")


def test_a_group_that_cannot_be_made_is_none_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from treadle.policy.sandboxes import limits

    controllers = [limits._Controller(tmp_path, {}), limits._Controller(tmp_path / "absent", {})]  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(limits, "_controllers", lambda: iter(controllers))
    assert Group.make(CommandLimits()) is None
    assert list(tmp_path.iterdir()) == []


def test_old_groups_of_those_who_were_killed_are_swept_away(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from treadle.policy.sandboxes import limits

    for name in ("treadle_old", "treadle_young", "other_old"):
        (tmp_path / name).mkdir()
    for name in ("treadle_old", "other_old"):
        os.utime(tmp_path / name, (0, 0))
    monkeypatch.setattr(limits, "_controllers", lambda: iter([limits._Controller(tmp_path, {})]))  # pyright: ignore[reportPrivateUsage]
    assert Group.make(CommandLimits()) is not None
    assert {path.name for path in tmp_path.iterdir()} >= {"treadle_young", "other_old"}
    assert not (tmp_path / "treadle_old").exists()


def test_in_version_2_the_nearest_group_that_may_be_divided_is_taken(tmp_path: Path) -> None:
    from treadle.policy.sandboxes.limits import _delegated  # pyright: ignore[reportPrivateUsage]

    for folder, control in (
        ("", "memory pids cpu"),
        ("user.slice", "memory pids"),
        ("user.slice/app.slice", ""),
        ("user.slice/app.slice/me.scope", ""),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "cgroup.subtree_control").write_text(control)
    assert _delegated(tmp_path, "/user.slice/app.slice/me.scope") == tmp_path / "user.slice"
    (tmp_path / "cgroup.subtree_control").write_text("")
    (tmp_path / "user.slice/cgroup.subtree_control").write_text("cpu")
    with pytest.raises(OSError, match="can be divided"):
        _delegated(tmp_path, "/user.slice/app.slice/me.scope")


# ---------------------------------------------------------------- macOS


def room(tmp_path: Path, *, is_open: bool) -> CommandRoom:
    return CommandRoom(
        workspace=tmp_path,
        scratch=lambda: tmp_path,
        quarantine=lambda: tmp_path,
        is_open=is_open,
        network="open" if is_open else "none",
    )


@pytest.mark.parametrize("is_open", [False, True])
def test_the_profile_for_macos_says_the_same(tmp_path: Path, is_open: bool) -> None:
    make(tmp_path, "AGENTS.md", ".git/config", "sub/.envrc", ".env", 'odd "name"/AGENTS.md')
    hidden = HiddenPlaces(tmp_path / "nobody", tmp_path / 'odd "name"', {}).look()
    own = [place for place in hidden if place.path.is_relative_to(tmp_path)]
    secrets = [] if is_open else [f"{tmp_path}/.env"]
    ruled = Ruled(hidden=[f"{tmp_path}/private"], fixed=[f"{tmp_path}/prod"])
    kept = HiddenPaths(ControlFiles(tmp_path).look(is_open=is_open), own, secrets, ruled)
    profile = profile_of(room(tmp_path, is_open=is_open), kept, Path("/private/tmp/scratch"))
    text = profile.replace(str(tmp_path), "/W")
    lines = [line for line in text.split("\n") if "/W" in line]
    secret = "" if is_open else ' (subpath "/W/.env")'
    assert lines == [
        '(allow file-write* (subpath "/W") (subpath "/private/tmp/scratch"))',
        '(deny file-write* (subpath "/W/.git/config") (subpath "/W/AGENTS.md") (subpath "/W/odd \\"name\\"/AGENTS.md")'
        ' (subpath "/W/sub/.envrc") (subpath "/W/prod"))',
        '(deny file-write-unlink (literal "/W/.git") (literal "/W/odd \\"name\\"") (literal "/W/sub"))',
        f'(deny file-read* file-write* (subpath "/W/odd \\"name\\""){secret} (subpath "/W/private"))',
    ]
    assert text.startswith("(version 1)\n(deny default (with no-log))\n")
    assert ("(allow network*)\n" in text) is is_open
    assert ("(deny network-outbound (remote unix-socket))" in text) is not is_open
    assert text.count("(") == text.count(")")


@pytest.mark.skipif(sys.platform == "darwin", reason="sandbox-exec is there")
async def test_a_sandbox_that_cannot_be_tried_confines_nothing_and_says_why() -> None:
    sandbox = Seatbelt()
    found = await sandbox.standing()
    assert not found.works
    assert found.text.startswith("sandbox-exec could not be tried: FileNotFoundError: ")
    assert await sandbox.standing() is found
    await sandbox.aclose()
