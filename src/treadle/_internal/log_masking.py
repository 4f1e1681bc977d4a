"""Masking of log records: secrets of all live redactors are left out of them.

Entry points: `mask_logs`, `without_secrets`.
"""

from __future__ import annotations

import logging
import threading
import weakref

from typing_extensions import override

from treadle._internal.redaction import Redactor

STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({})))


class RedactingFilter(logging.Filter):
    """Redacts the message with its arguments, the traceback and the extra fields of each record.

    Belongs on handlers: a filter of a logger does not see what comes from that logger's children.
    The logger `treadle`, which has none, gets its own from the first runtime on (`mask_logs`).
    """

    def __init__(self, redactor: Redactor | _Live) -> None:
        super().__init__()
        self._redactor = redactor

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        redact = self._redactor.text
        record.msg, record.args = redact(_message(record)), None
        if record.exc_info:
            record.exc_text = record.exc_text or logging.Formatter().formatException(
                record.exc_info
            )
            record.exc_info = None
        for name, value in list(vars(record).items()):
            if isinstance(value, str):
                setattr(record, name, redact(value))
            elif name not in STANDARD_FIELDS and (clean := redact(repr(value))) != repr(value):
                setattr(record, name, clean)
        return True


class _Live:
    """The redactors that are in use, of all runtimes of the process; each is forgotten with whoever
    uses it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Guards `_redactors` against two threads that add at once; whoever reads finds a whole
        tuple.
        """
        self._redactors: tuple[weakref.ref[Redactor], ...] = ()

    def add(self, redactor: Redactor) -> None:
        with self._lock:
            self._redactors = (
                *(known for known in self._redactors if known() is not None),
                weakref.ref(redactor),
            )

    def text(self, text: str) -> str:
        for known in self._redactors:
            if (redactor := known()) is not None:
                text = redactor.exact(text)
        return Redactor().text(text)


_live = _Live()
_library_filter = RedactingFilter(_live)


def mask_logs(redactor: Redactor) -> Redactor:
    """Filter the library's own logs as long as the redactor exists, and return it.

    Thread-safe, for any number of redactors.
    """
    _live.add(redactor)
    logging.getLogger("treadle").addFilter(_library_filter)
    return redactor


def without_secrets(text: str) -> str:
    """Without what any redactor in use knows, and what looks like a credential: for whoever follows
    runs of any runtime from outside.
    """
    return _live.text(text)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as e:  # noqa: BLE001  formatting calls foreign code, and a log line must not stop a program
        return (
            f"{record.msg} ({len(record.args or ())} arguments that do not fit: {type(e).__name__})"
        )
