"""Verified identities, and the scope of their rows. Entry points: `Identity`, `Scope`.

An `Identity` is created in few places, each of which has just verified the user; a test counts
them. All other code passes on the `Scope`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, final

from treadle.errors import AgentError

Proof: TypeAlias = Literal["token", "terminal", "caller", "journal"]
"""Kind of verification: our token, the user of the terminal, the library's caller, or the journal,
for a run that began with one of these.
"""
USER_ID_CHARS = 64


@final
class Identity:
    """Verified user, with the kind of verification."""

    __slots__ = ("_user_id", "proof")

    def __init__(self, user_id: str, proof: Proof) -> None:
        """Create an identity. Raises AgentError(invalid) for a user id that is empty, longer than
        64 characters or not printable.
        """
        if not user_id or len(user_id) > USER_ID_CHARS or not user_id.isprintable():
            raise AgentError("invalid", "a user's id is 1 to 64 printable characters")
        self._user_id = user_id
        self.proof: Proof = proof

    @property
    def user_id(self) -> str:
        return self._user_id

    def __repr__(self) -> str:
        """Omit the id, which must not appear in logs."""
        return f"Identity({self.proof})"


@final
class Scope:
    """Access to the rows of one user. Its holder may read and change those, and no others."""

    __slots__ = ("user_id",)

    def __init__(self, identity: Identity) -> None:
        assert isinstance(identity, Identity), "a scope is made of a verified identity"
        self.user_id: str = identity.user_id

    def __repr__(self) -> str:
        return "Scope()"
