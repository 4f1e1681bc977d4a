"""Lower bounds of pyproject.toml that a run with the oldest versions does not reach:

    python -m tests.lowest PINS

PINS is what `make lowest` resolved. A bound below the resolved version is one that no test has
seen, since a requirement of another package raises it. pytest does not collect this file.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
_BOUND = re.compile(r"([a-z0-9-]+)(?:\[[a-z,]+\])?>=([0-9a-z.]+)")
_PIN = re.compile(r"(?m)^([a-z0-9-]+)(?:\[[a-z,]+\])?==([0-9a-z.]+)")


def bounds(project: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name and the lower bound of each requirement of this Python, those of extras and of
    the group `dev` included.
    """
    of_extras = project["project"]["optional-dependencies"].values()
    for requirement in (
        *project["project"]["dependencies"],
        *(each for extra in of_extras for each in extra),
        *project["dependency-groups"]["dev"],
    ):
        marker = Requirement(requirement).marker
        if not requirement.startswith("treadle[") and (marker is None or marker.evaluate()):
            found = _BOUND.match(requirement)
            if found is None:
                raise ValueError(f"{requirement}: a requirement needs a lower bound")
            yield found[1], found[2]


def untried(project: Mapping[str, Any], pins: str) -> list[str]:
    """Return a sentence for each bound that is below the resolved version."""
    resolved = dict(_PIN.findall(pins))
    return sorted(
        {
            f"{name}>={bound}: the oldest version that resolves is {resolved.get(name)}"
            for name, bound in bounds(project)
            if _plain(bound) != _plain(resolved.get(name, ""))
        }
    )


def _plain(version: str) -> str:
    """Drop trailing zeros: 25.1 is 25.1.0."""
    return re.sub(r"(?:\.0)+$", "", version)


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    sys.exit("\n".join(untried(project, Path(sys.argv[1]).read_text(encoding="utf-8"))) or None)
