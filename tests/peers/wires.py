"""The wires that are checked, and how a user reaches a server through each: a configuration file
with a provider named `local`.

The servers are aimock.py's and llama_server.py's. Entries: `WIRES`, `configured`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from treadle.config import Config, load

WIRES = ("anthropic", "openai-chat", "openai", "gemini")
BASES = {"anthropic": "", "openai-chat": "/v1", "openai": "/v1", "gemini": ""}
"""What a base URL has behind the address of the server."""
PATHS = {
    "anthropic": "/v1/messages",
    "openai-chat": "/v1/chat/completions",
    "openai": "/v1/responses",
    "gemini": "/v1beta/models/tiny:streamGenerateContent",
}
MODEL = "local:tiny"


def write_config(
    home: Path, wire: str, url: str, headers: Mapping[str, str], **more: object
) -> None:
    provider = {
        "type": wire,
        "base_url": url + BASES[wire],
        "api_key": "key-of-the-test",
        "headers": dict(headers),
        **more,
    }
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(
        json.dumps({"providers": {"local": provider}}), encoding="utf-8"
    )
    (home / "config.yaml").chmod(0o600)


def configured(
    home: Path, wire: str, url: str, headers: Mapping[str, str] | None = None, **more: object
) -> Config:
    """As `treadle` reads it there; `more` settings of the provider."""
    write_config(home, wire, url, headers or {}, **more)
    return load({"TREADLE_HOME": str(home), "HOME": str(home)}, cwd=home)
