"""What was found about a call becomes an answer: the whole table, and the strictest of several
findings with its reason.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.policy.decision import (
    MODES,
    STRICTNESS,
    CallFinding,
    FindingKind,
    Settled,
    Verdict,
    settle,
)
from treadle.types import Mode

LETTERS: dict[str, Verdict] = {"a": "allow", "c": "contained", "?": "ask", "d": "deny"}
TABLE = """
                plan  ask  accept-edits  full
READS           a     a    a             a
HELD            c     c    c             a
PERMITTED       d     c    c             a
GRANTED         d     a    a             a
EDITS           d     ?    a             a
SHELL_EDITS     d     ?    c             a
READS_BEYOND    ?     ?    ?             a
PARTLY_ASKED    c     c    c             c
PARTLY_DENIED   c     c    c             c
CONNECTS        ?     ?    ?             a
UNSURE          d     ?    ?             a
NEEDS_A_PERSON  ?     ?    ?             ?
FORBIDDEN       d     d    d             d
""".strip("\n").split("\n")
ROWS = [
    (FindingKind[line.split()[0]], mode, LETTERS[letter])
    for line in TABLE[1:]
    for mode, letter in zip(TABLE[0].split(), line.split()[1:], strict=True)
]


@pytest.mark.parametrize(
    ("kind", "mode", "verdict"), [pytest.param(*row, id=f"{row[0].name}-{row[1]}") for row in ROWS]
)
def test_each_kind_has_one_answer_in_each_mode(
    kind: FindingKind, mode: Mode, verdict: Verdict
) -> None:
    assert settle([CallFinding(kind, "why")], mode) == Settled(verdict, "why")


def test_the_table_is_whole() -> None:
    assert {(kind, mode) for kind, mode, _ in ROWS} == {
        (kind, mode) for kind in FindingKind for mode in MODES
    }


def test_nothing_found_is_nothing_done() -> None:
    assert settle([], "plan") == Settled("allow", "")


FINDINGS = st.lists(
    st.builds(
        CallFinding, st.sampled_from(FindingKind), st.sampled_from(["", "one", "two", "three"])
    ),
    max_size=6,
)


@given(findings=FINDINGS, mode=st.sampled_from(MODES))
def test_the_strictest_counts_and_the_first_reason_that_is_given_for_it(
    findings: list[CallFinding], mode: Mode
) -> None:
    answers = [(settle([finding], mode).verdict, finding.why) for finding in findings]
    strictest = STRICTNESS[max((STRICTNESS.index(verdict) for verdict, _ in answers), default=0)]
    reasons = [why for verdict, why in answers if verdict == strictest and why]
    assert settle(findings, mode) == Settled(strictest, reasons[0] if reasons else "")
