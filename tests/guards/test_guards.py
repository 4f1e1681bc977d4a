"""The list of guards does not rot: what it breaks stands where it says, and the tests that must
notice are there. `make guards` breaks them.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.guards.catalogue import ROOT, Guard, guards, standing, text_of_tests


@pytest.mark.parametrize("guard", guards(), ids=lambda guard: guard.name)
def test_a_guard_stands_once_in_its_file_and_its_tests_are_there(guard: Guard) -> None:
    for one in guard.breaks:
        assert standing(one, ROOT) == 1, (
            f"guards.toml: {one.text!r} must stand once in {one.file}; say there how it reads now, then: make guards"
        )
        assert one.text != one.broken
    assert guard.tests
    for test in guard.tests:
        file, _, name = test.partition("::")
        text = text_of_tests(ROOT / file)
        assert not name or re.search(
            rf"^(?:async )?def {re.escape(name.partition('[')[0])}\(", text, re.MULTILINE
        ), test


def test_each_guard_has_a_name_of_its_own() -> None:
    assert [
        name for name, times in Counter(guard.name for guard in guards()).items() if times > 1
    ] == []


def test_the_guards_that_the_security_review_names_are_there() -> None:
    text = (ROOT / "docs/internals/security-review.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (?:[ABC]\d.*|-) \|.* \| (.*) \|$", text.partition("## Latency")[0], re.MULTILINE
    )
    known = {guard.name for guard in guards()}
    assert len(rows) > 40
    assert [name for row in rows for name in row.split("; ") if name not in known] == []
