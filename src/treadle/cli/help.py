"""Help settings shared by all commands. Entry points: `HELP`."""

from __future__ import annotations

from typing import Any, Final

HELP: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
