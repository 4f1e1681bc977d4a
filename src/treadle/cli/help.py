"""How every command shows its help, whether it is called through `treadle` or by itself. Entry:

`HELP`.
"""

from __future__ import annotations

from typing import Any, Final

HELP: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
