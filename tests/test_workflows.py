"""Workflows and hooks of commits: the files are well formed, run targets of the Makefile, and fetch
no action by a name that can be moved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
HOOKS = ROOT / ".pre-commit-config.yaml"


def read(path: Path) -> dict[Any, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in read(path)["jobs"].values():
        yield from job.get("steps", ())


def targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    checks = re.search(r"(?m)^CHECKS := (.*)$", text)
    assert checks is not None
    return {*re.findall(r"(?m)^([a-z][a-z-]*):", text), *checks[1].split()}


@pytest.mark.parametrize("path", [*WORKFLOWS, HOOKS], ids=lambda path: path.name)
def test_targets_that_are_called_are_in_the_makefile(path: Path) -> None:
    called = set(re.findall(r"\bmake ([a-z][a-z-]*)", path.read_text(encoding="utf-8")))
    assert called
    assert called <= targets()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_an_action_is_pinned_by_its_commit_and_its_version_stands_behind_it(path: Path) -> None:
    for used in re.findall(r"uses: (.*)", path.read_text(encoding="utf-8")):
        assert re.fullmatch(r"\./\S+|[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), used


def test_both_workflows_use_one_version_of_an_action() -> None:
    used: dict[str, set[str]] = {}
    for path in WORKFLOWS:
        for name, commit in re.findall(r"uses: ([\w/-]+)@(\w+)", path.read_text(encoding="utf-8")):
            used.setdefault(name, set()).add(commit)
    assert {name: commits for name, commits in used.items() if len(commits) > 1} == {}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_no_rights_but_to_read_and_each_job_ends(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] in ({}, {"contents": "read"})
    for name, job in workflow["jobs"].items():
        if "uses" in job:
            assert (path.parents[2] / job["uses"]).is_file(), name
        else:
            assert job["timeout-minutes"] <= 75, name
        assert set(job.get("permissions", {})) <= {"contents", "id-token", "attestations"}, name
    for step in steps(path):
        assert ("run" in step) != ("uses" in step), step
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"] == {"persist-credentials": False}
        # what a contributor chooses, as the name of a branch, is never part of a command
        assert "${{ github." not in step.get("run", ""), step


def test_only_the_job_that_publishes_and_the_one_that_signs_get_a_token_of_identity() -> None:
    jobs = read(ROOT / ".github/workflows/release.yml")["jobs"]
    with_token = {name for name, job in jobs.items() if "id-token" in job.get("permissions", {})}
    assert with_token == {"build", "publish"}
    assert jobs["publish"]["environment"] == "release"
    assert all("run" not in step for step in jobs["publish"]["steps"])


def test_the_pythons_that_are_promised_are_tested() -> None:
    classifiers = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    promised = re.findall(r"Programming Language :: Python :: (3\.\d+)", classifiers)
    matrix = read(ROOT / ".github/workflows/checks.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == promised
