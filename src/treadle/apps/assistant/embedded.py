"""Rule-based model that needs no key. It parses the task language and calls the task tools like any
other model.

It has no network, no state, and no clock except the given date. Parsing is in language/; replies
are composed from the tools' results. Entry point: `EmbeddedModel`.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, cast

from treadle.apps.assistant.acts import LISTED_MOST
from treadle.apps.assistant.language import understood
from treadle.apps.assistant.language.acting import (
    KnownTask,
    PlannedCall,
    TooManyTasks,
    calls_of,
    listing,
    looks,
)
from treadle.apps.assistant.language.conversation import Speech
from treadle.apps.assistant.language.wishes import Filter, Say, TaskChange, Wish
from treadle.apps.assistant.replies import UNCLEAR
from treadle.messages.message import Message, ToolCall, ToolResult
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    Model,
    ModelRequest,
    PartEnd,
    ResponseEnd,
    TextDelta,
    ToolCallStart,
)
from treadle.types import StopReason, Usage, new_id

NAME = "embedded:tasks"
DONE = "- Done."
"""Text after the tools' results, needed because an empty response would be requested again.

As a list item it is never shown (words.py).
"""
NONE_MEANT = "There's no such task on your list."
_CHARS_OF_A_TOKEN = 4
_TODAY = re.compile(
    r"\bToday is (?:[A-Z][a-z]+day, )?(20\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d))\b"
)


class EmbeddedModel:
    """Model that answers the person's last message; the same request produces the same calls.

    Safe to share: no state between requests.
    """

    def __init__(self, *, today: Callable[[], date] | None = None) -> None:
        """Create a model. `today`: returns the person's date, from which "tomorrow" is counted.
        Defaults to the date in the request ("Today is …"), or else the machine's.
        """
        self._today = today

    @property
    def name(self) -> str:
        return NAME

    @property
    def refuses(self) -> frozenset[str]:
        return frozenset({"images"})

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        answer = self._answer(request)
        calls = answer if isinstance(answer, list) else []
        written = 0
        for call in calls:
            arguments = json.dumps(call.arguments, ensure_ascii=False)
            written += len(arguments) + len(call.tool)
            yield ToolCallStart(new_id("call"), call.tool)
            yield ArgumentsDelta(arguments)
            yield PartEnd()
        if isinstance(answer, str):
            written = len(answer)
            yield TextDelta(answer)
        heard = sum(len(message.text) for message in request.messages)
        usage = Usage(
            input_tokens=heard // _CHARS_OF_A_TOKEN, output_tokens=written // _CHARS_OF_A_TOKEN + 1
        )
        stop = StopReason.TOOL_USE if calls else StopReason.COMPLETE
        yield ResponseEnd(
            stop_reason=stop,
            usage=usage,
            raw_stop_reason=stop.value,
            id=new_id("resp"),
            model="tasks",
        )

    def _answer(self, request: ModelRequest) -> list[PlannedCall] | str:
        """Return the calls for a request, or a text reply."""
        said, asked, done = _told(request.messages)
        wishes = understood(
            asked,
            self._today() if self._today is not None else _day_told(request) or date.today(),
            said=said,
        )
        if (first := wishes[0]) and isinstance(first, Say):
            return first.text
        if done and (not looks(wishes) or any(call.name != "list_tasks" for call, _ in done)):
            return DONE
        return _next_calls(wishes, done) if request.tools else DONE


def _next_calls(
    wishes: Sequence[Wish], done: Sequence[tuple[ToolCall, ToolResult]]
) -> list[PlannedCall] | str:
    wanted = looks(wishes)
    if wanted and not done:
        return [listing(look) for look in wanted]
    try:
        calls = calls_of(wishes, _seen(wanted, done))
    except TooManyTasks as e:
        return _too_many(e.args[0], wishes)
    except ValueError:
        return "I couldn't look at your list. Please try again."
    return calls or (
        UNCLEAR
        if any(isinstance(wish, TaskChange) and (wish.unsure or wish.answers) for wish in wishes)
        else NONE_MEANT
    )


def _too_many(count: int, wishes: Sequence[Wish]) -> str:
    """Return a reply that refuses too many calls, and suggests a workaround if there is one."""
    everything = Filter(), Filter("open")
    deleted = [
        wish.target for wish in wishes if isinstance(wish, TaskChange) and wish.doing == "delete"
    ]
    empties = any(target in everything for target in deleted)
    way = (
        'To empty your list say "complete all", and then "clear completed".'
        if empties
        else "Please name fewer of them."
    )
    many = f"{count}" if count < LISTED_MOST else f"{count} or more"
    return f"That would change {many} tasks at once, and I can change nine in one message. {way}"


def _day_told(request: ModelRequest) -> date | None:
    for block in request.system:
        if (told := _TODAY.search(block.text)) is not None:
            return date.fromisoformat(told[1])
    return None


def _told(
    messages: Sequence[Message],
) -> tuple[list[Speech], str, list[tuple[ToolCall, ToolResult]]]:
    """Return the earlier conversation, the person's last message, and this run's calls with their
    results.
    """
    last = max(
        (
            i
            for i, message in enumerate(messages)
            if message.role == "user" and message.text.strip()
        ),
        default=-1,
    )
    said: list[Speech] = [
        (m.role, m.text)
        for m in messages[: max(last, 0)]
        if m.role in ("user", "assistant") and m.text.strip()
    ]
    calls: dict[str, ToolCall] = {}
    done: list[tuple[ToolCall, ToolResult]] = []
    for message in messages[last + 1 :]:
        for part in message.parts:
            if isinstance(part, ToolCall):
                calls[part.id] = part
            elif isinstance(part, ToolResult) and part.call_id in calls:
                done.append((calls[part.call_id], part))
    return said, messages[last].text if last >= 0 else "", done


def _seen(
    wanted: Sequence[Filter], done: Sequence[tuple[ToolCall, ToolResult]]
) -> dict[Filter, list[KnownTask]]:
    """Return the tasks found by the lookups. Raises ValueError if one failed."""
    seen: dict[Filter, list[KnownTask]] = {}
    for look, (_, result) in zip(wanted, done, strict=False):
        seen[look] = _tasks(json.loads(result.text))
    return seen


def _tasks(answer: object) -> list[KnownTask]:
    """Return the tasks of a result. Raises ValueError if it has no list of tasks."""
    data = cast("Mapping[str, Any]", answer).get("data") if isinstance(answer, dict) else None
    rows = cast("Mapping[str, Any]", data).get("tasks") if isinstance(data, dict) else data
    if not isinstance(rows, list):
        raise ValueError("no list of tasks")
    found = [
        cast("Mapping[str, Any]", row)
        for row in cast("list[object]", rows)
        if isinstance(row, dict)
    ]
    return [
        KnownTask(
            str(row.get("id") or row.get("title", "")),
            str(row.get("title", "")),
            bool(row.get("completed")),
        )
        for row in found
    ]


if TYPE_CHECKING:
    _: type[Model] = EmbeddedModel
