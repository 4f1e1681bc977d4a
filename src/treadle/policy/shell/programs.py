"""Programs that only read, as a table: which options they may be given, and which of their
arguments are paths.

An option that is not in the table may write or run something, and asks. What needs more than a
table stands in filters.py, find.py and git.py. Entry: `PROGRAMS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from treadle.policy.decision import FindingKind
from treadle.policy.shell.options import Options, Parsed, any_given

Operands: TypeAlias = Literal["contents", "names", "words", "none", "pattern"]
"""Kinds of operands: files whose contents are shown, files of which only names are shown, mere
text, forbidden ones; a pattern and then files.
"""


NO_OPTIONS = Options()


@dataclass(frozen=True)
class Program:
    operands: Operands
    options: Options = NO_OPTIONS
    kind: FindingKind = FindingKind.READS
    most: int | None = None
    """Operands; one more is written to."""
    recursive: str = ""
    """Options that make it tell the contents of all below a folder, besides each other by blanks.
    """
    always_recursive: bool = False
    held_with: str = ""
    """Options with which only the sandbox holds it: it ends when it is stopped, or follows links.
    """
    held_alone: bool = False
    """The same, where it has no operand: it copies its input for as long as there is any."""
    takes_anything: bool = False
    """Options are words like others."""
    pattern_options: str = "e regexp f file"
    """Options that make all operands files."""
    check: Callable[[Parsed], str | None] | None = None
    """Why this use of it is none that only reads."""


def _o(
    short: str = "",
    values: str = "",
    paths: str = "",
    long: str = "",
    *,
    glued: str = "",
    numbers: bool = False,
    plus: bool = False,
) -> Options:
    return Options(
        short, values, paths, f"{long} help version", glued=glued, numbers=numbers, plus=plus
    )


def _date(parsed: Parsed) -> str | None:
    return None if all(word.startswith("+") for word in parsed.operands) else "it can set the clock"


_PRINTF = re.compile(r"(?:[^%\\]|%%|%[-+ 0#]*\d{0,3}(?:\.\d{1,3})?[sdiouxXcbqeEfgG]|\\[^uUxc])*")


def _printf(parsed: Parsed) -> str | None:
    """Accept formats that only print:

    `%n` and `-v` assign to variables, which can name programs or be evaluated.
    """
    words = parsed.operands[1:] if parsed.operands[:1] == ["--"] else parsed.operands
    if (
        not words
        or words[0].startswith("-")
        or not _PRINTF.fullmatch(words[0])
        or any(word.startswith("-v") for word in words)
    ):
        return "printf with this format or option can set a variable"
    return None


def _counted(parsed: Parsed) -> str | None:
    """Accept only numbers for counts:

    `tail -cf` and `head -5c` are older spellings, in which the letters mean something else.
    """
    counts = [
        value for name in ("n", "c", "lines", "bytes") for value in parsed.by_name.get(name, ())
    ]
    if any(re.fullmatch(r"\+\d*[a-z]+", word) for word in parsed.operands):
        return "a word of it is an option in an older spelling"
    return (
        None
        if all(re.fullmatch(r"[-+]?\d+[A-Za-z]{0,3}", value) for value in counts)
        else "a count of it is no number"
    )


def _rg(parsed: Parsed) -> str | None:
    """Refuse `-f=PATH`: to ripgrep the `=` is no part of the value."""
    return (
        "a value of it begins with '='"
        if any(value.startswith("=") for value in parsed.values)
        else None
    )


def _seq(parsed: Parsed) -> str | None:
    return (
        None
        if all(re.fullmatch(r"-?\d{1,5}", word) for word in parsed.operands)
        else "it may count for very long"
    )


def _xxd(parsed: Parsed) -> str | None:
    return (
        None
        if all(re.fullmatch(r"[-+]?(?:0x)?[0-9a-fA-F]+", value) for value in parsed.values)
        else "xxd takes only numbers for its options"
    )


def _ps(parsed: Parsed) -> str | None:
    return (
        None
        if not any("e" in word for word in parsed.operands)
        else "it can show the environment of processes, and keys with it"
    )


_JQ_BEYOND = re.compile(
    r"\b(?:env|ENV|import|include|input_filename|modulemeta|repeat|while|until|range|def|limit|inputs)\b|\brecurse\s*\("
)


def _jq(parsed: Parsed) -> str | None:
    program = parsed.operands[0] if parsed.operands else ""
    return (
        "it can show the environment, read other files, or go on without end"
        if _JQ_BEYOND.search(program)
        else None
    )


_SUM = Program("contents", _o("btz", long="binary text zero tag"))
_GREP = _o(
    "EFGPivwxcLlqsonHhbTZrRzaUIyV0123456789",
    "emABCdD",
    "f",
    "extended-regexp fixed-strings basic-regexp perl-regexp regexp= ignore-case no-ignore-case "
    "invert-match word-regexp line-regexp count color colour files-without-match "
    "files-with-matches max-count= only-matching quiet silent no-messages byte-offset "
    "with-filename no-filename label= line-number initial-tab null after-context= before-context= "
    "context= text binary-files= exclude= exclude-dir= include= recursive dereference-recursive "
    "line-buffered null-data directories= devices= exclude-from: file:",
)

PROGRAMS: dict[str, Program] = {
    # ---------------------------------------------------------------- names and places
    "ls": Program(
        "names",
        _o(
            "1aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ",
            "IwT",
            long="all almost-all author escape block-size= ignore-backups color directory classify "
            "file-type format= full-time group-directories-first "
            "no-group human-readable si hide= hyperlink indicator-style= inode ignore= kibibytes "
            "numeric-uid-gid literal hide-control-chars show-control-chars "
            "quote-name quoting-style= reverse recursive size sort= time= time-style= tabsize= "
            "width= context zero",
        ),
        held_with="L H",
    ),
    "dir": Program("names", _o("aAlhrtSR")),
    "tree": Program(
        "names",
        Options(
            "adfiqNQpugshDFvtcUrnACSxJX",
            "LPI",
            value_glued=False,
            long=(
                "noreport dirsfirst filesfirst du si prune inodes device matchdirs ignore-case "
                "metafirst"
            ),
        ),
    ),
    "du": Program(
        "names",
        _o(
            "0abcHhkmsSxlDP",
            "dBt",
            long="all apparent-size block-size= bytes total dereference-args max-depth= "
            "human-readable inodes null si summarize threshold= "
            "time exclude= one-file-system separate-dirs count-links no-dereference",
        ),
        held_with="L D dereference-args",
    ),
    "df": Program(
        "names",
        _o(
            "ahHiklPT",
            "Btx",
            long=(
                "all human-readable si inodes local portability print-type total output no-sync "
                "type= exclude-type= block-size="
            ),
        ),
    ),
    "stat": Program(
        "names", _o("Lft", "c", long="dereference file-system format= printf= terse cached=")
    ),
    "file": Program(
        "contents",
        _o(
            "bhikLnNrs0",
            "FP",
            long=(
                "brief mime mime-type mime-encoding no-dereference dereference separator= no-pad "
                "extension keep-going raw"
            ),
        ),
    ),
    "readlink": Program(
        "names",
        _o(
            "femnqsvz",
            long=(
                "canonicalize canonicalize-existing canonicalize-missing no-newline quiet silent "
                "verbose zero"
            ),
        ),
    ),
    "realpath": Program(
        "names",
        _o(
            "emLPqsz",
            long=(
                "canonicalize-existing canonicalize-missing logical physical quiet strip "
                "no-symlinks zero relative-to: relative-base:"
            ),
        ),
    ),
    "basename": Program("words", _o("az", "s", long="multiple suffix= zero")),
    "dirname": Program("words", _o("z", long="zero")),
    "pwd": Program("none", _o("LP")),
    "which": Program("words", _o("as")),
    "type": Program("words", _o("aftpP")),
    # ---------------------------------------------------------------- contents
    "cat": Program(
        "contents",
        _o(
            "AbeEnstTuv",
            long=(
                "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting"
            ),
        ),
        held_alone=True,
    ),
    "head": Program(
        "contents",
        _o("qvz", "nc", long="lines= bytes= quiet silent verbose zero-terminated", numbers=True),
        check=_counted,
    ),
    "tail": Program(
        "contents",
        _o(
            "qvzfF",
            "ncs",
            long=(
                "lines= bytes= quiet silent verbose zero-terminated follow retry sleep-interval= "
                "pid="
            ),
            numbers=True,
            plus=True,
        ),
        held_with="f F follow retry",
        check=_counted,
    ),
    "wc": Program("contents", _o("clLmw", long="bytes chars lines max-line-length words total=")),
    "nl": Program(
        "contents",
        _o(
            "p",
            "bdfhilnsvw",
            long="body-numbering= section-delimiter= footer-numbering= header-numbering= "
            "line-increment= join-blank-lines= number-format= "
            "no-renumber number-separator= starting-line-number= number-width=",
        ),
    ),
    "tac": Program("contents", _o("br", "s", long="before regex separator=")),
    "rev": Program("contents", _o()),
    "sort": Program(
        "contents",
        _o(
            "bdfghiMnRrVcCmsuz",
            "kt",
            long="ignore-leading-blanks dictionary-order ignore-case general-numeric-sort "
            "ignore-nonprinting month-sort human-numeric-sort "
            "numeric-sort random-sort reverse sort= version-sort check key= merge stable "
            "field-separator= unique zero-terminated "
            "parallel= buffer-size=",
        ),
    ),
    "uniq": Program(
        "contents",
        _o(
            "cdDiuz",
            "fsw",
            long=(
                "count repeated all-repeated skip-fields= ignore-case skip-chars= unique "
                "zero-terminated check-chars= group"
            ),
        ),
        most=1,
    ),
    "cut": Program(
        "contents",
        _o(
            "nsz",
            "bcdf",
            long=(
                "bytes= characters= delimiter= fields= complement only-delimited "
                "output-delimiter= zero-terminated"
            ),
        ),
    ),
    "tr": Program("words", _o("cCdst", long="complement delete squeeze-repeats truncate-set1")),
    "paste": Program("contents", _o("sz", "d", long="delimiters= serial zero-terminated")),
    "join": Program(
        "contents",
        _o("iz", "aeojtv12", long="ignore-case check-order nocheck-order header zero-terminated"),
    ),
    "comm": Program(
        "contents",
        _o("123z", long="check-order nocheck-order output-delimiter= total zero-terminated"),
    ),
    "cmp": Program(
        "contents", _o("bcls", "in", long="print-bytes ignore-initial= verbose bytes= quiet silent")
    ),
    "diff": Program(
        "contents",
        _o(
            "abBcdeEiNnpqrstTuwyZ0123456789",
            "CUWIFxS",
            long="normal brief report-identical-files context unified ed rcs side-by-side width= "
            "left-column suppress-common-lines "
            "show-c-function show-function-line= label= expand-tabs initial-tab tabsize= "
            "recursive new-file unidirectional-new-file "
            "ignore-file-name-case exclude= ignore-case ignore-tab-expansion "
            "ignore-trailing-space ignore-space-change "
            "ignore-all-space ignore-blank-lines ignore-matching-lines= text strip-trailing-cr "
            "minimal horizon-lines= "
            "speed-large-files color no-dereference",
        ),
        recursive="r recursive",
        held_with="r recursive",
    ),
    "fold": Program("contents", _o("bs", "w", long="bytes spaces width=", numbers=True)),
    "fmt": Program(
        "contents",
        _o(
            "cstu",
            "pwg",
            long="crown-margin prefix= split-only tagged-paragraph uniform-spacing width= goal=",
            numbers=True,
        ),
    ),
    "expand": Program("contents", _o("i", "t", long="initial tabs=")),
    "unexpand": Program("contents", _o("a", "t", long="all first-only tabs=")),
    "column": Program(
        "contents",
        _o(
            "teLxJ",
            "cosNORHTWnE",
            long=(
                "table separator= output-separator= columns= fillrows table-columns= "
                "table-right= table-hide= json"
            ),
        ),
    ),
    "od": Program(
        "contents",
        _o(
            "abcdfilosxv",
            "AjNSt",
            glued="w",
            long=(
                "address-radix= skip-bytes= read-bytes= format= output-duplicates width strings "
                "endian="
            ),
        ),
    ),
    "xxd": Program(
        "contents",
        Options("abeEipu", "cgls", clusters=False, stops_at_operand=True),
        most=1,
        check=_xxd,
    ),
    "hexdump": Program("contents", _o("bcCdovx", "ens")),
    "strings": Program(
        "contents",
        _o(
            "afow",
            "netT",
            long="all print-file-name bytes= radix= encoding= include-all-whitespace",
        ),
        FindingKind.HELD,
    ),
    "base64": Program("contents", _o("di", "w", long="decode ignore-garbage wrap=")),
    "base32": Program("contents", _o("di", "w", long="decode ignore-garbage wrap=")),
    "md5sum": _SUM,
    "sha1sum": _SUM,
    "sha224sum": _SUM,
    "sha256sum": _SUM,
    "sha384sum": _SUM,
    "sha512sum": _SUM,
    "b2sum": _SUM,
    "shasum": Program("contents", _o("bt", "a", long="algorithm="), FindingKind.HELD),
    "cksum": Program("contents", _o("z", "a", long="algorithm= untagged raw")),
    "sum": Program("contents", _o("rs")),
    "tsort": Program("contents", _o()),
    "jq": Program(
        "pattern",
        _o(
            "cCejMnrRsSa",
            "",
            long="compact-output color-output exit-status join-output monochrome-output null-input "
            "raw-output raw-input slurp sort-keys "
            "ascii-output tab seq stream",
        ),
        pattern_options="",
        check=_jq,
    ),
    "grep": Program(
        "pattern",
        _GREP,
        recursive="r R recursive dereference-recursive d directories",
        held_with="R dereference-recursive",
    ),
    "egrep": Program(
        "pattern",
        _GREP,
        recursive="r R recursive dereference-recursive d directories",
        held_with="R dereference-recursive",
        kind=FindingKind.HELD,
    ),
    "fgrep": Program(
        "pattern",
        _GREP,
        recursive="r R recursive dereference-recursive d directories",
        held_with="R dereference-recursive",
        kind=FindingKind.HELD,
    ),
    "rg": Program(
        "pattern",
        _o(
            "FivwxclonHNhqsSUPapIVu.0b",
            "eABCgmtTjMEdr",
            "f",
            "fixed-strings ignore-case smart-case case-sensitive invert-match word-regexp "
            "line-regexp count count-matches files-with-matches files-without-match only-matching "
            "line-number no-line-number with-filename no-filename quiet no-messages multiline "
            "multiline-dotall pcre2 text pretty regexp= after-context= before-context= context= "
            "glob= iglob= max-count= type= type-not= threads= max-columns= max-columns-preview "
            "encoding= max-depth= maxdepth= replace= files sort= sortr= stats trim null null-data "
            "json heading no-heading color= colors= column no-column hidden no-ignore "
            "no-ignore-vcs no-ignore-parent unrestricted type-list byte-offset vimgrep passthru "
            "crlf block-buffered line-buffered no-config no-mmap mmap one-file-system no-unicode "
            "debug max-filesize= glob-case-insensitive context-separator= field-match-separator= "
            "file: ignore-file:",
        ),
        always_recursive=True,
        check=_rg,
    ),
    # ---------------------------------------------------------------- words and facts
    "echo": Program("words", takes_anything=True),
    "printf": Program("words", takes_anything=True, check=_printf),
    ":": Program("words", takes_anything=True),
    "true": Program("words", takes_anything=True),
    "false": Program("words", takes_anything=True),
    "seq": Program("words", _o("w", "s", long="equal-width separator="), check=_seq),
    "expr": Program("words", takes_anything=True),
    "factor": Program("words", kind=FindingKind.HELD),
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
            long=(
                "all kernel-name nodename kernel-release kernel-version machine processor "
                "hardware-platform operating-system"
            ),
        ),
    ),
    "arch": Program("none"),
    "nproc": Program("none", _o(long="all ignore=")),
    "hostname": Program("none", _o("s")),
    "whoami": Program("none", _o()),
    "id": Program("words", _o("gGnruz", long="group groups name real user zero")),
    "groups": Program("words", _o()),
    "tty": Program("none", _o("s")),
    "uptime": Program("none", _o("ps", long="pretty since")),
    "free": Program("none", _o("bkmghtlw", long="human total wide mebi gibi")),
    "lscpu": Program("none", _o(glued="e")),
    "locale": Program("none", _o("a")),
    "getconf": Program("words", _o("a")),
    "exit": Program("words", takes_anything=True),
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
    "sleep": Program("words", _o(), FindingKind.HELD),
    "yes": Program("words", _o(), FindingKind.HELD),
    "wait": Program("none", _o(), FindingKind.HELD),
    "jobs": Program("none", _o("lnprs"), FindingKind.HELD),
}
"""Programs by name, without a folder."""

VERSION_ONLY = {
    "--version": frozenset(
        {
            "python",
            "python3",
            "pip",
            "pip3",
            "node",
            "npm",
            "git",
            "gcc",
            "g++",
            "clang",
            "cc",
            "make",
            "cmake",
            "ruby",
            "perl",
            "php",
            "bash",
            "sh",
            "zsh",
        }
        | {
            "tar",
            "awk",
            "gawk",
            "sed",
            "find",
            "less",
            "vim",
            "curl",
            "wget",
            "docker",
            "kubectl",
            "terraform",
            "uv",
            "ruff",
            "mypy",
            "pyright",
            "jq",
            "rg",
        }
        | {
            "sqlite3",
            "psql",
            "lua",
            "dotnet",
            "swift",
            "deno",
            "bun",
            "tsc",
            "ffmpeg",
            "openssl",
            "gh",
            "java",
            "javac",
            "rustc",
            "cargo",
        }
    ),
    "-V": frozenset({"python", "python3", "pip", "uv", "ruff"}),
    "-v": frozenset({"node", "npm", "ruby", "php"}),
    "-version": frozenset({"java", "javac"}),
    "version": frozenset({"go", "kubectl", "docker", "terraform"}),
}
"""A program with this as its only argument tells its version."""
CHOSEN_BY_THE_FOLDER = frozenset(
    {
        "cargo",
        "rustc",
        "go",
        "npm",
        "bun",
        "deno",
        "dotnet",
        "swift",
        "terraform",
        "ruby",
        "gh",
        "uv",
        "docker",
        "kubectl",
    }
)
"""Files of the workspace may choose which version of these runs, or what it loads first."""


def is_recursive(program: Program, parsed: Parsed) -> bool:
    return program.always_recursive or any_given(parsed, program.recursive.split())


def is_held(program: Program, parsed: Parsed) -> bool:
    return any_given(parsed, program.held_with.split()) or (
        program.held_alone and not parsed.operands
    )
