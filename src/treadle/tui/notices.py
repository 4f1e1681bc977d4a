"""What the library logs while the screen is held goes into the scrollback: on stderr it would be
drawn over. Entry: `told`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from typing_extensions import override

from treadle._internal.terminal_text import one_line


class _Teller(logging.Handler):
    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell, self._loop = tell, asyncio.get_running_loop()

    @override
    def emit(self, record: logging.LogRecord) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._tell, one_line(record.getMessage(), 400))


@contextmanager
def told(tell: Callable[[str], None]) -> Generator[None]:
    """Within, warnings of any library are told, one line each, without their tracebacks; from
    whatever thread.
    """
    handler, root = _Teller(tell), logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
