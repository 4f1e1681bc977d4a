"""Log records of the library, and of handlers, without secrets."""

from __future__ import annotations

import gc
import logging
import sys
import weakref
from io import StringIO

import pytest

from treadle._internal.log_masking import RedactingFilter, mask_logs
from treadle._internal.redaction import Redactor
from treadle._internal.secret_patterns import MASK

CANARY = "sk-ant-api03-CANARY-9f3b2c7d1e"


def logged(redactor: Redactor) -> tuple[logging.Logger, StringIO]:
    out = StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        logging.Formatter("%(name)s %(message)s %(extra)s", defaults={"extra": ""})
    )
    handler.addFilter(RedactingFilter(redactor))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    return logger, out


def test_log_records_are_redacted_with_their_arguments() -> None:
    logger, out = logged(Redactor([CANARY]))
    logger.error("calling with %s and %r", CANARY, {"x-api-key": "other-canary"})
    logger.error(f"calling with {CANARY}", extra={"extra": {"header": CANARY}})
    logger.error("calling", extra={"extra": CANARY})
    assert "canary" not in out.getvalue().lower()
    assert out.getvalue().count(MASK) == 5


def test_tracebacks_in_log_records_are_redacted() -> None:
    logger, out = logged(Redactor([CANARY]))
    try:
        raise ValueError(f"refused {CANARY}")
    except ValueError:
        logger.exception("failed")
        logger.error("failed", exc_info=sys.exc_info(), stack_info=True)
    assert "Traceback" in out.getvalue()
    assert "Stack" in out.getvalue()
    assert CANARY not in out.getvalue()


def test_a_log_record_whose_arguments_do_not_fit_stops_nothing() -> None:
    logger, out = logged(Redactor([CANARY]))
    logger.error("%d %d", CANARY)
    assert "do not fit" in out.getvalue()
    assert "CANARY" not in out.getvalue()


def test_handlers_that_print_exceptions_themselves_find_none() -> None:
    record = logging.makeLogRecord(
        {"msg": "failed", "exc_info": (ValueError, ValueError(CANARY), None)}
    )
    RedactingFilter(Redactor([CANARY])).filter(record)
    assert record.exc_info is None
    assert record.exc_text == f"ValueError: {MASK}"


def test_other_fields_of_a_record_keep_their_values() -> None:
    record = logging.makeLogRecord({"msg": "plain", "extra": [1, 2], "levelname": "INFO"})
    assert RedactingFilter(Redactor([CANARY])).filter(record)
    assert (record.getMessage(), record.__dict__["extra"], record.levelname) == (
        "plain",
        [1, 2],
        "INFO",
    )


def test_what_the_library_logs_is_redacted_for_every_redactor_that_is_in_use(
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = "another-canary"
    known = [mask_logs(Redactor([CANARY])), mask_logs(Redactor([other]))]
    logger = logging.getLogger("treadle")
    try:
        raise ValueError(f"refused {CANARY}")
    except ValueError:
        logger.exception("failed with %s", other)
    assert all(known)
    assert f"failed with {MASK}" in caplog.text
    assert f"ValueError: refused {MASK}" in caplog.text
    told = f"{caplog.text} {[vars(record) for record in caplog.records]}"
    assert CANARY not in told
    assert other not in told


def test_the_log_forgets_a_redactor_with_its_user(caplog: pytest.LogCaptureFixture) -> None:
    redactor = mask_logs(Redactor([CANARY]))
    known = weakref.ref(redactor)
    del redactor
    gc.collect()
    assert known() is None
    logging.getLogger("treadle").warning("it is another-canary with token=1234567890abcdef")
    assert caplog.messages == [f"it is another-canary with token={MASK}"]
