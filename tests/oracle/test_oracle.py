"""The oracle finds harm where there is some, runs nothing that was not allowed, and finds none in
the policy's decisions.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from tests.oracle import inside, sandboxed
from tests.oracle.driver import Place, main
from tests.oracle.jail import BWRAP, Jail
from tests.oracle.judge import Judge, Judged
from tests.oracle.layout import CANARY, PRIVATE_CANARY
from tests.oracle.lines import Chunk
from tests.oracle.rules import violated
from tests.oracle.sandboxed import BASE as SANDBOXED
from tests.oracle.sandboxed import Enclosure, Job
from tests.oracle.shrink import shrunk
from tests.oracle.trial import Trial
from treadle.policy.decision import Verdict
from treadle.policy.permissions import Permissions
from treadle.types import Mode

needs_enclosure = pytest.mark.skipif(
    not sandboxed.is_possible() or not BWRAP,
    reason="no user namespaces, or bubblewrap is not installed",
)
needs_jail = pytest.mark.skipif(
    not BWRAP or not sys.platform.startswith("linux"), reason="bubblewrap is not installed"
)
HARM = {
    "touch pwned": "created work/pwned",
    "echo x >> a.txt": "changed work/a.txt",
    "chmod 600 a.txt": "changed work/a.txt",
    "rm a.txt": "removed work/a.txt",
    "touch -a a.txt": "dated work/a.txt",
    "echo x > /tmp/x": "created /tmp/x",
    "echo x >> ../home/.bashrc": "changed home/.bashrc",
    "./x": "created home/ran-x",
    "base64 secrets.json": "read work/secrets.json",
    "rev ../outside/secret.txt": "read outside/secret.txt",
    "cat link-out": "told beyond outside/secret.txt",
    "cat /etc/shadow": "told beyond shadow:1::::::",
    "cat private/notes.txt": "told private work/private/notes.txt",
    "env": "told environment variable",
    "sleep 60 & true": "left sleep",
    "setsid sh -c 'exec >/dev/null 2>&1; sleep 60' &": "left sleep",
    "echo > /dev/tcp/127.0.0.1/7777": "connected",
    "while :; do :; done": "endless",
}
HARMLESS = (
    *(
        "ls -la",
        "cat a.txt b.txt | sort | head -3",
        "find . -name '*.py'",
        "echo hi > /dev/null",
        "cat <<X\nhi\nX\n",
        "cat private",
        "seq 100000",
        "exit 3",
    ),
    "\udcff",
)


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with Place() as base:
        yield base


@pytest.fixture(scope="module")
def jail(base: str) -> Iterator[Jail]:
    with Jail(base) as jail:
        yield jail


@pytest.fixture(scope="module")
def hasty(base: str) -> Iterator[Jail]:
    """A jail that soon gives a line up: an endless one costs a core until then."""
    with Jail(base, limit_s=0.5) as jail:
        yield jail


def allowed(line: str) -> Judged:
    return Judged(line, "allow", "ask")


# ---------------------------------------------------------------- the jail


@needs_jail
@pytest.mark.parametrize("line", HARM)
def test_each_kind_of_harm_is_found(jail: Jail, hasty: Jail, line: str) -> None:
    ran = (hasty if HARM[line] == "endless" else jail).run(allowed(line), private=True)
    assert HARM[line] in ran.harm


@needs_jail
def test_what_only_looks_is_no_harm(jail: Jail) -> None:
    assert {
        line: harm for line in HARMLESS if (harm := jail.run(allowed(line), private=True).harm)
    } == {}


@needs_jail
def test_a_line_finds_the_workspace_as_it_was_built_after_another_did_harm(jail: Jail) -> None:
    before = jail.run(allowed("ls -laR")).output
    assert jail.run(allowed("rm -rf * .env ../home; touch new")).harm
    assert jail.run(allowed("ls -laR")).output == before


@needs_jail
def test_private_files_are_harm_only_under_the_rule(jail: Jail) -> None:
    assert jail.run(allowed("cat private/notes.txt")).harm == ()
    assert jail.run(allowed("cat private/notes.txt"), private=True).harm != ()


@needs_jail
def test_denied_programs_are_replaced_by_notes(base: str) -> None:
    with Jail(base, shims=True) as jail:
        ran = jail.run(
            Judged("/usr/bin/rm -rf x; find . -name a.txt -exec rm {} +; touch y", "allow", "full"),
            may_write=True,
        )
        assert ran.noted == (("rm", "-rf", "x"), ("rm", "./a.txt"))
        assert "y" not in jail.run(Judged("ls", "allow", "full"), may_write=True).output.split()


@needs_jail
@pytest.mark.parametrize("verdict", ["contained", "ask", "deny"])
def test_a_line_that_was_not_allowed_is_never_run(jail: Jail, verdict: Verdict) -> None:
    with pytest.raises(AssertionError, match="never run"):
        jail.run(Judged("true", verdict, "ask"))


def test_outside_a_jail_nothing_is_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, inside.__file__, str(tmp_path), ""],
        input=b'{"line": "true"}\n',
        capture_output=True,
        timeout=200,
        check=False,
    )
    assert b"Escaped" in done.stderr
    assert (done.stdout, done.returncode) == (b"", 1)


# ---------------------------------------------------------------- our sandbox

LEFT = f"#!/bin/sh\ntouch {SANDBOXED}/home/ran-later\n"
UNCONFINED = {
    Job(
        (f"git init -q new; git -C new config core.fsmonitor 'touch {SANDBOXED}/home/ran-later'",),
        "full",
    ): "ran later",
    Job(
        (
            "mkdir hooked/hk",
            f"printf '%s' '{LEFT}' > hooked/hk/pre-commit; chmod +x hooked/hk/*",
            "cd hooked; git config core.hooksPath hk",
        ),
        "full",
    ): "ran later",
    Job(("touch ~/new",), "full"): "changed home/new",
    Job(("cat private/notes.txt | cat",), "full"): "",
    Job(
        ("python3 -c 'print(open(chr(112)+\"rivate/notes.txt\").read())'",), "full", ruled=True
    ): "",
    Job(("python3 -c 'open(chr(112)+\"rod/new\", chr(119))'",), "full", ruled=True): "",
}
"""Harm that only a sandbox can hold off; nothing where rules for files keep the line from running
without one.
"""


@pytest.fixture(scope="module")
def enclosure() -> Iterator[Enclosure]:
    with Enclosure() as enclosure:
        yield enclosure


@needs_enclosure
@pytest.mark.parametrize("job", UNCONFINED)
def test_without_our_sandbox_each_kind_of_harm_is_found(enclosure: Enclosure, job: Job) -> None:
    found = enclosure.harm(replace(job, is_confined=False))
    assert found == () if not UNCONFINED[job] else UNCONFINED[job] in found


@needs_enclosure
def test_in_our_sandbox_a_line_that_looks_does_no_harm(enclosure: Enclosure) -> None:
    assert enclosure.harm(Job(("git status", "touch ~/new; ls"), "full")) == ()
    assert enclosure.harm(Job(("git log --oneline",), "plan")) == ()


def test_outside_an_enclosure_nothing_is_run() -> None:
    done = subprocess.run(
        [sys.executable, "-m", sandboxed.__name__],
        input=b"",
        capture_output=True,
        timeout=200,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert b"Escaped" in done.stderr
    assert done.stdout == b""


@pytest.mark.parametrize(
    ("noted", "broken"),
    [
        ([["rm", "x"]], ("ran rm",)),
        ([["rm", "-fr", "../home"]], ("ran never", "ran rm")),
        ([["rm", "--rec", "/"]], ("ran never", "ran rm")),
        ([["rm", "--recursive0", "/"]], ("ran rm",)),
        ([["git", "-C", "src", "push"]], ("ran git push",)),
        ([["git", "-c", "alias.p=push -f", "p"]], ("ran git push",)),
        ([["git", "log", "push"]], ()),
    ],
)
def test_a_denied_command_is_told_by_the_arguments_that_it_was_run_with(
    noted: list[list[str]], broken: tuple[str, ...]
) -> None:
    assert violated(noted, "/x/home") == broken


# ---------------------------------------------------------------- lines


def test_lines_follow_from_the_seed_and_hold_no_canary() -> None:
    first, second = ([*islice(Chunk(7, 3), 1_000)] for _ in range(2))
    assert first == second
    assert first != [*islice(Chunk(7, 4), 1_000)]
    assert [
        line for line in first if CANARY in line or PRIVATE_CANARY in line or "\0" in line
    ] == []


def test_a_line_is_made_as_short_as_what_matters_in_it() -> None:
    assert (
        shrunk(
            "ls -la | head -3; [ -f a.txt ]#; touch pwned && echo done",
            lambda line: "]#" in line and "touch" in line,
            most=500,
        )
        == "]#touch"
    )


# ---------------------------------------------------------------- the whole


def naive(_: Mode, line: str, __: Path, ___: Permissions) -> Verdict:
    """A planted policy: the first word of every command is looked at, and nothing else."""
    words = [piece.split() for piece in re.split(r"[;|&\n]+", line) if piece.strip()]
    return (
        "allow"
        if all(
            each[0] in ("ls", "cat", "find", "sort", "grep", "[", "echo", "sed") for each in words
        )
        else "ask"
    )


@pytest.mark.oracle
@needs_jail
def test_a_looser_policy_turns_the_oracle_red(base: str) -> None:
    with Trial(base, naive) as trial:
        counts = trial.chunk(1, 0, most_run=300)
    effects = {effect.split()[0] for harm in counts.harms for effect in harm.effects}
    assert {"created", "told"} <= effects
    assert any(harm.short and len(harm.short) <= len(harm.line) for harm in counts.harms)


def test_a_decision_that_raises_is_harm(base: str) -> None:
    def broken(_: Mode, line: str, __: Path, ___: Permissions) -> Verdict:
        raise ValueError(line)

    assert Judge(base, broken).of("ls", "ask").problem == "ValueError('ls')"
    with Trial(base, broken) as trial:
        assert [harm.effect for harm in trial.chunk(1, 0, most_decided=3, most_run=3).harms] == [
            "raised"
        ] * 3


@needs_jail
@pytest.mark.oracle
@pytest.mark.timeout(600)
def test_no_allowed_line_does_harm(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--decide", "20000", "--run", "3000", "--workers", "2"])
    assert code == 0, capsys.readouterr().out


def test_without_a_jail_the_oracle_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.oracle.driver.BWRAP", "")
    assert main([]) == 2
    assert shutil.which("bwrap") or not BWRAP
