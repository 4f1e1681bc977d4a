from __future__ import annotations

import pytest

from tests.models.providers.conftest import SPEECHES
from tests.models.providers.speech import Speech


@pytest.fixture(params=SPEECHES, ids=lambda speech: speech.wire)
def speech(request: pytest.FixtureRequest) -> Speech:
    """Each test that asks for it runs over every wire."""
    return request.param


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
