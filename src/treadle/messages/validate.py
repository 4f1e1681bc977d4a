"""Validation and repair of histories from other sources.

Histories of runs are valid by construction (loop/calls.py) and are never repaired. Entry points:
`check_history`, `repair_history`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from treadle.messages.message import Message, Part, Role, ToolCall, ToolResult

LOST = (
    "The result of this call was lost. It is unknown whether it took effect: check before you do "
    "it again."
)


def check_history(messages: Sequence[Message]) -> list[str]:
    """Return a description of every problem, with index and id of the message. Empty for a valid
    history.

    In a valid history, only assistant messages contain tool calls, and call ids are unique. A tool
    message directly follows each of them and begins with one result per call, in order. There are
    no other results and no other tool messages.
    """
    return [
        f"message {i} ({messages[i].id!r}): {what}"
        for i, what in sorted(_problems(messages, _Pairs(messages)), key=lambda problem: problem[0])
    ]


def repair_history(messages: Sequence[Message]) -> list[Message]:
    """Return a valid history with the same content. Pure and idempotent; never raises.

    - A misplaced result moves to its place, directly after its call's message. If a call has
      several results, the first is kept.
    - A call without a result gets one that reports it as lost: an error, and unknown.
    - A call that repeats an earlier id gets `id_2`, `id_3`, …, and so does its result.
    - Calls outside assistant messages move to a new assistant message after the original one. A
      tool message without results becomes a user message.
    - A result without a call is dropped; usually truncation removed the call. As a user message,
      the tool's output would gain the user's authority. An invented call would show the model
      arguments to imitate.

    Unchanged messages are the same objects. Changed ones keep their id and time, but lose fields of
    a newer version, as in `Message.with_parts`. New ones have the preceding message's time, and an
    id derived from it (`…_calls`, `…_results`).
    """
    return list(_Repair(messages).messages()) if check_history(messages) else list(messages)


# ---------------------------------------------------------------- results by call


class _Place(NamedTuple):
    message: int
    part: int


class _Pairs:
    """Pairing of results with calls.

    A result belongs to a preceding call with its id. Some models number their calls from 1 in every
    response; if several calls share the id, the result belongs to the last group of consecutive
    assistant messages that uses it. A result that precedes all calls with its id, as in histories
    sorted by time, belongs to the first of them that has no other result.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self.calls: dict[_Place, ToolCall] = {}
        self.results: dict[_Place, ToolResult] = {}
        self.answers: dict[_Place, _Place] = {}
        """Results that belong to each call."""
        self._waiting: dict[str, deque[_Place]] = {}
        self._early: dict[str, deque[_Place]] = {}
        self._last_row: dict[str, int] = {}
        """Number of the last group of consecutive assistant messages that used an id."""
        row = 0
        for i, message in enumerate(messages):
            row += message.role != "assistant"
            for k, part in enumerate(message.parts):
                if isinstance(part, ToolCall):
                    self._ask(_Place(i, k), part, row)
                elif isinstance(part, ToolResult):
                    self._answer(_Place(i, k), part)
        for place, call in self.calls.items():
            if place not in self.answers and (early := self._early.get(call.id)):
                self.answers[place] = early.popleft()

    def _ask(self, place: _Place, call: ToolCall, row: int) -> None:
        self.calls[place] = call
        if self._last_row.get(call.id) != row:
            self._last_row[call.id], self._waiting[call.id] = row, deque()
        self._waiting[call.id].append(place)

    def _answer(self, place: _Place, result: ToolResult) -> None:
        self.results[place] = result
        waiting = self._waiting.get(result.call_id)
        if waiting is None:
            self._early.setdefault(result.call_id, deque()).append(place)
        elif waiting:
            self.answers[waiting.popleft()] = place


# ---------------------------------------------------------------- check


def _problems(messages: Sequence[Message], pairs: _Pairs) -> Iterator[tuple[int, str]]:
    """Yield each problem, preceded by the index of its message."""
    first: dict[str, int] = {}
    for place, call in pairs.calls.items():
        i, answer = place.message, pairs.answers.get(place)
        if messages[i].role != "assistant":
            yield (
                i,
                (
                    f"the tool call {call.id!r} is in a message of the role "
                    f"{messages[i].role!r}, not in one of the assistant"
                ),
            )
        if call.id in first:
            yield (
                i,
                (
                    f"a tool call has the id {call.id!r}, which a call of message {first[call.id]} "
                    "has already"
                ),
            )
        first.setdefault(call.id, i)
        if answer is None:
            yield i, f"the tool call {call.id!r} ({call.name!r}) has no result"
        elif answer.message != i + 1 or messages[i + 1].role != "tool":
            yield (
                answer.message,
                (
                    f"the result of the tool call {call.id!r} belongs in a tool message right "
                    f"after message {i}"
                ),
            )
    asked = {result: call for call, result in pairs.answers.items()}
    for place, result in pairs.results.items():
        if place not in asked:
            which = "has one already" if result.call_id in first else "is not in the history"
            yield place.message, f"a result for the tool call {result.call_id!r}, which {which}"
    for i, message in enumerate(messages):
        if message.role == "tool":
            places = [
                _Place(i, k) for k, part in enumerate(message.parts) if isinstance(part, ToolResult)
            ]
            calls = [asked[place] for place in places if place in asked]
            if not places:
                yield i, "a tool message without a result"
            if any(a > b for a, b in pairwise(calls)):
                yield i, "the results are not in the order of their calls"
            if [place.part for place in places] != [*range(len(places))]:
                yield i, "something precedes the results"


# ---------------------------------------------------------------- repair


class _Ids:
    """Deterministic generator of unused ids."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._last: dict[str, int] = {}

    def unused(self, wanted: str) -> str:
        own, again = wanted, self._last.get(wanted, 1)
        while own in self._taken:
            again += 1
            own = f"{wanted}_{again}"
        self._taken.add(own)
        self._last[wanted] = again
        return own


class _Repair:
    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._pairs = _Pairs(messages)
        self._ids = _Ids(message.id for message in messages)
        self._calls = _with_own_ids(self._pairs.calls)
        self._homes = self._found_homes()
        self._moved = set(self._homes.values())

    def _found_homes(self) -> dict[int, int]:
        """Return the message that already holds the results, by the index of the message with the
        calls.
        """
        first: dict[int, int] = {}
        for result, call in sorted((result, call) for call, result in self._pairs.answers.items()):
            first.setdefault(result.message, call.message)
        homes: dict[int, int] = {}
        for answering, asking in first.items():
            message = self._messages[answering]
            if message.role == "tool" or all(
                isinstance(part, ToolResult) for part in message.parts
            ):
                homes.setdefault(asking, answering)
        return homes

    def messages(self) -> Iterator[Message]:
        for i, message in enumerate(self._messages):
            calls = {
                place: self._calls[place]
                for k in range(len(message.parts))
                if (place := _Place(i, k)) in self._calls
            }
            if message.role == "assistant":
                said = tuple(
                    calls.get(_Place(i, k), part)
                    for k, part in enumerate(message.parts)
                    if not isinstance(part, ToolResult)
                )
            else:
                said = () if i in self._moved else _others(message)
            if said or not (message.parts or message.role == "tool"):
                yield _saying(message, "user" if message.role == "tool" else message.role, said)
            if calls and message.role != "assistant":
                message = Message(
                    id=self._ids.unused(f"{message.id}_calls"),
                    role="assistant",
                    parts=tuple(calls.values()),
                    created_at=message.created_at,
                )
                yield message
            if calls:
                yield self._results(message, calls)

    def _results(self, asking: Message, calls: dict[_Place, ToolCall]) -> Message:
        results = [self._result(place, call) for place, call in calls.items()]
        home = self._homes.get(next(iter(calls)).message)
        if home is None:
            return Message(
                id=self._ids.unused(f"{asking.id}_results"),
                role="tool",
                parts=tuple(results),
                created_at=asking.created_at,
            )
        return _saying(self._messages[home], "tool", (*results, *_others(self._messages[home])))

    def _result(self, place: _Place, call: ToolCall) -> ToolResult:
        answer = self._pairs.answers.get(place)
        if answer is None:
            return ToolResult(
                call_id=call.id, name=call.name, content=LOST, is_error=True, unknown=True
            )
        result = self._pairs.results[answer]
        return result if result.call_id == call.id else replace(result, call_id=call.id)


def _with_own_ids(calls: dict[_Place, ToolCall]) -> dict[_Place, ToolCall]:
    ids, seen = _Ids(call.id for call in calls.values()), set[str]()
    own: dict[_Place, ToolCall] = {}
    for place, call in calls.items():
        own[place] = replace(call, id=ids.unused(call.id)) if call.id in seen else call
        seen.add(call.id)
    return own


def _others(message: Message) -> tuple[Part, ...]:
    """Return the parts that are neither calls nor results."""
    return tuple(part for part in message.parts if not isinstance(part, (ToolCall, ToolResult)))


def _saying(message: Message, role: Role, parts: tuple[Part, ...]) -> Message:
    """Return a copy with this role and these parts; the same object if they are unchanged."""
    if (message.role, message.parts) == (role, parts):
        return message
    return Message(id=message.id, role=role, parts=parts, created_at=message.created_at)
