"""Run the failed tests of the last run once more, one by one: `python -m tests.again STATUS`.

A test that passes alone is printed as unstable; STATUS is how that run of pytest ended. Decision
043 has the reason and the danger.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FAILED = Path(".pytest_cache/v/cache/lastfailed")
MOST = 5
"""More failures than this are not instability."""


def again(status: int) -> int:
    """How the run ends with this taken into account."""
    failed = sorted(json.loads(FAILED.read_text(encoding="utf-8"))) if FAILED.exists() else []
    if status != pytest.ExitCode.TESTS_FAILED or not 0 < len(failed) <= MOST:
        return status
    print(f"\n{len(failed)} failed; run once more, alone and one by one:", flush=True)
    command = [sys.executable, "-m", "pytest", "--all", "-n", "0", "--last-failed"]
    if (ended := subprocess.run(command, check=False).returncode) != 0:
        print("\nfailed again: see above", flush=True)
        return ended
    print("\nUNSTABLE, failed at first and passed alone; find the cause:", flush=True)
    print("\n".join(f"  {name}" for name in failed), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(again(int(sys.argv[1])))
