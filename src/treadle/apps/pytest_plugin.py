"""Pytest fixtures for agents: scripts that must be used completely, transcripts that must not
change, and no request to a real model by accident.

Pytest loads this automatically if Treadle is installed. Entry points: the fixtures `scripted`,
`run_snapshot` and `no_real_models`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

if TYPE_CHECKING:
    from treadle.messages.result import RunResult
    from treadle.models.model import ModelRequest
    from treadle.testing import Entry, ScriptedModel

    Script: TypeAlias = Sequence[Entry] | Callable[[ModelRequest], Entry]

_REAL = "treadle_real_models"
_UPDATE = "--update-runs"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--update-runs` and the setting `treadle_real_models`."""
    group = parser.getgroup("treadle")
    group.addoption(_UPDATE, action="store_true", help="write the files of run_snapshot again")
    parser.addini(_REAL, "false: no test may send a request to a provider", "bool", default=True)


@pytest.fixture
def no_real_models() -> Iterator[None]:
    """Refuse every request to a provider that is not on this machine."""
    from treadle.testing import no_real_models as refused  # noqa: PLC0415  only tests that use it pay for the import

    with refused():
        yield


@pytest.fixture(autouse=True)
def _treadle_real_models(request: pytest.FixtureRequest) -> None:
    if not request.config.getini(_REAL):
        request.getfixturevalue("no_real_models")


@pytest.fixture
def scripted() -> Iterator[Callable[[Script], ScriptedModel]]:
    """Return a function that creates a ScriptedModel from a script; the test fails if entries are
    unused.
    """
    from treadle.testing import ScriptedModel  # noqa: PLC0415  as above

    made: list[ScriptedModel] = []

    def make(entries: Script) -> ScriptedModel:
        made.append(ScriptedModel(entries))
        return made[-1]

    yield make
    for model in made:
        model.check_used()


@pytest.fixture
def run_snapshot(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return a function that compares a run with its transcript of an earlier test run.

    The transcript of `run_snapshot(result)` is `run_snapshots/MODULE/TEST.json` next to the test;
    `run_snapshot(result, "name")` adds a name, for several runs in one test. With `--update-runs`
    it is written instead.
    """
    from treadle.testing import transcript  # noqa: PLC0415  as above

    path, update = Path(request.path), request.config.getoption(_UPDATE)
    test = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")

    def compare(result: RunResult[Any], name: str = "") -> None:
        file = path.parent / "run_snapshots" / path.stem / f"{test}{name and '.'}{name}.json"
        now = transcript(result)
        if update:
            file.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(now, ensure_ascii=False, indent=2) + "\n"
            file.write_text(text, encoding="utf-8")
        elif not file.exists():
            pytest.fail(f"no transcript {file}: run pytest {_UPDATE} and read what it wrote")
        else:
            assert now == json.loads(file.read_text(encoding="utf-8")), (
                f"the run differs from {file}; if it should, run pytest {_UPDATE}"
            )

    return compare
