"""What a person says about calls, as options say it: CALL, CALL=TEXT. Entry: `answers`."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.cli.exits import Failed


def texts(option: str, given: Sequence[str]) -> dict[str, str]:
    """CALL=TEXT for each call. Raises Failed where there is no `=`, or a call stands there twice."""
    for said in given:
        if "=" not in said:
            raise Failed(f"{option} {said!r}: write CALL=TEXT, the id of a call and what it gave")
    return _by_call(option, given)


def reasons(option: str, given: Sequence[str]) -> dict[str, str]:
    """CALL or CALL=REASON for each call."""
    return _by_call(option, given)


def _by_call(option: str, given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for said in given:
        call_id, _, text = said.partition("=")
        if not call_id:
            raise Failed(f"{option} {said!r} names no call")
        if call_id in found:
            raise Failed(f"{option} names the call {call_id!r} twice")
        found[call_id] = text
    return found


def check_once(**said: Sequence[str] | dict[str, str]) -> None:
    """Raises Failed where two options say something of one call."""
    seen: dict[str, str] = {}
    for option, calls in said.items():
        for call_id in calls:
            if (other := seen.setdefault(call_id, option)) != option:
                raise Failed(f"--{other} and --{option} both name the call {call_id!r}: say one thing about it")
