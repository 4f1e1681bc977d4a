"""Script that writes the schema files to this folder; run by `make docs`."""

from __future__ import annotations

from pathlib import Path

from treadle.cli.stream_schema import write

write(Path(__file__).parent)
