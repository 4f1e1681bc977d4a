"""Programs that write files: determines which arguments they write to, to find guarded files and
plain edits in the workspace.

Entry points: `written_by`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from treadle.policy.shell.options import Options, Parsed, names, read_options


@dataclass(slots=True)
class Written:
    writes: list[str] = field(default_factory=list[str])
    reads: list[str] = field(default_factory=list[str])
    is_plain: bool = False
    """True if all effects are known: it creates or changes these files and deletes none."""


def _all(parsed: Parsed, argv: Sequence[str]) -> Written:
    return Written(list(parsed.operands), [], True)


def _in_place(parsed: Parsed, argv: Sequence[str]) -> Written:
    """Return all operands, for editors, which may write each of them."""
    return Written([word for word in argv[1:] if not word.startswith("-")])


def _in_place_where_told(parsed: Parsed, argv: Sequence[str]) -> Written:
    told = any(re.match(r"-[A-Za-z]*i|--in-?place", word) for word in argv[1:])
    return _in_place(parsed, argv) if told else Written()


_OUTPUT = re.compile(
    r"--?(?:o|O|P|C|d|out|output|output-document|directory|directory-prefix|output-dir|tee|append)"
)


def _outputs(parsed: Parsed, argv: Sequence[str]) -> Written:
    """Return the values of output options; for uniq and xxd also the second operand."""
    found: list[str] = []
    for i, word in enumerate(argv[1:], 1):
        name, equals, value = word.partition("=")
        if _OUTPUT.fullmatch(name):
            found += [value] if equals else argv[i + 1 : i + 2]
        elif glued := re.match(r"-[oOPC](.+)", word):
            found.append(glued[1])
    second = (
        [word for word in argv[1:] if not word.startswith("-")][1:2]
        if argv[0] in ("uniq", "xxd")
        else []
    )
    return Written([*found, *second])


def _copied(parsed: Parsed, argv: Sequence[str]) -> Written:
    """Return the target, and the files in it with the names of the sources."""
    given = [word.partition("=")[2] for word in argv[1:] if word.startswith("--target-directory=")]
    given += [
        argv[i + 1] for i, word in enumerate(argv[:-1]) if word in ("-t", "--target-directory")
    ]
    given += [word[2:] for word in argv[1:] if word.startswith("-t") and len(word) > 2]
    operands = [word for word in parsed.operands if word not in given]
    target, sources = (
        (given[0], operands) if given else (operands[-1] if operands else "", operands[:-1])
    )
    inside = [
        os.path.join(target, os.path.basename(source.rstrip("/")))
        for source in sources
        if os.path.basename(source.rstrip("/")) not in ("", ".", "..")
    ]
    plain = (
        argv[0] == "cp"
        and parsed.unknown is None
        and not parsed.given & {"r", "R", "a", "recursive", "archive"}
    )
    return Written([path for path in (target, *inside) if path], sources, plain)


def _moved(parsed: Parsed, argv: Sequence[str]) -> Written:
    copied = _copied(parsed, argv)
    return Written([*copied.writes, *copied.reads], [], False)


def _modes(parsed: Parsed, argv: Sequence[str]) -> Written:
    return Written([word for word in argv[2:] if not word.startswith("-")], [], False)


def _dd(parsed: Parsed, argv: Sequence[str]) -> Written:
    return Written(
        [word[3:] for word in argv[1:] if word.startswith("of=")],
        [word[3:] for word in argv[1:] if word.startswith("if=")],
        False,
    )


_TOUCH = Options(short="acm", short_values="dtr", long="no-create date= time=")
"""Needed by: `touch -a x` (contained in mode accept-edits)."""
_MKDIR = Options(short="pv", short_values="m", long="parents verbose mode=")
"""Needed by: `mkdir -p new` (contained in mode accept-edits)."""
_TEE = Options(short="aip", long="append ignore-interrupts output-error")
"""Needed by: `tee -a out.txt` (contained in mode accept-edits)."""
_COPY = Options(
    short="abdfHilLnpPrRsuvxT",
    short_values="tSgmoZ",
    long=(
        "archive force interactive no-clobber preserve recursive target-directory= update "
        "verbose no-target-directory"
    ),
)
"""Needed by: `cp -p a.txt b.txt` (contained in mode accept-edits)."""

_WRITERS: dict[str, tuple[Options, Callable[[Parsed, Sequence[str]], Written]]] = {
    "touch": (_TOUCH, _all),
    "mkdir": (_MKDIR, _all),
    "tee": (_TEE, _all),
    "cp": (_COPY, _copied),
    "install": (_COPY, _copied),
    "ln": (_COPY, _copied),
    "link": (_COPY, _copied),
    "rsync": (_COPY, _copied),
    "scp": (_COPY, _copied),
    "ditto": (_COPY, _copied),
    "mv": (_COPY, _moved),
    "rename": (_COPY, _in_place),
    "chmod": (_COPY, _modes),
    "chown": (_COPY, _modes),
    "chgrp": (_COPY, _modes),
    "chattr": (_COPY, _modes),
    "setfacl": (_COPY, _in_place),
    "dd": (_COPY, _dd),
    **dict.fromkeys(
        names(
            "truncate mkfifo mknod ed ex vi vim nvim nano emacs patch sponge dos2unix unix2dos "
            "split"
        ),
        (_COPY, _in_place),
    ),
    **dict.fromkeys(
        names("sed gsed perl ruby yq awk gawk ruff black prettier"), (_COPY, _in_place_where_told)
    ),
    **dict.fromkeys(
        names(
            "sort shuf tree uniq xxd iconv base64 curl wget tar bsdtar unzip gpg openssl jq "
            "strace ltrace"
        ),
        (_COPY, _outputs),
    ),
}
"""Needed by: `ROW x .git/config` (deny), `ROW -o .git/config` (deny), `ROW -i .git/config` (deny),
`ROW of=.git/config` (deny).
"""


def written_by(argv: Sequence[str], name: str) -> Written | None:
    """Return the files that a command writes; None if the table does not have the program."""
    found = _WRITERS.get(name)
    if found is None:
        return None
    options, read = found
    parsed = read_options(argv[1:], options)
    written = read(parsed, argv)
    written.is_plain = written.is_plain and parsed.unknown is None
    return written
