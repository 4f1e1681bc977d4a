"""The service against its own document, asked by Schemathesis: what the schema allows is taken,
what it forbids is refused, and nothing breaks.

All checks, with data that fits and data that does not; no check is switched off. Its whole report
is large, so that a failure shows the headlines.
"""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
from pathlib import Path

import httpx2
import pytest

from tests.fork_server import ROOT
from tests.service.at_hand import PASSWORD
from tests.service.unlimited import unlimited

PROGRAM = Path(sysconfig.get_path("scripts")) / "schemathesis"
HOOKS = "tests.service.schemathesis_hooks"
HEADLINES = re.compile(
    r"^(____|- ST|    (Invalid component|`Allow|curl|`\{)|.*\d+ (generated|passed|failure|error)).*",
    re.MULTILINE,
)
STREAMS = "^/tasks/events$"
"""Has no end, where it is not refused: test_streams.py reads it."""
PARTS = {
    # A token is not good any more once it has signed out: those routes come alone, each with its
    # own.
    "everything but accounts": [
        "--max-examples",
        "60",
        "--exclude-path-regex",
        f"{STREAMS}|^/auth/",
    ],
    "signing in": [
        "--max-examples",
        "25",
        "--include-path-regex",
        "^/auth/(register|login|refresh|password)$",
        "--phases",
        "coverage,fuzzing",
    ],
    "signing out": [
        "--max-examples",
        "25",
        "--include-path-regex",
        "^/auth/logout$",
        "--phases",
        "coverage,fuzzing",
    ],
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", PARTS)
def test_what_the_document_says_is_so(part: str, tmp_path: Path) -> None:
    with unlimited(tmp_path, "--cheap-passwords") as url:
        signed = httpx2.post(
            f"{url}/auth/register", json={"username": "ada", "password": PASSWORD}
        ).json()
        command = [
            PROGRAM,
            "run",
            f"{url}/openapi.json",
            "-H",
            f"Authorization: Bearer {signed['access_token']}",
            "--checks",
            "all",
            "--mode",
            "all",
        ]
        more = ["--generation-deterministic", "--continue-on-failure", "--no-color", *PARTS[part]]
        done = subprocess.run(
            [*command, *more],
            cwd=tmp_path,
            env=os.environ
            | {
                "PYTHONPATH": str(ROOT),
                "SCHEMATHESIS_HOOKS": HOOKS,
                # tables of characters, which take it a second to make
                "HYPOTHESIS_STORAGE_DIRECTORY": str(ROOT / ".hypothesis"),
            },
            capture_output=True,
            text=True,
            timeout=500,
        )
        assert done.returncode == 0, (
            "\n".join(line.group()[:200] for line in list(HEADLINES.finditer(done.stdout))[:60])
            or done.stderr[-2000:]
        )
        assert "Tested: 0" not in done.stdout
        alive = httpx2.get(f"{url}/readyz")
    assert alive.status_code == 200
    assert "Traceback" not in (tmp_path / "log").read_text(encoding="utf-8")
