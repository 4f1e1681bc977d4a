"""Table of the programs that only read: those of text_programs.py, and those that print names,
paths, text and system information.

An option that is not in the table may write a file or run a program, so it needs approval.
filters.py, find.py and git.py have the programs for which a table is not enough. Entry points:
`PROGRAMS`.
"""

from __future__ import annotations

import re

from treadle.policy.decision import FindingKind
from treadle.policy.shell.options import Options, Parsed, Program, names
from treadle.policy.shell.options import gnu_options as _o
from treadle.policy.shell.text_programs import TEXT_PROGRAMS


def _date(parsed: Parsed) -> str | None:
    return None if all(word.startswith("+") for word in parsed.operands) else "it can set the clock"


_PRINTF = re.compile(r"(?:[^%\\]|%%|%[-+ 0#]*\d{0,3}(?:\.\d{1,3})?[sdiouxXcbqeEfgG]|\\[^uUxc])*")


def _printf(parsed: Parsed) -> str | None:
    """Accept only formats that print: `%n` and `-v` assign to variables, which may be evaluated."""
    words = parsed.operands[1:] if parsed.operands[:1] == ["--"] else parsed.operands
    if (
        not words
        or words[0].startswith("-")
        or not _PRINTF.fullmatch(words[0])
        or any(word.startswith("-v") for word in words)
    ):
        return "printf with this format or option can set a variable"
    return None


def _seq(parsed: Parsed) -> str | None:
    return (
        None
        if all(re.fullmatch(r"-?\d{1,5}", word) for word in parsed.operands)
        else "it may run for very long"
    )


def _exit(parsed: Parsed) -> str | None:
    is_number = re.fullmatch(r"|\d+", " ".join(parsed.operands)) is not None
    return None if is_number else "exit is given more than a number"


def _ps(parsed: Parsed) -> str | None:
    return (
        None
        if not any("e" in word for word in parsed.operands)
        else "it can show the environment of processes, and keys with it"
    )


PROGRAMS: dict[str, Program] = {
    **TEXT_PROGRAMS,
    # ---------------------------------------------------------------- names and locations
    "ls": Program(
        "names",
        _o(
            "1aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ",
            "IwT",
            long="all almost-all author escape block-size= ignore-backups color directory "
            "classify file-type format= full-time group-directories-first no-group human-readable "
            "si hide= hyperlink indicator-style= inode ignore= kibibytes numeric-uid-gid literal "
            "hide-control-chars show-control-chars quote-name quoting-style= reverse recursive "
            "size sort= time= time-style= tabsize= width= context zero",
        ),
        held_with="L H",
    ),
    "tree": Program(
        "names",
        Options(
            "adfiqNQpugshDFvtcUrnACSxJX",
            "LPI",
            value_glued=False,
            long="noreport dirsfirst filesfirst du si prune inodes device matchdirs ignore-case "
            "metafirst",
        ),
    ),
    "du": Program(
        "names",
        _o(
            "0abcHhkmsSxlDP",
            "dBt",
            long="all apparent-size block-size= bytes total dereference-args max-depth= "
            "human-readable inodes null si summarize threshold= time exclude= one-file-system "
            "separate-dirs count-links no-dereference",
        ),
        held_with="L D dereference-args",
    ),
    "df": Program(
        "names",
        _o(
            "ahHiklPT",
            "Btx",
            long="all human-readable si inodes local portability print-type total output no-sync "
            "type= exclude-type= block-size=",
        ),
    ),
    "stat": Program(
        "names",
        _o("Lft", "c", long="dereference file-system format= printf= terse cached="),
    ),
    "file": Program(
        "contents",
        _o(
            "bhikLnNrs0",
            "FP",
            long="brief mime mime-type mime-encoding no-dereference dereference separator= no-pad "
            "extension keep-going raw",
        ),
    ),
    "readlink": Program(
        "names",
        _o(
            "femnqsvz",
            long="canonicalize canonicalize-existing canonicalize-missing no-newline quiet silent "
            "verbose zero",
        ),
    ),
    "realpath": Program(
        "names",
        _o(
            "emLPqsz",
            long="canonicalize-existing canonicalize-missing logical physical quiet strip "
            "no-symlinks zero relative-to: relative-base:",
        ),
    ),
    "basename": Program("words", _o("az", "s", long="multiple suffix= zero")),
    "dirname": Program("words", _o("z", long="zero")),
    "pwd": Program("none", _o("LP")),
    "which": Program("words", _o("as")),
    "type": Program("words", _o("aftpP")),
    # ---------------------------------------------------------------- words and facts
    **dict.fromkeys(("echo", ":", "true", "false", "expr"), Program("words", takes_anything=True)),
    "printf": Program("words", takes_anything=True, check=_printf),
    "seq": Program("words", _o("w", "s", long="equal-width separator="), check=_seq),
    "date": Program(
        "words",
        _o(
            "uR", "d", "r", "date= utc universal rfc-email iso-8601 rfc-3339= reference:", glued="I"
        ),
        check=_date,
    ),
    "cal": Program("words", _o("13jmswy")),
    "uname": Program(
        "none",
        _o(
            "asnrvmpio",
            long="all kernel-name nodename kernel-release kernel-version machine processor "
            "hardware-platform operating-system",
        ),
    ),
    "whoami": Program("none", _o()),
    "id": Program("words", _o("gGnruz", long="group groups name real user zero")),
    "groups": Program("words", _o()),
    "nproc": Program("none", _o(long="all ignore=")),
    "hostname": Program("none", _o("s")),
    "tty": Program("none", _o("s")),
    "uptime": Program("none", _o("ps", long="pretty since")),
    "free": Program("none", _o("bkmghtlw", long="human total wide mebi gibi")),
    "lscpu": Program("none", _o(glued="e")),
    "locale": Program("none", _o("a")),
    "getconf": Program("words", _o("a")),
    "exit": Program("words", takes_anything=True, check=_exit),
    "ps": Program(
        "words",
        Options(
            short="AadefHjlNTwxLFcMy",
            short_values="CGgopstUuOq",
            long="forest headers no-headers sort= pid= ppid= user= format=",
            numbers=True,
        ),
        FindingKind.HELD,
        check=_ps,
    ),
    "top": Program("none", _o("bcHiS", "ndopuU", glued="w"), FindingKind.HELD),
    **dict.fromkeys(("sleep", "yes"), Program("words", _o(), FindingKind.HELD)),
}
"""Programs by base name. Needed by: `ROW` (allow or contained), `printf x` (allow)."""

_ANY_VERSION = names(
    "python python3 pip pip3 node npm git gcc g++ clang cc make cmake ruby perl php bash sh zsh "
    "tar awk gawk sed find less vim curl wget docker kubectl terraform uv ruff mypy pyright rg "
    "sqlite3 psql lua dotnet swift deno bun tsc ffmpeg openssl gh java javac rustc cargo"
)
"""Needed by: `ROW --version` (allow or contained)."""
VERSION_ONLY = {
    "--version": _ANY_VERSION,
    "-V": names("python python3 pip uv ruff"),
    "-v": names("node npm ruby php"),
    "-version": names("java javac"),
    "version": names("go kubectl docker terraform"),
}
"""Programs that print their version if this is the only argument. Needed by: `python3 --version`
(allow).
"""
CHOSEN_BY_THE_FOLDER = names(
    "cargo rustc go npm bun deno dotnet swift terraform ruby gh uv docker kubectl"
)
"""Programs whose version or start-up code files in the workspace can select. Needed by: `ROW
--version` (contained), `ROW version` (contained).
"""
