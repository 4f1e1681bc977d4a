"""`make attack`: fires attacks from ever other seeds until the time is over, or until one succeeds.
Exits with 1 then, and names the seeds and the command that repeats them.

`python -m tests.attacks --seconds 3600 --seed 1000`. Entry: `main`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PATHS: Final = (
    "tests/attacks",
    "tests/journal/postgres/test_forged_notifications.py",
    "tests/events/telemetry/test_metrics_server.py",
)
"""The package, and attacks that are tested with what they attack."""
TOGETHER: Final = 6
"""Seeds of a round."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make attack", description=(__doc__ or "").split(".")[0])
    parser.add_argument("--seconds", type=float, default=120.0, help="for so long; default: 120")
    parser.add_argument("--seed", type=int, help="the first one; default: by the clock")
    parser.add_argument("--jobs", default="2", help="processes of pytest; default: 2")
    options = parser.parse_args(arguments)
    first = int(time.time()) if options.seed is None else options.seed
    began = time.monotonic()
    rounds, longest_s = 0, 0.0
    while rounds == 0 or time.monotonic() - began + longest_s < options.seconds:
        seed = first + rounds * TOGETHER
        round_began = time.monotonic()
        if not survived(seed, options.jobs):
            print(
                f"an attack succeeded: TREADLE_TEST_ATTACKS_FROM={seed} TREADLE_TEST_ATTACKS={TOGETHER} "
                f"python -m pytest {' '.join(PATHS)}"
            )
            return 1
        rounds += 1
        longest_s = max(longest_s, time.monotonic() - round_began)
        print(f"seeds {seed} to {seed + TOGETHER - 1}: none succeeded", flush=True)
    return 0


def survived(seed: int, jobs: str) -> bool:
    """True if no attack of these seeds succeeds."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", jobs, "-p", "no:cacheprovider", *PATHS],
        cwd=ROOT,
        env={
            **os.environ,
            "TREADLE_TEST_ATTACKS_FROM": str(seed),
            "TREADLE_TEST_ATTACKS": str(TOGETHER),
        },
        check=False,
    )
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
