"""Structured logs: one line for each event of each run, and for each record of the library's
logger. A thread writes them, so that runs do not wait.

lines.py formats the lines. Entry points: `log_events`, `EventLog`.
"""

from __future__ import annotations

import logging
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Self, TextIO, TypeAlias, cast

from typing_extensions import override

from treadle.errors import AgentError
from treadle.events.hub import Hub
from treadle.events.telemetry.lines import LogLine, line_of, line_of_record, missed
from treadle.messages.events import DELTAS, Event, ReasoningEnd, ReasoningStart

if TYPE_CHECKING:
    from treadle.events.telemetry.files import LogFile

logger = logging.getLogger("treadle")

Form: TypeAlias = Literal["text", "json"]
Sink: TypeAlias = "TextIO | LogFile"
WAITING_MAX = 10_000
"""Maximum number of lines that wait for a slow sink. Further lines are omitted and counted."""
GRACE_S = 1.5
"""Maximum time that closing waits for a slow sink, in seconds."""

_LEFT_OUT = (*DELTAS, ReasoningStart, ReasoningEnd)
Waiting: TypeAlias = "tuple[Event | logging.LogRecord | int, Mapping[str, str]] | None"
"""Queued item: a line, or the number of omitted lines, with the ids of its trace; None for the end.
"""


def log_events(
    hub: Hub,
    *,
    form: Form = "json",
    file: Sink | None = None,
    content: bool = False,
    deltas: bool = False,
    writer: Any = None,
) -> EventLog:
    """Log the events of `hub` until the returned log is closed.

    `form`: lines of JSON, or text for people. `file`: standard error by default. `content`: include
    prompts, responses and results, with known secrets masked; otherwise only their length.
    `deltas`: include deltas. `writer`: a structlog logger of the application, which is called in a
    thread and replaces `form` and `file`.
    """
    from treadle.events.telemetry.files import LogFile  # noqa: PLC0415  nothing else needs it

    at_end = file.close if isinstance(file, LogFile) else None
    return EventLog(
        hub,
        writer or structured(form, file if file is not None else sys.stderr),
        content=content,
        deltas=deltas,
        at_end=at_end,
    )


def structured(form: Form, file: Sink) -> Any:
    """Return a structlog logger that neither uses nor changes the application's configuration."""
    try:
        import structlog  # noqa: PLC0415  takes 45 ms
    except ImportError as e:
        raise AgentError(
            "invalid", "structured logs need structlog: pip install 'treadle[otel]'"
        ) from e
    from treadle.events.telemetry.lines import printable  # noqa: PLC0415  nothing else needs it

    text = structlog.dev.ConsoleRenderer(colors=file.isatty(), sort_keys=False, pad_event_to=20)
    ending = [printable, text] if form == "text" else [structlog.processors.JSONRenderer()]
    processors = [structlog.processors.add_log_level, *ending]
    return structlog.wrap_logger(
        structlog.WriteLogger(cast("TextIO", file)),
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(0),
    )


class EventLog:
    """Listener of a hub that writes log lines in a thread.

    `put` can be called from any thread and never blocks.
    """

    def __init__(
        self,
        hub: Hub,
        writer: Any,
        *,
        content: bool = False,
        deltas: bool = False,
        waiting_max: int = WAITING_MAX,
        at_end: Callable[[], object] | None = None,
    ) -> None:
        """Start logging. `writer`: a structlog logger. `at_end`: called in the writing thread,
        after the last line.
        """
        self._hub = hub
        self._writer, self._content, self._deltas, self._at_end = writer, content, deltas, at_end
        self._lines: queue.Queue[Waiting] = queue.Queue(waiting_max)
        self._lock = threading.Lock()
        """Lock that guards `_missed`, so that the number of omitted lines is written once, before
        the next line.
        """
        self._missed = 0
        self._over = threading.Event()
        """Set when the log accepts no more lines."""
        self._thread = threading.Thread(
            target=self._write_all, name="treadle-event-log", daemon=True
        )
        self._thread.start()
        self._words = _Words(self)
        logger.addHandler(self._words)
        hub.add(self)

    def put(self, event: Event) -> None:
        if self._deltas or not isinstance(event, _LEFT_OUT):
            self.add(event)

    def add(self, what: Event | logging.LogRecord) -> None:
        """Add an event, or a record of the library's logger."""
        with self._lock:
            try:
                if self._missed:
                    self._lines.put_nowait((self._missed, {}))
                    self._missed = 0
                self._lines.put_nowait((what, trace_ids()))
            except queue.Full:
                self._missed += 1

    def close(self) -> None:
        """Stop accepting lines. Queued ones are still written. Does not wait. Idempotent."""
        logger.removeHandler(self._words)
        self._hub.remove(self)
        self._over.set()
        with suppress(queue.Full):  # the thread then checks `_over` when the queue is empty
            self._lines.put_nowait(None)

    def wait(self, seconds: float = GRACE_S) -> None:
        """Wait, after `close`, until all lines are written.

        Blocks for at most `seconds`, then logs the number of lines that were not written.
        """
        self._thread.join(seconds)
        if self._thread.is_alive():
            logger.warning(
                "the event log could not write its last %d lines: its sink is blocked",
                self._lines.qsize() + self._missed,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
        self.wait()

    # ------------------------------------------------------------ in the thread

    def _write_all(self) -> None:
        lost = 0
        while (waiting := self._next()) is not None:
            what, ids = waiting
            if isinstance(what, int):
                lost += what
                continue
            if lost and not self._write(missed(lost)):
                lost += 1
                continue
            lost = 0 if self._write(self._line(what, ids)) else 1
        with self._lock:
            lost += self._missed
        if lost:
            self._write(missed(lost))
        if self._at_end is not None:
            self._at_end()

    def _next(self) -> Waiting:
        if self._over.is_set():
            try:
                return self._lines.get_nowait()
            except queue.Empty:
                return None
        return self._lines.get()

    def _line(self, what: Event | logging.LogRecord, ids: Mapping[str, str]) -> LogLine:
        line = (
            line_of_record(what)
            if isinstance(what, logging.LogRecord)
            else line_of(what, content=self._content)
        )
        line.fields.update(ids)
        return line

    def _write(self, line: LogLine) -> bool:
        """Write a line. Returns False if the sink rejected it; the next line then reports the
        omission.
        """
        try:
            getattr(self._writer, line.level)(line.event, **line.fields)
        except Exception:  # noqa: BLE001  a full disk, a closed pipe or a failing processor must not end the log
            return False
        return True


class _Words(logging.Handler):
    """Logging handler that adds the records of the library's logger, whose secrets `mask_logs` has
    masked.
    """

    def __init__(self, log: EventLog) -> None:
        super().__init__()
        self._log = log

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self._log.add(record)


def trace_ids() -> Mapping[str, str]:
    """Return the ids of the current span, or an empty mapping. Does not import OpenTelemetry."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None or not (found := trace.get_current_span().get_span_context()).is_valid:
        return {}
    return {"trace_id": f"{found.trace_id:032x}", "span_id": f"{found.span_id:016x}"}
