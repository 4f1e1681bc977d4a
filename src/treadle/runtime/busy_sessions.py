"""Sessions with an active run in this runtime. A session has one run at a time.

Entry point: `BusySessions`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from treadle.errors import AgentError
from treadle.loop.loop import Run
from treadle.runtime.toolbox_factory import into_this_loop


class _Claim(NamedTuple):
    """A run's hold on its session."""

    run: Run | None
    """None while the run is being planned."""
    inside: Callable[[Callable[[], None]], None]
    """Function that calls another one in the run's event loop."""


class BusySessions:
    """Sessions that are held by a run. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Guards `_claims`, so that two threads do not both find a session idle."""
        self._claims: dict[str, _Claim] = {}
        """Claims by session id."""
        self._long: set[str] = set()
        """Sessions with a pending compaction request."""

    def claim(self, session_id: str) -> Callable[[Callable[[], None]], None]:
        inside = into_this_loop()
        with self._lock:
            if session_id in self._claims:
                raise AgentError(
                    "busy",
                    (
                        f"session {session_id!r} has an active run: wait for it to end, cancel it, "
                        "or steer it"
                    ),
                )
            self._claims[session_id] = _Claim(None, inside)
        return inside

    def begin(
        self, session_id: str, run: Run, inside: Callable[[Callable[[], None]], None]
    ) -> None:
        """Make the run of a claimed session reachable."""
        with self._lock:
            self._claims[session_id] = _Claim(run, inside)
            run.inbox.wants_compaction = session_id in self._long
            self._long.discard(session_id)

    def follow(self, run: Run) -> None:
        """Reach the run of the agent that continues its session's run from here on."""
        with self._lock:
            if (claim := self._claims.get(run.plan.session_id or "")) is not None:
                self._claims[run.plan.session_id or ""] = claim._replace(run=run)

    def let_go(self, session_id: str) -> None:
        with self._lock:
            active = self._claims.pop(session_id, None)
            if active is not None and active.run is not None and active.run.inbox.wants_compaction:
                self._long.add(session_id)

    def is_busy(self, session_id: str) -> bool:
        with self._lock:
            return session_id in self._claims

    def while_idle(self, session_id: str, what: Callable[[str], object]) -> None:
        """Hold an idle session. Raises AgentError(busy) while a run of the session is active."""
        with self._lock:
            if session_id in self._claims:
                raise AgentError(
                    "busy",
                    f"session {session_id!r} is running: cancel the run, or wait for its end",
                )
            what(session_id)

    def tell(self, session_id: str, what: Callable[[Run], None]) -> bool:
        """Call `what` in the event loop of the session's run. False if there is none."""
        with self._lock:
            run, inside = self._claims.get(session_id, (None, None))
        if run is None or inside is None:
            return False
        inside(partial(what, run))
        return True

    def compact(self, session_id: str) -> bool:
        """Compact before the next request of the session's run. False if it will send no further
        request.
        """
        with self._lock:
            run, inside = self._claims.get(session_id, (None, None))
            if run is None or inside is None:
                self._long.add(session_id)
                return False
        inside(run.compact)
        return True
