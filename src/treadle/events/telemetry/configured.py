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
"""Maximum time that closing waits for log and exporter together, in seconds."""


class ConfiguredTelemetry:
    """Tracer and event log of a runtime. Close it after the last run."""

    def __init__(self, asked: Asked, hub: Hub, tracer: Tracer | None) -> None:
        """Start the configured tracer and log. `tracer`: the application's tracer, which takes
        precedence over the configured one.

        Raises AgentError(invalid) if a package or exporter is missing, or if the log cannot be
        opened.
        """
        self._ending = ExitStack()
        """Blocking callbacks that `aclose` calls."""
        self._idle = True
        if tracer is None and asked.otel:
            from treadle.events.telemetry.export import flush, set_up  # noqa: PLC0415  needed only if configured
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
        """Write and send pending data, within `CLOSE_S`. Idempotent; never raises."""
        if self._idle:
            return
        self._idle, over, token = True, anyio.Event(), current_token()

        def end() -> None:
            try:
                self._ending.close()
            except Exception:  # exporters may be user code
                logger.warning("pending logs and traces could not be sent", exc_info=True)
            with suppress(RuntimeError):  # the event loop is already closed
                from_thread.run_sync(over.set, token=token)

        threading.Thread(target=end, name="treadle-telemetry", daemon=True).start()
        with anyio.move_on_after(CLOSE_S):
            await over.wait()
