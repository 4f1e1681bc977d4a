"""A command that is started in a hostile folder imports nothing from it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.conftest import Cli
from tests.cli.conftest import cli as cli


@pytest.mark.parametrize(
    "name",
    ["click", "msgspec", "yaml", "anyio", "treadle_plugin", "__future__", "typing", "re", "json"],
)
def test_python_m_imports_no_module_of_the_current_directory(cli: Cli, name: str) -> None:
    """C10."""
    (cli.workspace / f"{name}.py").write_text("import sys; sys.exit('imported from the folder')")
    done = subprocess.run(
        [sys.executable, "-m", "treadle", "config", "path"],
        cwd=cli.workspace,
        env=cli.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "imported from the folder" in done.stderr) == (0, False), done.stderr
