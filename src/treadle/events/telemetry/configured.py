"""Telemetry of a runtime as the configuration's `telemetry:` sets it: a tracer, and a log of all
events.

Entry point: `ConfiguredTelemetry`.
"""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack, suppress

import anyio
from anyio import from_thread
from anyio.lowlevel import current_token

from treadle.config.sections import Telemetry as Asked
from treadle.events.hub import Hub
from treadle.events.tracing import NO_TRACER, Tracer

logger = logging.getLogger("treadle")

CLOSE_S = 4.0
"""Longest time that closing waits for a slow log and a slow exporter together."""


class ConfiguredTelemetry:
    """Begins with its runtime; `aclose` it after the last run."""

    def __init__(self, asked: Asked, hub: Hub, tracer: Tracer | None) -> None:
        """`tracer`: the application's own, which goes before what is configured.

        Raises AgentError(invalid).
        """
        self._ending = ExitStack()
        """Blocks."""
        self._idle = True
        if tracer is None and asked.otel:
            from treadle.events.telemetry.export import flush, set_up  # noqa: PLC0415  most configurations ask for nothing
            from treadle.events.telemetry.tracer import otel_tracer  # noqa: PLC0415  as above

            set_up()
            self._idle = False
            self._ending.callback(flush)
            tracer = otel_tracer(content=asked.content or None)
        self.tracer: Tracer = tracer or NO_TRACER
        if asked.logs != "off":
            from treadle.events.telemetry.files import LogFile  # noqa: PLC0415  as above
            from treadle.events.telemetry.logs import log_events  # noqa: PLC0415  as above

            self._idle = False
            file = None if asked.log_file is None else LogFile(asked.log_file)
            self._ending.enter_context(
                log_events(hub, form=asked.logs, file=file, content=asked.content)
            )

    async def aclose(self) -> None:
        """Write and send what is pending, within a few seconds. Idempotent; raises nothing."""
        if self._idle:
            return
        self._idle, over, token = True, anyio.Event(), current_token()

        def end() -> None:
            try:
                self._ending.close()
            except Exception:  # an exporter is anybody's code, and the runs are over
                logger.warning("what was left of logs and traces could not be sent", exc_info=True)
            with suppress(RuntimeError):  # the event loop is gone already
                from_thread.run_sync(over.set, token=token)

        threading.Thread(target=end, name="treadle-telemetry", daemon=True).start()
        with anyio.move_on_after(CLOSE_S):
            await over.wait()
