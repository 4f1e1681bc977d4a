"""Command lines that leave something behind for the user's own git to run, as sessions of one to
three lines. Entry: `Leftovers`.
"""

from __future__ import annotations

import random
import shlex

from tests.oracle.spelling import PIECES, Speller

PAYLOAD = "touch {base}/home/ran-later"
"""Harmless, and seen when git has run it outside the sandbox."""
_PLACES: list[str] = PIECES["left places"]
_CONFIGS: list[str] = PIECES["left configs"]
_HOOKS: list[str] = PIECES["left hooks"]


class Leftovers:
    """Generates sessions by `chance`, for a workspace below `base`."""

    def __init__(self, chance: random.Random, base: str) -> None:
        self._speller, self._base = Speller(chance), base
        self._one, self._maybe = self._speller.one, self._speller.maybe
        self._is_veiled = False
        """Names of git's own files are hidden behind a variable."""
        self._run = PAYLOAD.replace("{base}", base)

    def session(self) -> list[str]:
        """Lines that are run one after the other in one workspace."""
        place = self._one(_PLACES)
        self._is_veiled = self._maybe(0.5)
        steps = [
            self._one(
                (
                    self._repository,
                    self._repository,
                    self._hook,
                    self._todo,
                    self._inside_existing,
                    self._dangling,
                    self._bare,
                    self._git,
                )
            )(place)
        ]
        if self._maybe(0.2):
            steps.append(self._repository(self._one(_PLACES)))
        lines = [line for step in steps for line in step]
        if self._is_veiled:
            lines = [f"g=it; {line}" for line in lines]
        if self._maybe(0.4):
            return lines
        return [self._one((" && ", "; ", "\n")).join(lines)]

    def _name(self, path: str) -> str:
        return f'"{path.replace(".git", ".g$g")}"' if self._is_veiled else shlex.quote(path)

    def _config(self, place: str) -> str:
        text = (
            (self._one(_CONFIGS) if self._maybe(0.4) else _CONFIGS[0])
            .replace("{run}", self._run)
            .replace("{ws}", f"{self._base}/work")
            .replace("{place}", place)
        )
        head = self._one(
            (
                "",
                "",
                "# x\n" * 4,
                "\n" * 70_000,
                "\ufeff",
                "[core]\n\tbare = false\n",
                "\t\t",
                "[user]\n\tname = x\n",
                " " * 70_000,
            )
        )
        return f"{head}{text}\n"

    def _write(self, path: str, text: str, mode: str = "") -> list[str]:
        """One of the ways to write a file by a shell."""
        name, body = self._name(path), shlex.quote(text)
        if len(text) > 20_000:
            filler, rest = text[0], text.lstrip("\n ")
            make = f"head -c {len(text) - len(rest)} /dev/zero | tr '\\0' {shlex.quote(filler) if filler == ' ' else chr(39) + chr(92) + 'n' + chr(39)}"
            ways = [f"{{ {make}; printf %s {shlex.quote(rest)}; }} > {name}"]
        else:
            ways = [
                f"printf %s {body} > {name}",
                f"printf %s {body} | tee {name} > q",
                f"cat > {name} <<'X'\n{text}\nX\n",
                f"printf %s {body} > q.tmp; mv q.tmp {name}",
                f"printf %s {body} > q.tmp; cp q.tmp {name}",
                f"printf %s {body} > q.tmp; ln -f q.tmp {name}",
                f'printf %s {body} > q.tmp; ln -sf "$PWD"/q.tmp {name}',
                f"printf %s {body} | dd of={name} status=none",
                f"python3 -c {shlex.quote(f'open({path!r}, chr(119)).write({text!r})')}",
            ]
        return [self._one(ways) + (f"; chmod {mode} {name}" if mode else "")]

    def _repository(self, place: str) -> list[str]:
        store = self._one((".git", ".git", "store", "store", ".GIT", ".git/"))
        lines = [f"mkdir -p {self._name(place + store)}/objects {self._name(place + store)}/refs"]
        lines += self._write(f"{place}{store}/HEAD".replace("//", "/"), "ref: refs/heads/main\n")
        at = self._one(("config", "config", "config", "config.worktree"))
        if at != "config":
            lines += self._write(
                f"{place}{store}/config".replace("//", "/"),
                "[extensions]\n\tworktreeConfig = true\n[core]\n\trepositoryformatversion = 1\n",
            )
        lines += self._write(f"{place}{store}/{at}".replace("//", "/"), self._config(place))
        lines += (
            self._write("inc", f"[core]\n\tfsmonitor = {self._run}\n") if self._maybe(0.5) else []
        )
        if store == "store":
            lines += self._one(
                (
                    self._write(f"{place}.git", "gitdir: store\n"),
                    [f"mv {shlex.quote(place)}store {self._name(f'{place}.git')}"],
                    self._split(place),
                )
            )
        if self._maybe(0.3):
            lines += self._hook_in(f"{place}hk/")
        return lines

    def _split(self, place: str) -> list[str]:
        """HEAD and commondir in one folder, the rest in another."""
        folder = f"{place}wt"
        return [
            f"mkdir -p {shlex.quote(folder)}",
            *self._write(
                f"{place}store/config",
                "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n",
            ),
            *self._write(f"{folder}/HEAD", "ref: refs/heads/main\n"),
            *self._write(f"{folder}/commondir", "../store\n"),
            *self._write(
                f"{folder}/config.worktree",
                f"[core]\n\tfsmonitor = {self._run}\n\tworktree = ..\n\tbare = false\n",
            ),
        ]

    def _bare(self, place: str) -> list[str]:
        folder = f"{place}{self._one(('b.git', 'b', 'hooks.d'))}"
        return [
            f"mkdir -p {shlex.quote(folder)}/objects {shlex.quote(folder)}/refs",
            *self._write(f"{folder}/HEAD", "ref: refs/heads/main\n"),
            *self._write(
                f"{folder}/config",
                f"[core]\n\tbare = false\n\tworktree = ..\n\tfsmonitor = {self._run}\n",
            ),
        ]

    def _hook_in(self, folder: str) -> list[str]:
        name = self._one(_HOOKS)
        text = f"#!/bin/sh\n{self._run}\n"
        return [f"mkdir -p {self._name(folder)}", *self._write(f"{folder}{name}", text, "755")]

    def _hook(self, place: str) -> list[str]:
        existing = (
            ".git/hooks/",
            "hooked/.githooks/",
            "hooked/.githooks/./",
            ".githooks/",
            ".husky/",
            ".git/hooks/../hooks/",
            "super/.git/modules/m/hooks/",
        )
        return self._hook_in(self._one((*existing, f"{place}hooks/")))

    def _todo(self, place: str) -> list[str]:
        folder = self._one(
            (".git/rebase-merge", "hooked/.git/rebase-merge", ".git/rebase-apply", ".git/sequencer")
        )
        command = self._one(
            ("exec {}", "x {}", "pick HEAD\nexec {}", "\texec {}", "# x\nexec {}", "break\nexec {}")
        ).replace("{}", self._run)
        files = "cp ../refs/heads/main onto; cp onto orig-head; echo refs/heads/main > head-name; touch interactive done; echo 1 | tee msgnum > end"
        return [
            f"mkdir -p {self._name(folder)}; cd {self._name(folder)}; printf '{command.replace(chr(10), chr(92) + 'n')}\\n' > git-rebase-todo; {files}"
        ]

    def _inside_existing(self, place: str) -> list[str]:
        folder = self._one((".git", "hooked/.git", "super/.git/modules/m", "super/.git"))
        name = self._one(
            ("config", "config.worktree", "info/attributes", "commondir", "hooks/pre-commit")
        )
        text = (
            self._config(place)
            if name.startswith("config")
            else f"#!/bin/sh\n{self._run}\n"
            if name.startswith("hooks")
            else "../store\n"
        )
        write = self._write(f"{folder}/{name}", text, "755" if name.startswith("hooks") else "")
        return (
            [f"rm -f {folder}/{name}", *write]
            if self._maybe(0.3)
            else [f"printf %s {shlex.quote(text[-400:])} >> {folder}/{name}"]
            if self._maybe(0.5)
            else write
        )

    def _dangling(self, place: str) -> list[str]:
        link = self._one(
            (
                ".git/hooks",
                "hooked/.githooks",
                ".git/hooks/pre-commit",
                "super/.git/modules/m/hooks",
                ".git/config.worktree",
            )
        )
        target = self._one(("../nowhere", f"{self._base}/work/nowhere", "../docs/hk"))
        goal = target if target.startswith("/") else "nowhere" if "nowhere" in target else "docs/hk"
        first = f"rm -rf {link}; ln -s {target} {link}"
        if link.endswith("pre-commit"):
            return [first, *self._write(goal, f"#!/bin/sh\n{self._run}\n", "755")]
        return [first, *self._hook_in(f"{goal}/")]

    def _git(self, place: str) -> list[str]:
        where = shlex.quote(place or ".")
        return [
            self._one(
                (
                    f"git init -q {where} && git -C {where} config core.fsmonitor {shlex.quote(self._run)}",
                    f"git config core.hooksPath hk; mkdir -p hk; printf '#!/bin/sh\\n{self._run}\\n' > hk/pre-commit; chmod +x hk/pre-commit",
                    f"git -C {where} config --add alias.status {shlex.quote('!' + self._run)}",
                    f"git init -q --template=tpl {where}",
                    f"git worktree add -q {shlex.quote(place)}wt; git -C {shlex.quote(place)}wt config --worktree core.fsmonitor {shlex.quote(self._run)}",
                    f"git clone -q . {shlex.quote(place)}copy; git -C {shlex.quote(place)}copy config core.fsmonitor {shlex.quote(self._run)}",
                    f"git config extensions.worktreeConfig true; git config --worktree core.fsmonitor {shlex.quote(self._run)}",
                    f"git config include.path ../inc; printf '[core]\\n\\tfsmonitor = {self._run}\\n' > inc",
                )
            )
        ]
