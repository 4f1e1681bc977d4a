"""The service answers a hostile request with an error of the client's, or closes; it never fails, and
others are served.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.attacks import SEEDS, chance
from tests.attacks.clients import hostile
from tests.service.on_the_wire import ask
from tests.service.unlimited import unlimited

STATUSES = re.compile(rb"HTTP/1\.[01] ([0-9]{3}) ")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder: Path = tmp_path_factory.mktemp("service")
    with unlimited(folder, config={"service": {"hosts": []}}) as url:
        yield urlsplit(url).port or 0
    assert "Traceback" not in (folder / "log").read_text(errors="replace")


def said(port: int, data: bytes) -> bytes:
    """All that comes until the server closes."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
        try:
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
            while piece := line.recv(65_536):
                answer += piece
        except OSError:  # closed while it was sent
            pass
    return answer


@pytest.mark.parametrize("seed", SEEDS)
def test_no_request_makes_the_service_fail(port: int, seed: int) -> None:
    random, refused = chance(seed, "clients"), 0
    for _ in range(40):
        data = hostile(random)
        answer = said(port, data)
        statuses = {int(status) for status in STATUSES.findall(answer)}
        assert not {status for status in statuses if status >= 500} - {501, 505}, (data, answer)
        assert b"Traceback" not in answer
        refused += any(400 <= status < 500 for status in statuses)
    assert refused > 5
    assert ask(port, "GET", "/healthz").status == 200
