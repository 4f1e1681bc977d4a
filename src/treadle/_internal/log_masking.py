"""Masking of log records: removes the secrets of all live redactors.

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
    """Filter that redacts the message with its arguments, the traceback and the extra fields of
    each record.

    Add it to handlers: a filter of a logger does not apply to records of that logger's children.
    The logger `treadle`, which has no children, gets its own filter with the first runtime
    (`mask_logs`).
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
    """Redactors of all runtimes of the process, held by weak references."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Invariant: one thread at a time replaces `_redactors`. Readers need no lock, because they
        read a complete tuple.
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
    """Remove the secrets of all live redactors, and text that looks like a credential. For
    subscribers outside a runtime that follow runs of any runtime.
    """
    return _live.text(text)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as e:  # noqa: BLE001  formatting calls foreign code, and a log line must not stop a program
        return (
            f"{record.msg} ({len(record.args or ())} arguments that do not fit: {type(e).__name__})"
        )
