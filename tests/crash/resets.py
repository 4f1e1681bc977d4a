"""Connections to PostgreSQL that are reset where psycopg notices before libpq. Entry: `Resets`."""

from __future__ import annotations

import os
import select
import socket
from typing import Any

import psycopg
import pytest

from tests.crash.proxy import Way


class Resets:
    """Resets a connection where poll(2) may find it: with an error and nothing to read. Psycopg
    gives up then, and libpq has not noticed yet that the connection has ended.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, way: Way) -> None:
        self._left, self._way, wait = 0, way, psycopg.Connection.wait

        def waits(db: psycopg.Connection, asked: Any, *more: Any) -> Any:
            return wait(db, self._polled(db, asked), *more)

        monkeypatch.setattr(psycopg.Connection, "wait", waits)

    def at(self, number: int) -> None:
        """At that poll from now on, before what is asked has arrived (`there`), or when its answer
        has arrived here.
        """
        self._left = number

    @property
    def has_struck(self) -> bool:
        return self._left <= 0

    def _polled(self, db: psycopg.Connection, asked: Any) -> Any:
        ready = None
        while True:
            try:
                wanted = asked.send(ready)
            except StopIteration as e:
                return e.value
            self._left -= 1
            if self._left == 0:
                if self._way == "back" and wanted & psycopg.waiting.WAIT_R:
                    select.select([db.fileno()], [], [], 1)
                with socket.socket(fileno=os.dup(db.fileno())) as end:
                    end.shutdown(socket.SHUT_RDWR)
                raise psycopg.OperationalError("connection socket closed")
            ready = yield wanted
