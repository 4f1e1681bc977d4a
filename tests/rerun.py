"""Failed tests once more, each alone: `python -m tests.rerun`, after pytest.

A test that fails beside 24,000 others and passes three times alone is flaky: it depends on another
test, on timing or on the load. It is printed as a defect to report, with what the log says above,
but does not refuse a change that did not cause it. More than `MOST` failures are never excused, nor
is one that fails again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LAST = Path(".pytest_cache/v/cache/lastfailed")
"""Where pytest keeps the names of the tests that failed; empty if it did not get to run them."""
MOST = 3
TIMES = 3


def main(last: Path = LAST) -> int:
    """Return the exit code: 0 if a few tests had failed, and each of them passes now."""
    failed: list[str] = list(json.loads(last.read_text())) if last.exists() else []
    if not 0 < len(failed) <= MOST:
        print(f"{len(failed)} tests failed; only 1 to {MOST} are run again", file=sys.stderr)
        return 1
    alone = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider"]
    again = [
        name
        for name in failed
        if any(subprocess.run([*alone, name], check=False).returncode for _ in range(TIMES))
    ]
    for name in failed:
        print(f"FAILED AGAIN {name}" if name in again else f"FLAKY {name}", file=sys.stderr)
    return int(bool(again))


if __name__ == "__main__":
    sys.exit(main())
