"""Test of a sandbox in its own thread, so that callers can do other work.

trial.py and seatbelt.py define the tests. Entry point: `TrialThread`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from anyio import to_thread

from treadle.tools.confinement import SandboxStatus


class TrialThread:
    """Thread that runs the test once, and keeps the result."""

    def __init__(self, name: str, tried: Callable[[], SandboxStatus]) -> None:
        """Create a trial thread. `name`: of the sandbox.

        `tried` may block and raise: after any exception, commands are not confined.
        """
        self._name, self._tried = name, tried
        self._thread: threading.Thread | None = None
        self._standing: SandboxStatus | None = None

    def begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._find_out, name="treadle-sandbox-trial", daemon=True
            )
            self._thread.start()

    async def standing(self) -> SandboxStatus:
        """Return the result of the test. Cancellation takes effect only when it has ended."""
        if self._standing is None:
            self.begin()
            await self.aclose()
        assert self._standing is not None, "it has ended"
        return self._standing

    async def aclose(self) -> None:
        if self._thread is not None:
            await to_thread.run_sync(self._thread.join)

    def _find_out(self) -> None:
        try:
            self._standing = self._tried()
        except Exception as e:  # noqa: BLE001  the edge of a thread: whatever it is, nothing is confined then
            self._standing = SandboxStatus(
                works=False, text=f"{self._name} could not be tried: {type(e).__name__}: {e}"
            )
