"""The files of deploy/ say what is true: commands, options and variables that are there.

No image is built and no unit is started here.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from treadle.cli.serve import serve
from treadle.config import load

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"


def options_of_serve() -> set[str]:
    return {option for parameter in serve.params for option in parameter.opts}


def compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["Dockerfile", "treadle.service"])
def test_serve_is_started_with_options_that_are_there(name: str) -> None:
    text = (DEPLOY / name).read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith(("ENTRYPOINT", "ExecStart")))
    assert "serve" in line
    assert set(re.findall(r"--[a-z-]+", line)) <= options_of_serve()


def test_the_image_installs_extras_that_are_there_and_runs_as_nobody_special() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for extra in {
        name for names in re.findall(r"\[([a-z,]+)\]'", text) for name in names.split(",")
    }:
        assert re.search(rf"(?m)^{extra} = \[", pyproject), extra
    assert re.search(r"(?m)^USER treadle$", text)
    assert text.index("USER treadle") < text.index("ENTRYPOINT")


def test_the_configuration_beside_the_compose_file_is_one(tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "config.yaml", tmp_path / "config.yaml")
    (tmp_path / "config.yaml").chmod(0o600)
    config = load({"TREADLE_HOME": str(tmp_path)}, cwd=tmp_path)
    assert config.service.hosts
    assert config.warnings == ()


def test_the_compose_file_waits_for_its_database_and_says_how_to_reach_it() -> None:
    services = compose()["services"]
    assert services["treadle"]["depends_on"]["database"]["condition"] == "service_healthy"
    assert services["treadle"]["environment"]["TREADLE_DATABASE"].startswith(
        "postgresql://treadle:"
    )
    assert all(port.startswith("127.0.0.1:") for port in services["treadle"]["ports"])
    assert (ROOT / services["treadle"]["build"]["dockerfile"]).is_file()


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "treadle.service"
    unit.write_text(
        (DEPLOY / "treadle.service")
        .read_text(encoding="utf-8")
        .replace("/opt/treadle/bin/treadle", "/bin/true"),
        encoding="utf-8",
    )
    told = subprocess.run(
        ["systemd-analyze", "verify", str(unit)],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert told.returncode == 0, told.stderr
    assert "treadle.service" not in told.stderr
