"""Table of the programs that print the contents of files, or results computed from them. filters.py
has sed and awk, for which a table is not enough. Entry point: `TEXT_PROGRAMS`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from treadle.policy.decision import FindingKind
from treadle.policy.shell.options import Options, Parsed, Program
from treadle.policy.shell.options import gnu_options as _o


def _counted(parsed: Parsed) -> str | None:
    """Accept only numeric counts, since letters have other meanings in the obsolete forms `tail
    -cf` and `head -5c`.
    """
    counts = [
        value for name in ("n", "c", "lines", "bytes") for value in parsed.by_name.get(name, ())
    ]
    if any(re.fullmatch(r"\+\d*[a-z]+", word) for word in parsed.operands):
        return "it uses an obsolete form of an option"
    return (
        None
        if all(re.fullmatch(r"[-+]?\d+[A-Za-z]{0,3}", value) for value in counts)
        else "a count in it is not a number"
    )


def _rg(parsed: Parsed) -> str | None:
    """Reject `-f=PATH`: ripgrep removes the `=` from the value."""
    return (
        "the value of an option begins with '='"
        if any(value.startswith("=") for value in parsed.values)
        else None
    )


def _xxd(parsed: Parsed) -> str | None:
    return (
        None
        if all(re.fullmatch(r"[-+]?(?:0x)?[0-9a-fA-F]+", value) for value in parsed.values)
        else "xxd takes only numbers for its options"
    )


_JQ_BEYOND = re.compile(
    r"\b(?:env|ENV|import|include|input_filename|modulemeta|repeat|while|until|range|def|limit|inputs)\b|\brecurse\s*\("
)


def _jq(parsed: Parsed) -> str | None:
    program = parsed.operands[0] if parsed.operands else ""
    return (
        "it can show the environment, read other files, or run endlessly"
        if _JQ_BEYOND.search(program)
        else None
    )


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
"""Needed by: `grep -n foo a.txt` (allow)."""

_GREP_PROGRAM = Program(
    "pattern",
    _GREP,
    recursive="r R recursive dereference-recursive d directories",
    held_with="R dereference-recursive",
)

TEXT_PROGRAMS: dict[str, Program] = {
    "cat": Program(
        "contents",
        _o(
            "AbeEnstTuv",
            long="show-all number-nonblank show-ends number squeeze-blank show-tabs "
            "show-nonprinting",
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
        replace(
            _o(
                "qvzfF",
                "ncs",
                long="lines= bytes= quiet silent verbose zero-terminated follow retry "
                "sleep-interval= pid=",
                numbers=True,
            ),
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
            "line-increment= join-blank-lines= number-format= no-renumber number-separator= "
            "starting-line-number= number-width=",
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
            "ignore-nonprinting month-sort human-numeric-sort numeric-sort random-sort reverse "
            "sort= version-sort check key= merge stable field-separator= unique zero-terminated "
            "parallel= buffer-size=",
        ),
    ),
    "uniq": Program(
        "contents",
        _o(
            "cdDiuz",
            "fsw",
            long="count repeated all-repeated skip-fields= ignore-case skip-chars= unique "
            "zero-terminated check-chars= group",
        ),
        most=1,
    ),
    "cut": Program(
        "contents",
        _o(
            "nsz",
            "bcdf",
            long="bytes= characters= delimiter= fields= complement only-delimited "
            "output-delimiter= zero-terminated",
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
        "contents",
        _o("bcls", "in", long="print-bytes ignore-initial= verbose bytes= quiet silent"),
    ),
    "diff": Program(
        "contents",
        _o(
            "abBcdeEiNnpqrstTuwyZ0123456789",
            "CUWIFxS",
            long="normal brief report-identical-files context unified ed rcs side-by-side width= "
            "left-column suppress-common-lines show-c-function show-function-line= label= "
            "expand-tabs initial-tab tabsize= recursive new-file unidirectional-new-file "
            "ignore-file-name-case exclude= ignore-case ignore-tab-expansion "
            "ignore-trailing-space ignore-space-change ignore-all-space ignore-blank-lines "
            "ignore-matching-lines= text strip-trailing-cr minimal horizon-lines= "
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
    "column": Program(
        "contents",
        _o(
            "teLxJ",
            "cosNORHTWnE",
            long="table separator= output-separator= columns= fillrows table-columns= "
            "table-right= table-hide= json",
        ),
    ),
    "od": Program(
        "contents",
        _o(
            "abcdfilosxv",
            "AjNSt",
            glued="w",
            long="address-radix= skip-bytes= read-bytes= format= output-duplicates width strings "
            "endian=",
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
    **dict.fromkeys(
        ("base64", "base32"), Program("contents", _o("di", "w", long="decode ignore-garbage wrap="))
    ),
    **dict.fromkeys(
        ("md5sum", "sha1sum", "sha256sum", "sha512sum"),
        Program("contents", _o("btz", long="binary text zero tag")),
    ),
    "cksum": Program("contents", _o("z", "a", long="algorithm= untagged raw")),
    "jq": Program(
        "pattern",
        _o(
            "cCejMnrRsSa",
            "",
            long="compact-output color-output exit-status join-output monochrome-output "
            "null-input raw-output raw-input slurp sort-keys ascii-output tab seq stream",
        ),
        pattern_options="",
        check=_jq,
    ),
    "grep": _GREP_PROGRAM,
    **dict.fromkeys(("egrep", "fgrep"), replace(_GREP_PROGRAM, kind=FindingKind.HELD)),
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
}
"""Needed by: `cat a.txt` (allow)."""
