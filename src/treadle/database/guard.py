"""The first lock: statements over `Owned` rows see one user's, or are refused. Entry: `scoped`."""

from __future__ import annotations

from sqlmodel import Session

from treadle.database.scope import Scope


def scoped(session: Session, scope: Scope | None) -> None:
    """Binds the session's transaction to a scope; None: it may touch no owned row."""
    session.info["scope"] = scope
