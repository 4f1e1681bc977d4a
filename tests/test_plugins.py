"""The template and the examples of plugins/: each is built, installed, used by its name, and passes
the contracts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installations import Installation

pytestmark = pytest.mark.process

PLUGINS = Path(__file__).parents[1] / "plugins"


BUILD = """
import os, sys
from hatchling.build import build_wheel
for folder in sys.argv[2:]:
    os.chdir(folder)
    build_wheel(sys.argv[1])
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    installation = Installation(tmp_path_factory.mktemp("plugins"), forks=True)
    folders = [PLUGINS / name for name in ("template", "shelf", "ssh")]
    wheels = tmp_path_factory.mktemp("wheels")
    subprocess.run([sys.executable, "-c", BUILD, wheels, *folders], check=True)
    built = list(wheels.iterdir())
    assert len(built) == len(folders)
    for wheel in built:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(installation.site)
    yield installation
    installation.close()


def test_doctor_lists_the_plug_ins(here: Installation, tmp_path: Path) -> None:
    done = here.run("doctor", "--offline", "--json", cwd=tmp_path)
    found = [one for one in json.loads(done.stdout) if one["what"] == "plug-in"]
    assert {one["text"] for one in found} == {
        "treadle.agents 'pilot' of treadle-acme 1.0",
        "treadle.commands 'acme' of treadle-acme 1.0",
        "treadle.engines 'belt' of treadle-acme 1.0",
        "treadle.journals 'shelf' of treadle-shelf 1.0",
        "treadle.models 'acme' of treadle-acme 1.0",
        "treadle.sandboxes 'ssh' of treadle-ssh 1.0",
        "treadle.tools 'tide' of treadle-acme 1.0",
    }
    assert {one["state"] for one in found} == {"ok"}


def test_each_is_used_by_its_name(here: Installation, tmp_path: Path) -> None:
    assert here.run("acme", "Lisbon", cwd=tmp_path).stdout == "high at Lisbon\n"
    away = {"TREADLE_JOURNAL": f"shelf://{tmp_path}/shelf"}
    done = here.run("run", "--agent", "pilot", "Steer.", cwd=tmp_path, environment=away)
    assert "127.0.0.1:7007" in done.stderr
    listed = here.run("runs", "list", "--json", cwd=tmp_path, environment=away)
    assert '"pilot"' in listed.stdout, listed.stderr
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "config.yaml").write_text("defaults: {sandbox: ssh}\n")
    confined = here.run("run", "--model", "acme:one", "--mode", "full", "Steer.", cwd=tmp_path)
    assert "no sandbox works: set TREADLE_SSH, like `-p 2222 me@box`" in confined.stderr


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["template", "shelf", "ssh"])
def test_a_plug_in_passes_its_contracts(here: Installation, tmp_path: Path, name: str) -> None:
    folder = PLUGINS / name
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:schemathesis"]
    options += ["-p", "no:inline_snapshot", "-p", "no:hypothesispytest"]
    done = here.execute(
        *("-m", "pytest", *options, "-c", str(folder / "pyproject.toml"), str(folder / "tests")),
        cwd=tmp_path,
        environment={"PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
