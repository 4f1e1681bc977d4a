"""Where runs are kept, by URL. Entry: `open_journal`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, cast, get_args

from treadle.errors import AgentError
from treadle.journal import Journal

Durability = Literal["process", "power"]


def open_journal(url: str, *, durability: Durability = "process") -> Journal:
    """`memory:`, or `sqlite:///FILE` (relative; `sqlite:////FILE` from the root). Raises AgentError(invalid) for one that cannot be opened."""
    if durability not in get_args(Durability):
        raise AgentError("invalid", f"durability is 'process' or 'power', not {durability!r}")
    if not isinstance(cast("object", url), str):
        raise AgentError("invalid", f"a journal is named by a URL, not by a {type(url).__name__}: give f'sqlite:///{{path}}'")
    scheme, colon, rest = url.partition(":")
    if scheme == "memory" and colon and not rest:
        from treadle.journals.memory import MemoryJournal  # noqa: PLC0415  each leaf is loaded when it is used

        return MemoryJournal()
    if scheme == "sqlite" and rest.startswith("///") and len(rest) > len("///"):
        from treadle.journals.sqlite import SqliteJournal  # noqa: PLC0415  likewise

        return SqliteJournal.open(Path(rest[3:]).expanduser(), durability=durability)
    if scheme == "postgresql":
        raise AgentError("invalid", "postgresql journals come in a later version: use 'sqlite:///FILE'")
    instead = f"'sqlite:///{url}'" if not colon and rest == "" and url else "'memory:' or 'sqlite:///FILE'"
    raise AgentError("invalid", f"{url!r} is no journal: use {instead}")
