"""The lock files: everything that the documents, the image and the peers install is named there by
hash, and no index is.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.lowest import bounds, untried

ROOT = Path(__file__).resolve().parents[1]
LOCKS = (
    "requirements.lock",
    "tests/peers/requirements.lock",
    ".github/release.lock",
    "tests/peers/celery.lock",
    ".ci/requirements.lock",
)
COMPILED = dict(zip(LOCKS, ("aiohttp", "numpy", "lxml", "wcwidth", "uv"), strict=True))
"""A package of each lock with a wheel for each system and each Python."""
NODE_LOCK = ROOT / "tests/peers/package-lock.json"
WORKFLOWS = (".github/workflows/checks.yml", ".github/workflows/release.yml")
INSTALL = re.compile(r"\bpip (?:install|wheel|download)\b[^&|\n]*")
OFFLINE_OR_OWN = ("--no-deps", "--no-index", "treadle-*.whl")
"""Installs that fetch nothing, and that of the wheel as a user gets it."""


def pins(name: str) -> dict[str, str]:
    """Each requirement with its continuation lines."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    return {
        re.split(r"[=\s;]", line, maxsplit=1)[0]: line for line in text.splitlines() if line.strip()
    }


def named(requirement: str) -> str:
    return re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_is_pinned_by_hash_and_no_index_is_named(name: str) -> None:
    for line in pins(name).values():
        assert re.match(r"[a-z0-9.-]+(?:\[[a-z,]+\])?==\S+ ", line), line
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", line), line
    assert not re.search(
        r"https?://|index-url|find-links", (ROOT / name).read_text(encoding="utf-8")
    )


@pytest.mark.parametrize("name", LOCKS)
def test_a_pin_has_the_hash_of_more_than_the_wheel_of_one_machine(name: str) -> None:
    assert pins(name)[COMPILED[name]].count("--hash=") > 10


def test_what_the_project_needs_is_in_the_lock() -> None:
    said = project()
    wanted = [
        *said["project"]["dependencies"],
        *said["dependency-groups"]["dev"],
        *said["build-system"]["requires"],
    ]
    wanted += [
        each
        for extra in ("service", "postgres", "cli", "coding")
        for each in said["project"]["optional-dependencies"][extra]
        if named(each) != "treadle"
    ]
    assert {named(each) for each in wanted} <= set(pins("requirements.lock"))
    for group, lock in zip(("peers", "release", "celery", "ci"), LOCKS[1:], strict=True):
        assert {named(each) for each in said["dependency-groups"][group]} <= set(pins(lock))


@pytest.mark.parametrize("name", LOCKS[1:3])
def test_two_locks_pin_one_version(name: str) -> None:
    """Except that of celery, which is installed into a folder of its own."""
    ours, theirs = pins(LOCKS[0]), pins(name)
    for name in ours.keys() & theirs.keys():
        assert ours[name].split()[0] == theirs[name].split()[0]


def test_node_packages_are_pinned_by_integrity_and_no_address_is_named() -> None:
    text = NODE_LOCK.read_text(encoding="utf-8")
    assert not re.search(r"https?://", text)
    packages = json.loads(text)["packages"]
    assert (
        packages[""]["dependencies"]
        == json.loads((NODE_LOCK.parent / "package.json").read_text(encoding="utf-8"))[
            "dependencies"
        ]
    )
    assert [
        place
        for place, package in packages.items()
        if place and not package.get("inBundle") and not package.get("integrity")
    ] == []


@pytest.mark.parametrize(
    "name", ["README.md", "CONTRIBUTING.md", ".ci/run", "deploy/Dockerfile", "Makefile", *WORKFLOWS]
)
def test_what_is_fetched_is_checked_against_a_lock(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    installs = [found[0] for found in INSTALL.finditer(text)]
    assert installs
    for install in installs:
        assert "--require-hashes" in install or any(each in install for each in OFFLINE_OR_OWN), (
            install
        )
        if "--require-hashes" in install and "--no-binary" not in install:
            assert "--only-binary=:all:" in install, (
                f"{install}: where no wheel fits, it builds a source package with what no hash names"
            )
        if "--no-deps" in install:
            assert "--no-build-isolation" in install, (
                f"{install}: fetches what builds it without a hash"
            )
    for install in re.findall(r"npm (?:ci|install)\b[^\n]*", text):
        assert "$(NPM)" in install
    if name == "Makefile":
        assert re.search(r"(?m)^NPM := .*--ignore-scripts", text)


def test_the_locks_are_written_with_hashes() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"(?m)^COMPILE := .*--generate-hashes", text)
    assert text.count("$(COMPILE)") == len(LOCKS)


# ---------------------------------------------------------------- lower bounds


def test_every_requirement_has_a_lower_bound() -> None:
    assert len([*bounds(project())]) > 50


def test_a_bound_below_the_oldest_version_that_resolves_is_found() -> None:
    requirements = {
        "project": {"dependencies": ["a>=1.0", "b>=2.1"], "optional-dependencies": {"c": ["c>=3"]}},
        "dependency-groups": {"dev": ["d[x]>=4,<5"]},
    }
    pins = "a==1.0.0 \\\n    --hash=sha256:0\nb==2.1\nc==3.1\nd[x]==4.0.0\n"
    assert untried(requirements, pins) == ["c>=3: the oldest version that resolves is 3.1"]


def test_a_requirement_without_a_lower_bound_is_refused() -> None:
    requirements: dict[str, Any] = {
        "project": {"dependencies": ["a"], "optional-dependencies": {}},
        "dependency-groups": {"dev": []},
    }
    with pytest.raises(ValueError, match="a: a requirement needs a lower bound"):
        untried(requirements, "a==1\n")
