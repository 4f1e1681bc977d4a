"""`treadle serve` with room for many requests of strangers and many tries to sign in, which no
setting gives: `python -m tests.service.unlimited`.

For programs that ask a thousand times. Everything else is the product. Entry: `unlimited`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.fork_server import ENDS_WITHIN_S, ROOT, fork_server
from treadle.cli import main
from treadle.service import attempts, limits, passwords

LIMITS = {
    "requests_per_minute": 10_000_000,
    "runs": 200,
    "streams": 200,
    "tokens_per_day": 1_000_000_000,
}

TOTALS = {
    "accounts_per_hour": 1_000_000,
    "tokens_per_day": 1_000_000_000_000,
    "cost_usd_per_day": 1_000_000,
}


@contextmanager
def unlimited(
    folder: Path,
    *options: str,
    config: Mapping[str, Any] | None = None,
    program: str = "tests.service.unlimited",
    **limits: int,
) -> Generator[str]:
    """Its address. What it says goes to `log` in the folder.

    `options`: of `treadle serve`, and `--cheap-passwords` where thousands of passwords are hashed
    and their protection is not the point. `config`: more of the file, whose `service` adds to the limits; `program`: the module to run;
    `limits`: others than these.
    """
    home = folder / "treadle"
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text(
        json.dumps(
            {
                **(config or {}),
                "service": {
                    "limits": {**LIMITS, **limits},
                    "totals": TOTALS,
                    **(config or {}).get("service", {}),
                },
            }
        ),
        encoding="utf-8",
    )
    (home / "config.yaml").chmod(0o600)
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("TREADLE_", "ANTHROPIC_"))},
        "HOME": str(folder),
        "TREADLE_HOME": str(home),
    }
    with (folder / "log").open("wb") as log, forked(program, options, environment, log) as out:
        address = out.readline().strip()
        assert address, (folder / "log").read_text()
        yield address


@contextmanager
def forked(
    program: str, options: Sequence[str], environment: Mapping[str, str], errors: IO[bytes]
) -> Generator[IO[str]]:
    """The standard output of a process that runs the module, and is killed in the end."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    out, out_w = os.pipe()
    process = fork_server().start(
        options,
        cwd=ROOT,
        environment=environment,
        streams=[nothing, out_w, errors.fileno()],
        program=program,
    )
    os.close(nothing)
    os.close(out_w)
    try:
        with open(out, encoding="utf-8") as said:
            yield said
    finally:
        process.kill()
        process.wait(ENDS_WITHIN_S)


if __name__ == "__main__":
    limits.STRANGERS_PER_MINUTE = attempts.ATTEMPTS_PER_MINUTE = attempts.WRONG_OF_ACCOUNT = (
        attempts.AT_ONCE
    ) = 10_000_000
    if "--cheap-passwords" in sys.argv:  # the least work that argon2 allows
        sys.argv.remove("--cheap-passwords")
        passwords.MEMORY_KIB, passwords.PASSES = 8, 1
    sys.argv = ["treadle", "serve", "--port", "0", *sys.argv[1:]]
    main()
