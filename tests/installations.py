"""Interpreters with plug-ins: virtual environments that see the packages of this one, but have
site-packages of their own. Entry points: `Installation`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from pathlib import Path

import treadle
from tests.fork_server import ForkServer, fits

SOURCE = Path(treadle.__file__).parents[1]


_OF_COMMANDS = (
    "anyio._backends._asyncio",
    "treadle.agents.coding",
    "treadle.agents.definitions.catalog",
    "treadle.cli.app",
    "treadle.cli.doctor",
    "treadle.cli.run",
    "treadle.journal.sqlite",
    "treadle.runtime.runtime",
)


class Installation:
    """A virtual environment in `folder`."""

    def __init__(self, folder: Path, *, forks: bool = False) -> None:
        """`forks`: `run` forks from a process of its interpreter, which begins with the first
        command, after all that was installed, and ends with `close`.
        """
        self._forks = forks
        self._server: ForkServer | None = None
        venv.create(folder, symlinks=os.name != "nt", with_pip=False)
        base = {"base": str(folder), "platbase": str(folder)}
        self.site = Path(sysconfig.get_path("purelib", "venv", vars=base))
        self.python = Path(sysconfig.get_path("scripts", "venv", vars=base)) / "python"
        others = [
            path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")
        ]
        (self.site / "seen.pth").write_text("\n".join([str(SOURCE), *others]))

    def add(
        self,
        package: str,
        points: Mapping[str, str],
        modules: Mapping[str, str],
        *,
        version: str = "1.0",
        into: Path | None = None,
    ) -> None:
        """Install a distribution. `points`: values by `kind.name`; `modules`: texts by name."""
        site = into or self.site
        info = site / f"{package.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
        )
        (info / "entry_points.txt").write_text(
            "".join(
                f"[treadle.{point.partition('.')[0]}]\n{point.partition('.')[2]} = {value}\n"
                for point, value in points.items()
            )
        )
        for name, text in modules.items():
            (site / f"{name}.py").write_text(text)

    def run(
        self, *arguments: str, cwd: Path, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `treadle` in it, without keys and with a home in `cwd`."""
        if not self._forks or not fits(environment or {}):
            return self.start(*arguments, cwd=cwd, environment=environment)
        if self._server is None:
            self._server = ForkServer(
                self._environment(self.site, {}), arguments=_OF_COMMANDS, python=self.python
            )
        code, out, err = self._server.run(
            arguments,
            cwd=cwd,
            environment=self._environment(cwd, environment or {}),
            stdin=None,
            timeout_s=_TIMEOUT_S,
        )
        return subprocess.CompletedProcess(arguments, code, out.decode(), err.decode())

    def start(
        self, *arguments: str, cwd: Path, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `treadle` as `run` does, in an interpreter that begins with it."""
        return self.execute("-m", "treadle", *arguments, cwd=cwd, environment=environment)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def execute(
        self, *arguments: str, cwd: Path, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.python, *arguments],
            cwd=cwd,
            env=self._environment(cwd, environment or {}),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )

    @staticmethod
    def _environment(cwd: Path, more: Mapping[str, str]) -> dict[str, str]:
        inherited = {key: value for key, value in os.environ.items() if key in _INHERITED}
        return {**inherited, "TREADLE_HOME": str(cwd / "home"), **more}


_TIMEOUT_S = 150
_INHERITED = ("PATH", "LANG", "TMPDIR", "SYSTEMROOT")
