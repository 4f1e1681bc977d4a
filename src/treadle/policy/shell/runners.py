"""Scope of a user's rule that allows a program: arguments that it covers in addition to its words.

A rule allows its own words, and options that are known not to run other code: a table for each
program that runs project code, and a few common options for other programs. Entry points: `beyond`,
`paths_in`, `pattern_of`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from treadle.config.rule import PermissionRule
from treadle.policy.decision import FindingKind
from treadle.policy.shell.git import NETWORK as GIT_NETWORK
from treadle.policy.shell.git import read_git
from treadle.policy.shell.ground import Ground
from treadle.policy.shell.options import Options, names, read_options
from treadle.policy.shell.programs import PROGRAMS
from treadle.policy.shell.wrappers import WRAPPERS

NETWORK = names(
    "curl wget fetch http https xh ssh scp sftp rsync ftp lftp tftp telnet nc ncat netcat socat "
    "ping ping6 traceroute tracepath mtr dig host nslookup drill whois getent resolvectl arp nmap "
    "openssl s_client gh glab hub aws gcloud az kubectl helm docker podman mail sendmail mutt "
    "rclone restic aria2c yt-dlp websocat grpcurl ngrok cloudflared curlie httpie xdg-open open "
    "ip ifconfig route iptables nft tc"
)
"""Programs that can send data elsewhere. Rules cannot allow them without approval. Needed by: `ROW
x` (ask, allow `ROW x`).
"""

INTERPRETERS = names(
    "sh bash dash zsh ksh fish python pypy pypy3 node nodejs deno bun ruby perl "
    "php lua luajit tclsh wish Rscript R julia guile racket ghc runghc scala groovy java jshell "
    "irb pry ipython osascript pwsh powershell awk gawk mawk nawk sed ed ex vi vim nvim emacs "
    "nano less more man gdb lldb sqlite3 psql mysql mongo mongosh redis-cli m4 dc bc expect "
    "gnuplot octave tar bsdtar cpio unzip zip 7z ar find xargs parallel env sudo doas"
)
"""Programs that run their arguments, or files named in them. A rule for one covers only its exact
words. Needed by: `uv run ROW x` (ask, allow `uv run ROW`), `ROW x` (ask).
"""

_VERSIONED = re.compile(r"(?:python|ruby|perl|php|node|lua)[\d.]+")


def is_interpreter(name: str) -> bool:
    return name in INTERPRETERS or _VERSIONED.fullmatch(name) is not None


WITH_ARITY = {
    **dict.fromkeys(
        names(
            "npm pnpm yarn uv poetry pipenv hatch nox tox cargo go make just task rake mix "
            "gradle mvn dotnet composer bundle swift zig"
        ),
        2,
    ),
    **dict.fromkeys(
        (
            "bundle exec",
            *(
                f"{name} run"
                for name in names("npm pnpm yarn uv poetry pipenv hatch cargo go dotnet composer")
            ),
        ),
        3,
    ),
}
"""Number of words in an offered rule, by program or first two words; 1 for other programs. Needed
by: `ROW x` (ask, "a rule for 'ROW x' would allow it").
"""


@dataclass(frozen=True)
class RunnerProgram:
    options: Options
    operands: bool = True
    """True if further operands are allowed."""
    behind_dashes: bool = False
    """True if words after `--` belong to another program and are not checked."""


def _o(
    short: str = "", values: str = "", long: str = "", *, single: str = "", glued: str = ""
) -> Options:
    return Options(short=short, short_values=values, long=long, single=single, glued=glued)


_NPM = RunnerProgram(_o("s", "", "silent if-present"), behind_dashes=True)
_PYTEST = RunnerProgram(
    _o(
        "qvxslh",
        "kmnr",
        "quiet verbose exitfirst maxfail= tb= lf last-failed ff failed-first nf sw stepwise "
        "durations= durations-min= collect-only co no-header no-summary showlocals color= "
        "capture= cov cov-report= no-cov strict-markers numprocesses= dist= timeout= "
        "hypothesis-seed= count= reruns=",
    )
)
_CARGO = RunnerProgram(
    _o(
        "qvr",
        "pjF",
        "quiet verbose release all workspace package= exclude= lib bins bin= tests test= examples "
        "example= benches bench= doc all-targets no-run no-fail-fast all-features "
        "no-default-features features= locked offline frozen jobs= profile= check message-format= "
        "color= keep-going",
    ),
    behind_dashes=True,
)
_GO = RunnerProgram(
    _o(
        single="v race cover short failfast json count= run= skip= timeout= bench= benchmem "
        "benchtime= cpu= p= parallel= shuffle= tags= trimpath n",
        long="",
    )
)
_MAKE = RunnerProgram(
    _o("ksBniqrRwS", "", "keep-going silent quiet always-make no-print-directory", glued="j"),
    operands=False,
)
_PLAIN = RunnerProgram(
    _o(
        "qvhn",
        "",
        "quiet verbose silent help version color no-color colour check dry-run diff list debug "
        "strict fail-fast no-cache all",
    )
)

RUNNERS: dict[str, RunnerProgram] = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), _NPM),
    **dict.fromkeys(("pytest", "py.test"), _PYTEST),
    "cargo": _CARGO,
    "go": _GO,
    **dict.fromkeys(
        names("make gmake just rake task invoke nox tox gradle mvn ant ninja bazel"), _MAKE
    ),
}
"""Needed by: `make lint deploy` (ask, allow `make lint`)."""
_REMOTE = re.compile(r"[\w+.-]+://|[\w.-]+@[\w.-]+:|[\w.-]+:[\w./~-]*/")
_VARIABLE = re.compile(r"\w+[:+?]?=")


def beyond(rule: PermissionRule, argv: list[str], ground: Ground) -> str | None:
    """Return the reason why a command exceeds its rule; None if the rule covers it."""
    name = argv[0]
    exact = len(rule.words) == len(argv)
    if (
        (
            name in PROGRAMS
            or name in WRAPPERS
            or name in ("sed", "test", "[", "set", "cd", "eval", "source", ".")
        )
        and not exact
        and name != "git"
    ):
        return (
            f"{name} does more than read with these arguments, and a rule for it covers only its "
            "exact words"
        )
    if name == "git":
        git = read_git(argv[1:])
        if git.form == "unknown" and (
            not exact or git.command in GIT_NETWORK or git.command.startswith("-")
        ):
            return git.why
    elif (why := _extends(rule.words, argv, any_more=rule.any_more)) is not None:
        return why
    for word in argv[1:]:
        for part in paths_in(word):
            finding = ground.writes(part)
            if (
                finding.kind is FindingKind.FORBIDDEN
                or ground.reads(part).kind is not FindingKind.READS
            ):
                return f"{part[:60]!r} is outside the workspace, or guarded"
    return None


def paths_in(word: str) -> list[str]:
    """Return the possible paths in an argument: the whole, the part after `=`, and the part after
    the letter of a short option.
    """
    parts = [word] if not word.startswith("-") else []
    if "=" in word:
        parts.append(word.split("=", 1)[1])
    if re.match(r"-[^-]", word) and "/" in word:
        parts.append(word[word.index("/") :] if word[2:3] != "." else word[2:])
    return [part for part in parts if part and ("/" in part or part.startswith((".", "~")))]


def _extends(words: Sequence[str], argv: Sequence[str], *, any_more: bool) -> str | None:
    """Return the reason why `argv` exceeds the rule with these `words`; None if the rule covers it.

    `any_more`: the rule covers all further arguments. Paths are judged elsewhere.
    """
    rest = list(argv[len(words) :])
    if argv[0] in NETWORK:
        return f"{argv[0]} can send data elsewhere, which no rule for a command allows"
    if not rest:
        return None
    runner, name = _runner(words)
    if runner is None:
        return f"{name} runs its arguments: a rule for it covers only its exact words"
    if any_more:
        return None
    if _behind_dashes(runner, rest):
        rest = rest[: rest.index("--")]
    parsed = read_options(rest, runner.options)
    if parsed.unknown is not None:
        return f"the rule {' '.join(words)!r} does not cover {parsed.unknown}"
    if parsed.operands and not runner.operands:
        return f"the rule {' '.join(words)!r} does not cover {parsed.operands[0]!r}"
    strange = next(
        (word for word in parsed.operands if _REMOTE.match(word) or _VARIABLE.match(word)), None
    )
    return None if strange is None else f"the rule {' '.join(words)!r} does not cover {strange!r}"


def _behind_dashes(runner: RunnerProgram, rest: Sequence[str]) -> bool:
    return runner.behind_dashes and "--" in rest


def _runner(words: Sequence[str]) -> tuple[RunnerProgram | None, str]:
    """Return the entry and name of a program, or of the module or tool that it runs."""
    name = words[0].rsplit("/", 1)[-1]
    if len(words) >= 3 and re.fullmatch(r"python[\d.]*", name) and words[1] == "-m":
        return (
            (RUNNERS.get(words[2], _PLAIN), words[2])
            if not is_interpreter(words[2])
            else (None, words[2])
        )
    if (
        len(words) >= 3
        and name in ("uv", "poetry", "pipenv", "hatch", "bundle", "npx")
        and words[1] in ("run", "exec")
    ):
        return _runner(words[2:])
    if is_interpreter(name):
        return None, name
    return RUNNERS.get(name, _PLAIN), name


def pattern_of(argv: Sequence[str]) -> str | None:
    """Return the rule to offer for a command; None if only the command itself can be approved."""
    if (
        len(argv) >= 3
        and re.fullmatch(r"python[\d.]*", argv[0])
        and argv[1] == "-m"
        and argv[2] in RUNNERS
    ):
        return " ".join(argv[:3])
    if (
        not argv
        or argv[0] in NETWORK
        or is_interpreter(argv[0])
        or argv[0] == "git"
        or "/" in argv[0]
    ):
        return None
    words = [argv[0]]
    arity = next((WITH_ARITY[key] for key in (" ".join(argv[:2]), argv[0]) if key in WITH_ARITY), 1)
    words = list(argv[:arity])
    if len(words) < arity or any(
        word.startswith("-") or not re.fullmatch(r"[\w:.@/-]+", word) or ".." in word
        for word in words
    ):
        return None
    return " ".join(words)
