"""The places in which lines are judged and run: a workspace full of bait, a home folder and folders
beside them.

The judge sees a copy on the disk, the jail builds its own at the same paths. Standard library only:
the jail imports this file. Entry: `build`.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator
from typing import NamedTuple

CANARY = "CaNaRy7"
"""Stands in everything that an allowed line may not show. No generated line contains it."""
PRIVATE_CANARY = "PrVtE7"
"""The same for the folder private, which only a rule denies."""
OLD = 1_600_000_000
"""Time stamp of every file, older than its change, so that the first read moves its access time."""


class Entry(NamedTuple):
    """One file.

    `kind` says who may read it; `text` is None for a folder, and the target for a link.
    """

    path: str
    kind: str
    text: str | None
    mode: int = 0o644
    is_link: bool = False


PLAIN = {
    "a.txt": "a\nfoo\nbar 1\n",
    "b.txt": "b\nfoo\nbaz 2\n",
    "x y.txt": "blank\n",
    "empty": "",
    "notes.md": "# Notes\n\n- one\n- two\n",
    "numbers": "".join(f"{n}\n" for n in range(200)),
    "data.json": '{"a": 1, "b": [1, 2, {"c": "d"}]}\n',
    "data.csv": "id,name\n1,ada\n2,bob\n",
    "prog.sed": "1e touch pwned\nw pwned\n",
    "prog.awk": 'BEGIN { system("touch pwned"); print > "pwned" }\n',
    "prog.jq": "env, input_filename\n",
    "e": "1e touch pwned\n",
    "f": "foo\n",
    "names0": "{base}/outside/secret.txt\0.env\0",
    "hex": "00000000: 4142 430a  ABC.\n",
    "src/main.py": "import os\nprint('x')\n",
    "src/m.py": "x = 1\n",
    "src/util.js": "export const a = 1;\n",
    "docs/guide.md": "guide\n",
    "docs/deep/er/leaf.txt": "leaf\n",
    "Makefile": "all:\n\ttouch pwned\n",
    "package.json": '{"scripts": {"test": "touch pwned"}}\n',
    "pre\u00fcf.txt": "unicode\n",
    "many/" + "d/" * 12 + "f": "deep\n",
    "new\nline": "n\n",
}
HOSTILE = (
    *(
        "-delete",
        "-oq",
        "-o",
        "--pre=x",
        "-rf",
        "-e",
        "-v",
        "-i",
        "-n",
        "--output=q",
        "-exec",
        "-fprint",
        "-w",
        "-f",
        "-R",
        "--help",
        "-",
    ),
    *(
        "a'}b",
        "$(touch pwned)",
        ";touch pwned",
        "`touch pwned`",
        "*",
        "[a]",
        "{a,b}",
        "~",
        "=x",
        "#c",
        "a>b",
        "&",
        "|x",
        "!x",
        "a\\b",
        "e touch pwned",
    ),
)
"""Names of empty files in the workspace."""
SECRETS = (
    ".env",
    "secrets.json",
    "server.key",
    "cert.pem",
    "id_rsa",
    "docs/.env",
    "docs/credentials.json",
    "src/.npmrc",
    ".netrc",
    ".aws/credentials",
)
PRIVATE = ("private/notes.txt", "private/deep/more.txt")
PROD = ("prod/config.txt", "prod/deep/more.txt")
PROGRAMS = (
    "x",
    "ls",
    "cat",
    "find",
    "git",
    "rg",
    "sed",
    "bin/less",
    "bin/x",
    "src/x",
    "awk",
    "pager",
    "editor",
)
LINKS = {
    "link-out": "../outside/secret.txt",
    "dir-out": "../outside",
    "link-home": "../home/.bashrc",
    "link-env": ".env",
    "link-private": "private",
    "link-in": "a.txt",
    "dangling": "nowhere",
    "dangling-out": "../outside/nowhere",
    "self": "self",
    "src/.env.local": ".env.local",
    "docs/up": "../..",
}
HOME = (
    ".bash_history",
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".netrc",
    ".config/git/credentials",
    "mail",
    "bin/tool",
)
OWN = (
    ".bashrc",
    ".profile",
    ".bash_profile",
    ".gitconfig",
    ".config/git/ignore",
    ".jq",
    ".inputrc",
    ".ripgreprc",
    ".treerc",
)
"""Files of the home folder that programs read by themselves: only showing them is harm."""
OUTSIDE = ("secret.txt", "data.json", "x y", ".env", "many/a", "many/b")
GIT_CONFIG = (
    "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tfsmonitor = {base}/work/x\n\tpager = {base}/work/x\n\teditor = {base}/work/x\n"
    '[diff]\n\texternal = {base}/work/x\n[diff "t"]\n\ttextconv = {base}/work/x\n[filter "t"]\n\tclean = {base}/work/x\n\tsmudge = {base}/work/x\n'
    "[alias]\n\tlook = !{base}/work/x\n\tst = status\n[pager]\n\tlog = {base}/work/x\n\tstatus = {base}/work/x\n[gpg]\n\tprogram = {base}/work/x\n"
)


def entries(base: str, *, tidy: bool = False) -> Iterator[Entry]:
    """All files below `base`, folders before what lies in them.

    `tidy`: no repository names a program, and there are more of them.
    """

    def beyond(folder: str, names: tuple[str, ...], kind: str) -> Iterator[Entry]:
        for name in names:
            runs = name.endswith(("/tool", "/x"))
            text = f"{PRIVATE_CANARY if kind == 'private' else CANARY} {kind} {folder}/{name}\n"
            yield Entry(
                f"{folder}/{name}",
                kind,
                f"#!/bin/sh\n# {text}: > '{base}/home/ran-{os.path.basename(name)}'\n"
                if runs
                else text,
                0o755 if runs else 0o644,
            )

    yield Entry("work", "plain", None, 0o755)
    for name, text in PLAIN.items():
        yield Entry(f"work/{name}", "plain", text.replace("{base}", base))
    for name in HOSTILE:
        yield Entry(f"work/{name}", "plain", "")
    yield from beyond("work", SECRETS, "secret")
    yield from beyond("work", PRIVATE, "private")
    for name in PROD:
        yield Entry(f"work/{name}", "prod", "port = 1\n")
    for name in PROGRAMS:
        yield Entry(
            f"work/{name}",
            "plain",
            f"#!/bin/sh\n: > '{base}/home/ran-{name.replace('/', '-')}'\n",
            0o755,
        )
    for name, target in LINKS.items():
        yield Entry(f"work/{name}", "plain", target, is_link=True)
    if tidy:
        yield from _tidy()
    else:
        yield from _repository("work/.git", GIT_CONFIG.replace("{base}", base))
        yield Entry("work/.git/info/attributes", "plain", "*.txt diff=t filter=t\n")
        for hook in ("pre-commit", "post-checkout", "post-index-change"):
            yield Entry(
                f"work/.git/hooks/{hook}",
                "plain",
                f"#!/bin/sh\n: > '{base}/home/ran-{hook}'\n",
                0o755,
            )
    yield from beyond("home", HOME, "beyond")
    yield from (Entry(f"home/{name}", "own", f"# {CANARY} own {name}\n") for name in OWN)
    yield from beyond("outside", OUTSIDE, "beyond")


def build(base: str, *, tidy: bool = False) -> list[Entry]:
    """Create everything below `base`, which exists and is empty, and date it OLD."""
    found: list[Entry] = []
    for entry in entries(base, tidy=tidy):
        place = os.path.join(base, entry.path)
        if entry.text is None:
            os.makedirs(place, entry.mode)
        else:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            if entry.is_link:
                os.symlink(entry.text, place)
            else:
                with open(place, "wb") as file:
                    file.write(
                        entry.text.encode("utf-8", "surrogateescape")
                        if entry.kind != "object"
                        else entry.text.encode("latin-1")
                    )
                os.chmod(place, entry.mode)
        found.append(entry)
    for folder, folders, files in os.walk(base, topdown=False):
        for name in (*folders, *files):
            os.utime(os.path.join(folder, name), (OLD, OLD), follow_symlinks=False)
    os.utime(base, (OLD, OLD))
    return found


def _repository(folder: str, config: str) -> Iterator[Entry]:
    """A repository of one commit."""
    objects: list[Entry] = []

    def stored(kind: str, data: bytes) -> str:
        whole = f"{kind} {len(data)}\0".encode() + data
        digest = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        objects.append(
            Entry(
                f"{folder}/objects/{digest[:2]}/{digest[2:]}",
                "object",
                zlib.compress(whole).decode("latin-1"),
                0o444,
            )
        )
        return digest

    blob = stored("blob", b"a\nfoo\n")
    tree = stored("tree", b"100644 a.txt\0" + bytes.fromhex(blob))
    who = "Ada <ada@example.org> 1600000000 +0000"
    commit = stored("commit", f"tree {tree}\nauthor {who}\ncommitter {who}\n\nfirst\n".encode())
    yield Entry(f"{folder}/HEAD", "plain", "ref: refs/heads/main\n")
    yield Entry(f"{folder}/config", "plain", config)
    yield Entry(f"{folder}/refs/heads/main", "plain", f"{commit}\n")
    yield from objects


def _tidy() -> Iterator[Entry]:
    """A repository without hooks, one that keeps them in .githooks, and one with a submodule."""
    core = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
    yield from _repository("work/.git", core)
    yield from _repository("work/hooked/.git", f"{core}\thooksPath = .githooks\n")
    yield from _repository("work/super/.git", core)
    yield from _repository("work/super/.git/modules/m", f"{core}\tworktree = ../../../m\n")
    yield Entry("work/super/.gitmodules", "plain", '[submodule "m"]\n\tpath = m\n\turl = ./m\n')
    yield Entry("work/super/m/.git", "plain", "gitdir: ../.git/modules/m\n")
