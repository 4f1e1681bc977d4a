"""Logging of long-running processes to standard error, without secrets. Entry points:
`log_to_stderr`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping

from typing_extensions import override

from treadle._internal.redaction import Redactor


def log_to_stderr(redactor: Redactor, levels: Mapping[str, int]) -> None:
    """Write the records of the named loggers to standard error. `levels`: level by logger. A child
    logger uses its parent's handler.
    """

    class Clean(logging.Formatter):
        @override
        def format(self, record: logging.LogRecord) -> str:
            return redactor.text(super().format(record))

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Clean("%(asctime)s %(levelname)s %(message)s"))
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    for name in levels:
        if not any(name.startswith(f"{other}.") for other in levels):
            logging.getLogger(name).addHandler(handler)
