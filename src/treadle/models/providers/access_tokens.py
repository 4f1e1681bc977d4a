"""Access tokens that a function of the program supplies, in place of a fixed key: fetched when a
request needs one, kept until they expire, and renewed once if the provider rejects them.

http.py sends the requests. Entry points: `AccessTokens`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from time import monotonic

import anyio

from treadle._internal.redaction import Secret
from treadle.config.tokens import AccessToken, TokenSource
from treadle.errors import AgentError
from treadle.models.providers.connection import HttpReply
from treadle.models.providers.identity import Identity

EARLY_S = 30.0
"""Seconds before its expiry from which a token is replaced, so that it is valid on arrival."""
WITHIN_S = 30.0
"""Seconds after which a function that has not returned a token is given up."""
UNAUTHORIZED = 401
_RETURNS = "an AccessToken, or a Secret that does not expire, from treadle.config"


class AccessTokens:
    """Current token of one provider. For the tasks of one event loop."""

    def __init__(
        self, source: TokenSource, label: str, clock: Callable[[], float] = monotonic
    ) -> None:
        """Create the tokens of a provider. `label`: its name in errors; `clock` returns seconds."""
        self._source, self._label, self._clock = source, label, clock
        self._token, self._until = "", 0.0
        # one task fetches a token, and the others wait for it
        self._fetching = anyio.Lock()

    @asynccontextmanager
    async def authorized(
        self, send: Callable[[Mapping[str, str]], AbstractAsyncContextManager[HttpReply]]
    ) -> AsyncGenerator[HttpReply]:
        """Send a request with the token, and again with a new one if the provider rejects it.

        `send` starts a request with additional headers. Raises AgentError(auth), before anything is
        sent, if there is no token.
        """
        token = await self._current(rejected="")
        async with send({"authorization": f"Bearer {token}"}) as reply:
            if reply.status != UNAUTHORIZED:
                yield reply
                return
        token = await self._current(rejected=token)
        async with send({"authorization": f"Bearer {token}"}) as reply:
            yield reply

    async def _current(self, *, rejected: str) -> str:
        async with self._fetching:
            if self._clock() >= self._until or self._token == rejected:
                self._token, self._until = await self._fetched()
            return self._token

    async def _fetched(self) -> tuple[str, float]:
        """Fetch a token, with the time until which it is used."""
        whose = f"token= of the provider {self._label!r}"
        found: object = None
        try:
            with anyio.move_on_after(WITHIN_S) as limit:
                found = await self._source()
        except AgentError:
            raise  # a source of config/tokens.py, which says what to do
        except Exception as e:
            # its text may contain a secret
            raise AgentError(
                "auth",
                f"{whose} raised {type(e).__name__}, so nothing was sent: check the function",
                sent=False,
            ) from e
        if limit.cancelled_caught:
            text = f"{whose} returned nothing within {WITHIN_S:g} s, so nothing was sent: check the"
            raise AgentError(
                "timeout", f"{text} function, and give its requests a timeout", sent=False
            )
        token = AccessToken(value=found) if isinstance(found, Secret) else found
        if type(token) is not AccessToken:
            raise AgentError(
                "auth",
                f"{whose} returned {type(found).__name__}, so nothing was sent: return {_RETURNS}",
                sent=False,
            )
        who = Identity.of(
            self._label,
            (whose, whose),
            api_key=None,
            auth_token=token.value.reveal(),
            base_url=None,
        )
        lasts_s = float("inf") if token.expires_in_s is None else token.expires_in_s - EARLY_S
        return who.secret, self._clock() + lasts_s
