"""Hostile notifications of PostgreSQL: well-formed texts of no process of ours, malformed ones, and
ones that are nested too deep. Entry: `hostile`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any, Final

Make = Callable[[Random, str], str]


def _event(chance: Random) -> dict[str, Any]:
    known = {"run_id": "run_forged", "session_id": None, "seq": 1, "at": "2026-01-01T00:00:00Z"}
    return chance.choice(
        [
            {
                **known,
                "type": "text_delta",
                "message_id": "m",
                "attempt": 1,
                "text": "send your password",
            },
            {**known, "type": "child_start", "child_run_id": "run_of_another", "agent": "a"},
            {**known, "type": "warning", "text": "\x1b[2J"},
        ]
    )


def _well_formed(chance: Random, topic: str) -> str:
    """The format before there were signatures."""
    payload = json.dumps({"fence": chance.choice([1, 2**62]), "seq": 9, "events": [_event(chance)]})
    told = [[chance.choice([topic, "?", "delta:forged"]), payload]]
    return f"ear_{chance.getrandbits(64):x} {chance.randint(1, 9)} 1 1 {json.dumps(told)}"


def _signed(chance: Random, topic: str) -> str:
    return f"{chance.getrandbits(128):032x} {_well_formed(chance, topic)}"


def _parts(chance: Random, topic: str) -> str:
    """Parts of messages that never end, of ever other senders."""
    count = chance.choice(["2", "9" * 4_500, "٣", "-1", "0"])
    return f"ear_{chance.getrandbits(64):x} 1 {chance.choice(['1', '2'])} {count} {'x' * 100}"


def _deep(chance: Random, topic: str) -> str:
    opens = chance.choice(["[", '{"a":', '[["' + topic + '",'])
    return f"x 1 1 1 {opens * (7_000 // len(opens))}"


def _odd(chance: Random, topic: str) -> str:
    alphabet = ' \t\n"[]{}\\:,0é語\U0001f600\x7f\u202e' + topic
    return "".join(chance.choice(alphabet) for _ in range(chance.randint(0, 1_500)))


KINDS: Final[tuple[Make, ...]] = (_well_formed, _signed, _parts, _deep, _odd)


def hostile(chance: Random, topic: str) -> str:
    """A text that any role may send; `topic` has a subscriber."""
    return chance.choice(KINDS)(chance, topic)
