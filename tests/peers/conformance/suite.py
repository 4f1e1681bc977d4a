"""The conformance suite of the Model Context Protocol, `@modelcontextprotocol/conformance`, run by
a node of its own, which it needs to be 22: one process for all scenarios (many.mjs).

Its version and node's stand in ../package.json; both are looked for where `make peers` installs
them. Entry: `suite_process`, `Suite`.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.fork_server import command
from tests.peers.child import ROOT

MODULES = ROOT / ".peers" / "node_modules"
COMPILED = MODULES.parent / "compiled"
"""Where node keeps what it has compiled, for the next process."""
EXPECTED = Path(__file__).with_name("expected_failures.yml")
FAILED = ("FAILURE", "WARNING")
Failures = dict[str, frozenset[str]]
"""By scenario: the ids of checks that failed."""


@contextmanager
def suite_process() -> Generator[Suite | str]:
    """The suite, or why there is none."""
    node, program = (
        MODULES / ".bin" / "node",
        MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js",
    )
    if missing := [path for path in (node, program) if not path.is_file()]:
        yield f"{missing[0]} is not there: `make peers` installs it"
        return
    plain = {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "HOME", "LANG", "TMPDIR", "SSL_CERT_FILE")
    }
    with subprocess.Popen(
        [node, Path(__file__).with_name("many.mjs"), program],
        cwd=ROOT,
        env={**plain, "NODE_COMPILE_CACHE": str(COMPILED)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Suite(process)
        process.kill()


def expected(part: str) -> Failures:
    """Of one part of what is tried."""
    found: dict[str, set[str]] = {}
    for group in yaml.safe_load(EXPECTED.read_text(encoding="utf-8")):
        for entry in group["fails"] if part in group["of"] else []:
            scenario, _, check = entry.partition(":")
            found.setdefault(scenario, set()).add(check)
    return {scenario: frozenset(checks) for scenario, checks in found.items()}


@dataclass(frozen=True)
class Suite:
    process: subprocess.Popen[str]

    def client_scenarios(self, version: str) -> list[str]:
        """What a client is asked at this revision, scored or not."""
        of_clients, found = False, list[str]()
        for line in self._run("list", "--requirements", version).splitlines():
            of_clients = line.startswith("Client") or (of_clients and bool(line.strip()))
            if line.strip().startswith("- ") and (of_clients or line.endswith("[client]")):
                found.append(line.strip(" -").partition(" ")[0])
        assert found, "the suite lists its scenarios in another way now"
        return found

    def try_server(self, url: str, version: str, results: Path) -> Failures:
        """All scenarios of this revision."""
        printed = self._run(
            "server", "--url", f"{url}/mcp", "--requirements", version, "--output-dir", str(results)
        )
        return _failures(results, "server-", printed)

    def try_client(self, scenario: str, version: str, results: Path) -> Failures:
        """One scenario, since all of them at once are too many processes for a small machine."""
        wanted = ["--scenario", scenario, "--spec-version", version, "--force"]
        printed = self._run(
            "client",
            "--command",
            shlex.join(command("tests.peers.conformance.driver")),
            *wanted,
            "--timeout",
            "200000",
            "--output-dir",
            str(results),
        )
        return _failures(results, "", printed)

    def _run(self, *arguments: str) -> str:
        """Return what is printed. The time of the test limits it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{json.dumps(arguments)}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def _failures(results: Path, prefix: str, printed: str) -> Failures:
    """What the suite has written, a folder for each scenario.

    Nothing written is a failure of the suite's own.
    """
    found: Failures = {}
    files = sorted(results.rglob("checks.json"))
    assert files, printed
    for file in files:
        scenario = str(file.parent.relative_to(results)).removeprefix(prefix)[
            : -len("-2026-11-20T23-09-41-373Z")
        ]
        checks = json.loads(file.read_text(encoding="utf-8"))
        assert checks or scenario in SILENT, f"{scenario} checked nothing: {printed}"
        if failed := frozenset(check["id"] for check in checks if check["status"] in FAILED):
            found[scenario] = failed
    return found


SILENT = ("tasks-status-notifications",)
"""Skipped by the suite itself."""
