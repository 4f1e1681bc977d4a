"""The list of shards in its file, and the shard in which a run or session belongs.

Rendezvous hashing over the names of the shards: their order in the file does not matter, and a new
shard takes its share from each of the others. Entry points: `read_list`, `homes`, `key_of`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final, cast

from treadle.config.document import Plain, parse
from treadle.config.file import Broken, read_bytes
from treadle.errors import AgentError
from treadle.journal.entries import RunStarted
from treadle.types import Value

SHARDS_MAX: Final = 64
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
_TAG: Final = re.compile(r"\{([^{}]+)\}")
_GENERATED: Final = re.compile(r"(run|session)_[0-9a-f]{26}")
_KEYS: Final = ("version", "shards", "draining")
_FORM: Final = "version: 1\nshards:\n  a: postgresql://USER@HOST/DATABASE\n  b: postgresql://…"


class Generation(Value, frozen=True, kw_only=True):
    """A version of the list, as far as it decides where new runs go."""

    version: int
    names: tuple[str, ...]
    """Sorted."""
    draining: tuple[str, ...] = ()
    """Shards that get no new sessions, and no runs outside of sessions. Sorted."""


class ShardList(Value, frozen=True, kw_only=True):
    """Content of the file."""

    place: str
    """Path of the file, for messages."""
    generation: Generation
    urls: dict[str, str]
    """URL by name."""


def read_list(path: Path) -> ShardList:
    """Read the file. Raises AgentError(invalid), with its line and without any URL."""
    try:
        content = read_bytes(path, own=True)
        if content is None:
            raise Broken(1, "does not exist: it lists the shards of a journal")
        document = parse(content.data.decode("utf-8-sig"))
        if document.duplicates:
            twice = document.duplicates[0]
            raise Broken(twice.line, f"the key {twice.key!r} is given twice")
        return _checked(path, None if document.root is None else document.root.plain())
    except Broken as e:
        raise AgentError("invalid", f"{path}:{e.line}: {e.text}") from e
    except UnicodeDecodeError as e:
        raise AgentError("invalid", f"{path} is not UTF-8 text") from e


def _checked(path: Path, found: Plain) -> ShardList:
    if not isinstance(found, dict) or not isinstance(found.get("shards"), dict):
        raise Broken(1, f"is not a list of shards. It has this form:\n{_FORM}")
    if unknown := [key for key in found if key not in _KEYS]:
        raise Broken(1, f"the key {unknown[0]!r} is unknown: use {', '.join(_KEYS)}")
    shards = cast("dict[str, Plain]", found["shards"])
    for name, url in shards.items():
        if not _NAME.fullmatch(name):
            raise Broken(
                1, f"{name!r} is not a name of a shard: use up to 40 of a-z, 0-9, '.', '_' and '-'"
            )
        if not isinstance(url, str) or not url.startswith(("postgresql://", "postgres://")):
            raise Broken(1, f"shard {name!r} needs a URL: postgresql://USER@HOST/DATABASE")
    version, draining = found.get("version"), found.get("draining") or []
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise Broken(1, "`version` must be a number from 1, which grows with each change")
    if not 1 <= len(shards) <= SHARDS_MAX:
        raise Broken(1, f"a journal has 1 to {SHARDS_MAX} shards, not {len(shards)}")
    if not isinstance(draining, list) or any(name not in shards for name in draining):
        raise Broken(1, "`draining` must be a list of names of shards")
    if len(draining) >= len(shards):
        raise Broken(1, "at least one shard must not be draining")
    names, drained = sorted(shards), sorted(map(str, draining))
    return ShardList(
        place=str(path),
        generation=Generation(version=version, names=(*names,), draining=(*drained,)),
        urls=cast("dict[str, str]", shards),
    )


def is_generated(name: str) -> bool:
    """Return True for an id that Treadle generated, which is in use once."""
    return _GENERATED.fullmatch(name) is not None


def key_of(name: str) -> str:
    """Return the part of an id that decides where it belongs: its tag in braces, or all of it."""
    tag = _TAG.search(name)
    return name if tag is None else tag[1]


def key_of_run(started: RunStarted) -> str:
    """Return the key of a new run that is in no session, no part of another one and no fork."""
    run_id = started.run_id
    return key_of(run_id) if started.user_id is None or "{" in run_id else started.user_id


def homes(generations: Sequence[Generation], key: str) -> list[str]:
    """Return the shards in which a key belongs or belonged, the current one first."""
    return [*dict.fromkeys(_first(generation, key) for generation in reversed(generations))]


def _first(generation: Generation, key: str) -> str:
    return max(_open(generation), key=lambda name: _weight(name, key))


def _open(generation: Generation) -> Iterator[str]:
    return (name for name in generation.names if name not in generation.draining)


def _weight(name: str, key: str) -> bytes:
    return blake2b(
        key.encode("utf-8", "surrogatepass"),
        digest_size=8,
        key=name.encode(),
        usedforsecurity=False,
    ).digest()
