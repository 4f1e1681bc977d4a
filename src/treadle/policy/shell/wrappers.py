"""Programs that run other commands: finds the inner command, and effects that the wrapper adds.

Entry points: `unwrap`, `runs_of`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from treadle.config.command_matching import program_of
from treadle.policy.shell.find import read_find
from treadle.policy.shell.git import git_runs
from treadle.policy.shell.options import NO_OPTIONS, Options, names, read_options
from treadle.policy.shell.programs import PROGRAMS
from treadle.policy.shell.words import split

MAX_INNER = 5
"""Maximum nesting of wrappers and scripts."""


@dataclass(frozen=True)
class Wrapper:
    options: Options = NO_OPTIONS
    operands: int = 0
    """Number of the wrapper's own operands before the inner command."""
    assignments: bool = False
    """True if `NAME=VALUE` can precede the inner command."""
    changes: str = ""
    """Effect that the wrapper adds, which requires approval; empty if there is none."""


def _w(short: str = "", values: str = "", long: str = "", *, numbers: bool = False) -> Options:
    return Options(short, values, long=long, numbers=numbers, stops_at_operand=True)


_CONTAINERS = "it controls containers, outside the sandbox"
_MANY = "it runs a command with unknown arguments"
_LATER = "it runs later"
_MAY_FETCH = "it may fetch what it runs"
_OTHERWISE = "it runs a command as another user, elsewhere, later or under other conditions"
_TIMEOUT = Wrapper(
    _w("v", "sk", "signal= kill-after= preserve-status foreground verbose"), operands=1
)
LOOKED_THROUGH = names(
    "docker podman kubectl sudo ssh npx setsid chrt taskset setarch linux32 linux64 doas pkexec "
    "runuser gosu su-exec setpriv capsh chroot unshare nsenter bwrap firejail dbus-run-session "
    "valgrind rlwrap torsocks daemonize start-stop-daemon systemd-run systemd-inhibit caffeinate "
    "xvfb-run strace ltrace gdb perf busybox toybox script entr faketime proxychains proxychains4 "
    "pipx screen tmux at batch"
)
"""Wrappers whose arguments are not fully known: the inner command may begin at any word. Needed by:
`ROW a b c curl x` (deny, deny `curl`).
"""

WRAPPERS: dict[str, Wrapper] = {
    **dict.fromkeys(LOOKED_THROUGH, Wrapper(_w(), changes=_OTHERWISE)),
    "env": Wrapper(_w("i0v", "u", "ignore-environment null unset= debug"), assignments=True),
    "command": Wrapper(_w("p")),
    "builtin": Wrapper(_w()),
    "exec": Wrapper(_w("cl", "a")),
    "nice": Wrapper(_w("", "n", "adjustment=", numbers=True)),
    "nohup": Wrapper(_w()),
    "time": Wrapper(_w("p", "", "portability")),
    "timeout": _TIMEOUT,
    "gtimeout": _TIMEOUT,
    "stdbuf": Wrapper(_w("", "ioe", "input= output= error=")),
    "ionice": Wrapper(_w("t", "cn", "class= classdata= ignore")),
    "sudo": Wrapper(
        _w(
            "AbEeHKknPSsivl",
            "CDghpRrTtUu",
            "user= group= preserve-env login non-interactive stdin shell host= chdir= chroot=",
        ),
        assignments=True,
        changes="it runs as another user",
    ),
    "flock": Wrapper(
        _w(
            "sxenuoF",
            "wEc",
            "shared exclusive nonblock unlock close timeout= conflict-exit-code= command=",
        ),
        operands=1,
        changes="it creates a lock file",
    ),
    "watch": Wrapper(
        _w("bdegtcxp", "nq", "interval= differences exec no-title"),
        changes="it runs the command repeatedly",
    ),
    "xargs": Wrapper(
        _w(
            "0rtpxo",
            "adEeIiLlnPs",
            "null no-run-if-empty verbose interactive exit delimiter= max-args= max-procs= "
            "replace= max-lines= arg-file= max-chars=",
        ),
        changes=_MANY,
    ),
    "parallel": Wrapper(
        _w("0kmXtrqv", "jINnLs", "jobs= keep-order halt= dry-run bar"), changes=_MANY
    ),
    "npx": Wrapper(_w("yq", "p", "yes no-install package= quiet"), changes=_MAY_FETCH),
    "bunx": Wrapper(_w(), changes=_MAY_FETCH),
    "pnpx": Wrapper(_w(), changes=_MAY_FETCH),
    "uvx": Wrapper(_w("q", "p", "from= with= python="), changes=_MAY_FETCH),
    "ssh": Wrapper(
        _w("1246AaCfGgKkMNnqsTtVvXxYy", "BbcDEeFIiJLlmOopQRSWw"),
        operands=1,
        changes="it runs on another machine",
    ),
    **dict.fromkeys(("docker", "podman"), Wrapper(_w("itdP"), operands=2, changes=_CONTAINERS)),
    "kubectl": Wrapper(_w("it", "nc"), operands=2, changes=_CONTAINERS),
    **dict.fromkeys(("coproc", "do"), Wrapper(_w(), changes="it is part of a longer command")),
    "trap": Wrapper(_w("lp"), changes=_LATER),
    "hash": Wrapper(_w("lrt", "pd"), changes="it changes which program a name means"),
    "alias": Wrapper(_w("p"), changes="it changes which program a name means"),
}
"""Programs that run an inner command. docker, ssh and similar ones are included, because the
commands that they run elsewhere are searched too. Needed by: `ROW curl x` (deny, deny `curl`), `ROW
1 curl x` (deny, deny `curl`).
"""

SHELLS = names("sh bash dash zsh ksh mksh ash fish rbash su script")
"""Needed by: `ROW -c 'curl x'` (deny, deny `curl`)."""
_SHELL_FLAGS = re.compile(r"-[lceuxfo]*c[lceuxfo]*|-c")
_LOADERS = re.compile(r"ld-linux[\w.-]*\.so(\.\d+)?|ld-musl[\w.-]*|ld\.so")

SETS_NOTHING = re.compile(
    r"(?:LANG|LANGUAGE|LC_[A-Z]+|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|COLUMNS|LINES|CI|TZ)"
)
_HARMLESS_VALUE = re.compile(r"[\w.@+-]*", re.ASCII)


@dataclass(slots=True)
class Unwrapped:
    """The commands that a wrapper runs."""

    commands: list[list[str]] = field(default_factory=list[list[str]])
    scripts: list[str] = field(default_factory=list[str])
    """Texts that an inner shell reads."""
    adds: str | None = None
    """Reason for approval regardless of the inner command; None if there is none."""
    is_sure: bool = True
    """True if the beginning of the inner command is certain."""


def is_harmless_setting(name: str, value: str) -> bool:
    """Return True if an assignment before a command cannot change the code that it runs."""
    return SETS_NOTHING.fullmatch(name) is not None and _HARMLESS_VALUE.fullmatch(value) is not None


def unwrap(argv: Sequence[str], program: str) -> Unwrapped | None:
    """Return the inner commands of a wrapper; None for other programs. `program`: base name of
    `argv[0]`.
    """
    if program in SHELLS and (shell := _shell(argv, program)) is not None:
        return shell
    if program == "eval":
        return Unwrapped(scripts=[" ".join(argv[1:])], adds="it runs a text as a command")
    if program in ("source", "."):
        return Unwrapped(adds="it runs a file as commands")
    if _LOADERS.fullmatch(program):
        return Unwrapped([list(argv[1:])], adds=_OTHERWISE, is_sure=False)
    wrapper = WRAPPERS.get(program)
    if wrapper is None:
        return None
    if program == "command" and len(argv) > 1 and re.fullmatch(r"-p?[vV]", argv[1]):
        return Unwrapped([["type", *argv[2:]]])
    return _program(list(argv), program, wrapper)


def runs_of(argv: Sequence[str], program: str) -> Unwrapped | None:
    """Return the commands that a program runs, including those of `find -exec` and of git."""
    if program == "find":
        return Unwrapped(commands=[run for run in read_find(argv[1:]).runs if run])
    if program == "git":
        commands, scripts = git_runs(argv[1:])
        return Unwrapped(commands, scripts)
    return unwrap(argv, program)


def is_free_of_order(argv: Sequence[str], patterns: Collection[str]) -> bool:
    """Return True if the order of the names that a pattern matches does not change what runs.

    Bash sorts the names by its locale, and some programs treat their first operand differently: as
    code, as a format, or as a program to run. `patterns`: the words of `argv` that are patterns.
    """
    first = next(
        (i for i, word in enumerate(argv) if word in patterns and not word.startswith("-")),
        len(argv),
    )
    if first == len(argv):
        return True
    if argv[0] in _FIRST_IS_TEXT:
        return any(not word.startswith("-") for word in argv[1:first])
    wrapped = unwrap(argv, program_of(argv[0]))
    return wrapped is None or all(
        inner[0] not in patterns and is_free_of_order(inner, patterns) for inner in wrapped.commands
    )


_FIRST_IS_TEXT = names("sed awk gawk mawk nawk jq grep egrep fgrep rg printf")
"""Needed by: `ROW *.txt` (ask)."""


def _program(argv: list[str], program: str, wrapper: Wrapper) -> Unwrapped:
    parsed = read_options(argv[1:], wrapper.options)
    found = Unwrapped(adds=wrapper.changes or None)
    if parsed.unknown is not None:
        found.adds = found.adds or f"{program}'s {parsed.unknown} may change what it runs"
        found.is_sure = False
    inner = parsed.operands
    while wrapper.assignments and inner and re.match(r"\w+=", inner[0]):
        name, _, value = inner[0].partition("=")
        if not is_harmless_setting(name, value):
            found.adds = found.adds or f"{name} may change what code runs"
        inner = inner[1:]
    inner = inner[wrapper.operands :] if wrapper.operands else inner
    if program == "env" and not inner:
        found.adds = "it shows the environment, and keys with it"
    if wrapper.changes == _OTHERWISE:  # its operands are not in the table
        known = (i for i, word in enumerate(inner) if _is_known(program_of(word)))
        inner = inner[next(known, 0) :]
    if inner:
        found.commands.append(inner)
    found.scripts += (
        [word.partition("=")[2] for word in argv[1:]] if program == "alias" else _texts(argv)
    )
    return found


def _is_known(name: str) -> bool:
    return name in PROGRAMS or name in WRAPPERS or name in SHELLS or name in ("find", "sed", "git")


_MAY_HOLD_BLANKS = re.compile(r"[\s\\]")


def _texts(argv: Sequence[str]) -> list[str]:
    """Return the words that contain blanks, because some wrappers take a command line as one word
    (env -S, watch, flock -c, ssh).
    """
    texts = [
        word.partition("=")[2]
        if word.startswith("--")
        else word[2:]
        if re.match(r"-[Sc].", word)
        else word
        for word in argv[1:]
        if _MAY_HOLD_BLANKS.search(word)
    ]
    if program_of(argv[0]) == "env":  # env -S has escapes of its own
        texts = [re.sub(r"\\[_tnrvf]", " ", text) for text in texts]
    return [text for text in texts if re.search(r"\s", text.strip())]


def _shell(argv: Sequence[str], program: str) -> Unwrapped | None:
    """Return the text after -c as a script; for other uses, the reason for approval."""
    adds: str | None = (
        "it runs as another user"
        if program == "su"
        else "it records the output of the command"
        if program == "script"
        else None
    )
    i = 1
    while i < len(argv):
        word = argv[i]
        if program in ("su", "script"):
            if (found := re.match(r"(?:-\w*c|--command=?)(.*)", word, re.DOTALL)) is not None:
                return Unwrapped(
                    scripts=[found[1] or (argv[i + 1] if i + 1 < len(argv) else "")], adds=adds
                )
        elif _SHELL_FLAGS.fullmatch(word):
            i += 1 if "o" in word else 0
            i += 1 if argv[i + 1 : i + 2] == ["--"] else 0
            text = argv[i + 1] if i + 1 < len(argv) else ""
            return Unwrapped(scripts=[text], adds=adds)
        elif re.fullmatch(r"[-+][leufx]*o", word):
            i += 1
        elif re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", word):
            return Unwrapped(
                scripts=[argv[i + 1] if i + 1 < len(argv) else ""],
                adds=f"{program}'s {word} first loads its own files",
            )
        elif not word.startswith(("-", "+")):
            break
        elif not re.fullmatch(r"-[leufx]+|--(?:norc|noprofile|posix|login)", word):
            adds = f"{program}'s {word} may change what it runs"
        i += 1
    return (
        Unwrapped(adds="an interpreter runs anything") if program not in ("su", "script") else None
    )


def words_of(text: str) -> list[str]:
    """Split a text at blanks outside quotes, or at all blanks if a quote is not closed."""
    return split(text) or text.split()
