"""The mock server of CopilotKit, `@copilotkit/aimock`: it answers as aimock.json says, on every
wire, keeps what it was sent, and can be made to fail.

Its version stands in package.json; it is looked for where `make peers` installs it. Entries:
`find_aimock`, `aimock_command`, `Aimock`.
"""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.peers.child import ROOT

FIXTURES = Path(__file__).with_name("aimock.json")


def find_aimock() -> Path | str:
    """Its program, or why there is none."""
    if shutil.which("node") is None:
        return "node is not on the PATH"
    folder = ROOT / ".peers"
    program = folder / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
    return (
        program
        if program.is_file()
        else f"@copilotkit/aimock is not in {folder}: `make peers` installs it"
    )


def aimock_command(program: Path) -> Sequence[str]:
    """On a free port; it refuses what no fixture matches, and ends with its stdin."""
    start = f"process.stdin.on('end', () => process.exit()).resume(); await import({json.dumps(program.as_uri())})"
    options = [
        "--port",
        "0",
        "--fixtures",
        str(FIXTURES),
        "--validate-on-load",
        "--strict",
        "--log-level",
        "info",
    ]
    return ["node", "--input-type=module", "--eval", start, "--", *options]


class Aimock:
    """The server as one test sees it: by `test_id` it tells whose requests are whose."""

    def __init__(self, url: str, test_id: str) -> None:
        self.url = url
        self._test_id = test_id
        self.headers = {"x-test-id": test_id}

    def received(self) -> list[dict[str, Any]]:
        """Requests of this test, in order:

        `path`, `headers`, `body`, and of the answer `response.status`.
        """
        return self._ask("GET", f"/__aimock/journal?testId={self._test_id}")

    def bodies(self) -> list[dict[str, Any]]:
        return [entry["body"] for entry in self.received()]

    def fail(self, **rates: float) -> None:
        """From the next request on:

        `dropRate`, `malformedRate`, `disconnectRate`, `rateLimitRate`, each up to 1.
        """
        self._ask("POST", "/__aimock/chaos", rates)

    def recover(self) -> None:
        self._ask("DELETE", "/__aimock/chaos")

    def post(self, path: str, body: object) -> tuple[int, Any]:
        """Status and answer, past our own code."""
        try:
            return 200, self._ask("POST", path, body)
        except urllib.request.HTTPError as e:
            with e:
                return e.code, json.loads(e.read())

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json", **self.headers}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            request, timeout=10
        ) as reply:
            return json.loads(reply.read() or "null")
