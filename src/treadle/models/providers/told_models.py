"""Cache of model data reported by providers, in Treadle's own folder: abilities and a date, no
keys.

The command `models` updates it; runs only read it. Entry points: `told`, `remember`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from treadle._internal.json_text import decode_json
from treadle.config.endpoint import Endpoint
from treadle.config.file import SIZE_MAX_BYTES, Broken, read_text, write_text
from treadle.config.model_profile import Abilities

FILE = "models.json"
AGE_MAX = timedelta(days=30)
SCHEMA = 1


class ToldModels(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    address: str
    """Hash of the provider's type and base URL, because the URL itself may contain private data."""
    models: dict[str, Abilities]


class _Remembered(msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag=SCHEMA):
    providers: dict[str, ToldModels] = {}


def told(
    home: str | Path, endpoint: Endpoint, now: datetime | None = None
) -> Mapping[str, Abilities]:
    """Return cached abilities by model id.

    Empty if there are none, or if they are older than 30 days, from another address, or unreadable.
    """
    found = _read(Path(home) / FILE).get(endpoint.name)
    if (
        found is None
        or found.address != _address(endpoint)
        or not _fresh(found, now or datetime.now(UTC))
    ):
        return {}
    return found.models


def remember(
    home: str | Path,
    endpoint: Endpoint,
    models: Mapping[str, Abilities],
    now: datetime | None = None,
) -> None:
    """Replace the cached data of this provider.

    Raises AgentError(invalid) if the file cannot be written.
    """
    path, now = Path(home) / FILE, now or datetime.now(UTC)
    others = {name: other for name, other in _read(path).items() if _fresh(other, now)}
    this = {endpoint.name: ToldModels(at=now, address=_address(endpoint), models=dict(models))}
    for providers in (others | this, this):
        text = msgspec.json.format(
            msgspec.json.encode(_Remembered(providers=providers)), indent=0
        ).decode()
        if len(text.encode()) <= SIZE_MAX_BYTES:
            write_text(path, text)
            return


def _address(endpoint: Endpoint) -> str:
    return hashlib.sha256(f"{endpoint.type} {endpoint.base_url or ''}".encode()).hexdigest()[:16]


def _fresh(told: ToldModels, now: datetime) -> bool:
    """Return True if the data is at most 30 days old. Times up to a day ahead are accepted, in case
    the clock was set back.
    """
    return told.at.tzinfo is not None and -timedelta(days=1) <= now - told.at <= AGE_MAX


def _read(path: Path) -> dict[str, ToldModels]:
    try:
        opened = read_text(path, own=True)
        return {} if opened is None else decode_json(opened.text.encode(), _Remembered).providers
    except (Broken, ValueError, RecursionError):
        return {}
