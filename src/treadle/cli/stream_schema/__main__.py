"""Writes the schemas beside this file; `make docs` runs it."""

from __future__ import annotations

from pathlib import Path

from treadle.cli.stream_schema import write

write(Path(__file__).parent)
