"""Guarded files, identified by name regardless of location or existence: configuration of agents,
editors, shells and git, and secrets.

Names are compared case-insensitively, as some file systems do. Callers resolve links first. Entry
points: `guard_of`, `is_secret`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache

from treadle._internal.wildcards import wildcards
from treadle.policy.guarded_tools import INSTRUCTS, REVIEWED, SEALED, patterns_of
from treadle.policy.secret_places import PLACES, names_a_place


class PathGuard(StrEnum):
    """Class of a guarded file, from the least to the most strictly guarded."""

    REVIEWED = "reviewed"
    """Files that run on other machines later, such as CI workflows; mode full may write them."""
    INSTRUCTS = "instructs"
    """File that instructs agents, or that shells and tools of this machine run later. Each change
    needs approval.
    """
    SEALED = "sealed"
    """File that controls what runs, needs approval or is trusted on this machine. No mode or rule
    allows writing it.
    """


# One pattern per line, in the format of guarded_tools.py.

SECRET = """
.env
.env.*
*.env
.envrc
.netrc
_netrc
.npmrc
.yarnrc.yml
.pypirc
.pgpass
.my.cnf
.htpasswd
.git-credentials
.git/config
.git/credentials
.git/modules/*/config
.dockercfg
.docker/config.json
.kube
kubeconfig
*.kubeconfig
.ssh
.gnupg
.aws
.azure
.oci
.config/gcloud
.config/gh
.config/hub
.config/op
.config/agent
.boto
.s3cfg
rclone.conf
.vault-token
.vault_pass*
.terraformrc
.terraform.d
terraform.tfvars
*.auto.tfvars
*.tfstate
*.tfstate.backup
.cargo/credentials*
.gem/credentials
.m2/settings*.xml
.gradle/gradle.properties
.composer/auth.json
.treadle/config.yaml
.treadle/trust.json
id_rsa*
id_dsa*
id_ecdsa*
id_ed25519*
*_rsa
*_ed25519
*.pem
*.key
*.p8
*.p12
*.pfx
*.jks
*.keystore
*.kdbx
*.ppk
*.ovpn
client_secret*.json
service-account*.json
service_account*.json
firebase-adminsdk*.json
master.key
.bash_history
.zsh_history
.python_history
.psql_history
.mysql_history
.node_repl_history
.Xauthority
/etc/shadow*
/etc/gshadow*
/etc/sudoers*
/etc/ssl/private
/run/secrets
/var/run/secrets
/proc
"""

SECRET_WORDS = """
secrets
.secrets
secret
.secret
credentials
.credentials
secrets.*
secret.*
credentials.*
*.secret
*.secrets
*-secrets.*
*_secrets.*
*-credentials.*
*_credentials.*
*credentials*.json
auth.json
"""
"""Names that suggest a secret. Code and documentation with these names do not count (see `CODE`).
"""

CODE = re.compile(
    r"\.(?:adoc|bash|c|cc|cpp|cs|css|dart|erl|exs?|go|h|hpp|hs|html?|ipynb|java|jl|jsx?|kts?|lua|m|md|mdx|mjs|ml|php|pl|po|proto|pyi?|r|rb|rs|rst|scala|sh|sql|svelte|swift|tsx?|vue|zig)$"
)

PUBLIC = """
.env.example
.env.sample
.env.template
.env.dist
.env.defaults
.env.schema
.env.*.example
.env.*.sample
.env.*.template
example.env
sample.env
template.env
*.example
*.sample
*.template
*.pub
*.pub.pem
"""
"""Names that resemble secrets but are not. Compared with the last component only, and only against
patterns for last components.
"""

_ORDER = (
    (PathGuard.SEALED, SEALED),
    (PathGuard.INSTRUCTS, INSTRUCTS),
    (PathGuard.REVIEWED, REVIEWED),
)


def guard_of(path: str) -> PathGuard | None:
    """Return the guard of an absolute, normalised path. The strictest class applies."""
    return _guard_of(_folded(path))


@lru_cache(maxsize=4096)
def _guard_of(folded: str) -> PathGuard | None:
    return next((guard for guard, pattern in _compiled_guards() if pattern.search(folded)), None)


def first_guarded(paths: Iterable[str]) -> str | None:
    """Return the first of many absolute paths that is guarded by its spelling, or None. The paths
    need not be normalised. Takes one pass over all paths.
    """
    text = "\n".join(paths)
    folded = re.sub(r"/(?:\.?/)+", "/", _folded(text))
    for _, pattern in _compiled_guards():
        if (found := pattern.search(folded)) is not None:
            return folded[folded.rfind("\n", 0, found.start() + 1) + 1 :].split("\n", 1)[0]
    return None


def is_secret(path: str) -> bool:
    """Return True if the file at an absolute, normalised path probably contains a key, a password
    or private messages.
    """
    return _is_secret(_folded(path))


@lru_cache(maxsize=4096)
def _is_secret(folded: str) -> bool:
    secret, words, public = _compiled_secrets()
    if names_a_place(folded):
        return True
    found = secret.search(folded) or (None if CODE.search(folded) else words.search(folded))
    return found is not None and not (found.end() == len(folded) and public.search(folded))


def holds_only_secrets(folder: str) -> bool:
    """Return True for a directory in which even code counts as secret, such as `.ssh`. False for
    `secrets/`, which may be a package of a program.
    """
    return is_secret(f"{folder}/_.py")


def may_be_secret_name(name: str) -> bool:
    """Return False if this last component alone cannot make a path secret. A fast check that rules
    out most files.
    """
    names, pattern = _last_names()
    lower = name.casefold()
    return not name.isascii() or lower in names or pattern.fullmatch(lower) is not None


@lru_cache(maxsize=1)
def _last_names() -> tuple[frozenset[str], re.Pattern[str]]:
    lines = {
        line.rpartition("/")[2].casefold()
        for line in (*patterns_of(SECRET), *patterns_of(SECRET_WORDS), *PLACES)
    }
    patterns = "|".join(wildcards(line, ".") for line in sorted(lines) if set(line) & set("*?"))
    return frozenset(line for line in lines if not set(line) & set("*?")), re.compile(patterns)


def may_name_a_secret(pattern: str) -> bool:
    """Return True if a shell pattern that begins with letters, such as `.e*`, could match the name
    of a secret file.
    """
    pieces = re.split(r"[*?\[]", pattern.rsplit("/", 1)[-1].casefold())
    start, end = pieces[0], pieces[-1].rpartition("]")[2]
    return bool(start) and any(
        _could_be(line.casefold(), start, end)
        for line in (*patterns_of(SECRET), *PLACES)
        if "/" not in line
    )


def _could_be(name: str, start: str, end: str) -> bool:
    fixed, _, last = name.partition("*")
    if "*" not in name:
        return name.startswith(start) and name.endswith(end)
    begins = fixed.startswith(start) or (fixed != "" and start.startswith(fixed))
    return begins and (last.endswith(end) or end.endswith(last.rpartition("*")[2]))


def _folded(path: str) -> str:
    """Return the path with case and look-alike characters folded, as some file systems do."""
    import unicodedata  # noqa: PLC0415  only where a path is not plain

    return (
        (path if path.isascii() else unicodedata.normalize("NFKC", path))
        .casefold()
        .replace("\u200c", "")
        .replace("\u200d", "")
    )


def guard_patterns() -> list[str]:
    """Return all patterns of the guard tables."""
    return [line for _, table in _ORDER for line in patterns_of(table)]


@lru_cache(maxsize=1)
def _compiled_guards() -> tuple[tuple[PathGuard, re.Pattern[str]], ...]:
    return tuple((guard, _compiled(table)) for guard, table in _ORDER)


@lru_cache(maxsize=1)
def _compiled_secrets() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    return (
        _compiled(SECRET),
        _compiled(SECRET_WORDS),
        re.compile(f"/(?:{'|'.join(_piece(line) for line in patterns_of(PUBLIC))})$"),
    )


def _compiled(table: str) -> re.Pattern[str]:
    anywhere = "|".join(_piece(line) for line in patterns_of(table) if not line.startswith("/"))
    at_root = "|".join(_piece(line[1:]) for line in patterns_of(table) if line.startswith("/"))
    return re.compile(
        f"/(?:{anywhere})(?=/|$)" + (f"|^/(?:{at_root})(?=/|$)" if at_root else ""), re.MULTILINE
    )


def _piece(line: str) -> str:
    return wildcards(line.casefold(), r"[^/\n]")
