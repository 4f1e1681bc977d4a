"""Take addresses out of the lock file of the node packages: `python -m tests.peers.locks`. npm
leaves those of donations in it.

The integrity of each package stays, and the registry is the one that npm is configured with.
"""

from __future__ import annotations

import json
from pathlib import Path

LOCK = Path(__file__).parent / "package-lock.json"


def main() -> None:
    lock = json.loads(LOCK.read_text(encoding="utf-8"))
    for package in lock["packages"].values():
        for key in ("funding", "resolved"):
            package.pop(key, None)
    LOCK.write_text(json.dumps(lock, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
