"""The part of a run that a chat may see: its live or journaled events filtered for a person, and
the reply.

The reply is composed from tool results (replies.py). The model's own words (words.py) are used only
if no tool was called, or tasks were only listed. Raw messages, raw deltas, reasoning, usage and
technical texts are never passed on. Entry point: `ReplyView`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from treadle._internal.json_text import encode_json
from treadle._internal.log_masking import without_secrets
from treadle._internal.redaction import SECRET_MIN_CHARS
from treadle._internal.secret_patterns import MASK
from treadle.apps.assistant.context import AgentResult, ToolCallRecord
from treadle.apps.assistant.replies import (
    FAILURE,
    NO_MORE,
    UNCLEAR,
    ReplyCall,
    compose,
    response_of,
)
from treadle.apps.assistant.reply_lists import REPLY_CHARS
from treadle.apps.assistant.user_names import may_name_user, names_user
from treadle.apps.assistant.words import ReplyFilter
from treadle.messages import events
from treadle.messages.events import Event
from treadle.messages.message import Message
from treadle.messages.metrics import RunTotals
from treadle.types import Outcome, Usage


class Redacted:
    """Redaction of one user's records."""

    def __init__(self, user_id: str = "") -> None:
        """Create a redactor. `user_id` is redacted unless it is shorter than a secret, and so could
        be an ordinary word.
        """
        self._user_id = (
            user_id if len(user_id) >= SECRET_MIN_CHARS and any(map(str.isdigit, user_id)) else None
        )

    def arguments(self, given: Mapping[str, object] | str) -> Mapping[str, Any]:
        """Return a model's arguments in redacted form; empty if they are not an object."""
        return {} if isinstance(given, str) else self.value(given)

    def value(self, value: Any) -> Any:
        """Return the JSON value without members that name a user and without secrets in its texts;
        the same object if it has none.
        """
        text = encode_json(value).decode()
        suspect = may_name_user(text) or (self._user_id is not None and self._user_id in text)
        # One scan of all texts, because a list may have a thousand.
        return self._inside(value) if suspect or without_secrets(text) != text else value

    def _inside(self, value: Any) -> Any:
        match value:
            case str():
                text = without_secrets(value)
                return text if self._user_id is None else text.replace(self._user_id, MASK)
            case Mapping():
                members = cast("Mapping[str, Any]", value)
                return {
                    self._inside(name): self._inside(item)
                    for name, item in members.items()
                    if not names_user(name)
                }
            case list() | tuple():
                return [self._inside(item) for item in cast("list[Any] | tuple[Any, ...]", value)]
            case _:
                return value


LEAST_LISTED: Final = 250
"""Minimum number of characters for a list next to the model's own words."""
ANSWERED: Final = frozenset(
    {Outcome.COMPLETED, Outcome.CALL_LIMIT, Outcome.TURN_LIMIT, Outcome.TRUNCATED}
)
"""Outcomes with an answer. At a limit on calls or turns, the model has answered once more without
tools.
"""
OTHERWISE: Final = "reply"
"""Kind of a `retry` that retracts text because the reply turned out to be different."""
NOT_DONE: Final = "One step was not done."


class ReplyView:
    """Filter of one run's events, in order, to those that a chat may see.

    The `text_delta`s since the last `retry` are the reply so far, in whole sentences. At `run_end`
    they equal its `text`.
    """

    def __init__(self, user_id: str = "") -> None:
        """Create a view. `user_id` is redacted from all records."""
        self.result: AgentResult | None = None
        """Result of the run; None before `run_end`."""
        self.outcome: Outcome | None = None
        self._clean = Redacted(user_id)
        self._turn = 0
        self._asked: dict[str, tuple[str, Mapping[str, Any], int]] = {}
        """Tool, arguments and turn of each call, by id."""
        self._called: dict[str, ReplyCall] = {}
        self._took: dict[str, int] = {}
        self._refused: set[str] = set()
        self._acted = False
        """True once a tool other than `list_tasks` was requested. The reply is then composed."""
        self._words: ReplyFilter | None = None
        """Text of the current message."""
        self._said = ""
        """Filtered text of the last whole message."""
        self._claimed = False
        self._shown = ""
        """Text of the text_deltas since the last retry."""
        self._message_id, self._attempt = "", 1
        self._number = 0

    def take(self, event: Event) -> Iterator[Event]:
        """Yield the events to show for this one. Each has a `seq` of this view. Exhaust the
        iterator before the next call.
        """
        if event.parent_run_id is not msgspec.UNSET:
            return
        for seen in self._seen(event):
            self._number += 1
            yield replace(seen, seq=self._number)

    def records(self) -> tuple[ToolCallRecord, ...]:
        """Return the calls executed so far."""
        return tuple(self._record(call_id, call) for call_id, call in self._called.items())

    # ------------------------------------------------------------ event by event

    def _seen(self, event: Event) -> Iterator[Event]:
        match event:
            case events.TextDelta():
                yield from self._heard(event)
            case events.TurnStart():
                self._turn = event.turn
            case events.MessageAdded():
                yield from self._message(event)
            case events.Retry():
                self._words, self._shown = None, ""
                yield event
            case events.RunStart():
                yield event
            case events.ErrorRaised():
                yield events.ErrorRaised(
                    run_id=event.run_id,
                    session_id=event.session_id,
                    seq=0,
                    at=event.at,
                    id=event.id,
                    kind=event.kind,
                    message=FAILURE,
                )
            case events.RunEnd():
                yield from self._end(event)
            case _:
                yield from self._tool(event)

    def _tool(self, event: Event) -> Iterator[Event]:
        match event:
            case events.ToolCallAsked():
                arguments = self._clean.arguments(event.arguments)
                self._asked[event.call_id] = event.name, arguments, self._turn
                self._acted |= event.name != "list_tasks"
                yield replace(event, arguments=arguments)
            case events.ToolCallStart():
                yield event
            case events.ToolCallEnd(refused=False):
                response = response_of(event.result)
                name, arguments, turn = self._asked.get(event.call_id, (event.name, {}, self._turn))
                self._called[event.call_id] = ReplyCall(name, arguments, response, turn)
                self._took[event.call_id] = round(event.duration_ms)
                yield replace(event, result=encode_json(response).decode())
            case events.Warned() if event.call_id is not msgspec.UNSET:
                self._refused.add(event.call_id)
                yield replace(event, text=NOT_DONE)
            case _:
                return

    def _heard(self, event: events.TextDelta) -> Iterator[Event]:
        """Yield whole sentences of an answer that may become the reply."""
        if self._acted:
            return
        if self._words is None or event.message_id != self._message_id:
            self._message_id, self._attempt, self._words = (
                event.message_id,
                event.attempt,
                self._filter(),
            )
        if text := self._words.add(event.text):
            yield self._tell(event, text)

    def _message(self, event: events.MessageAdded) -> Iterator[Event]:
        """Handle a whole message. Text before a call is not an answer."""
        message = event.message
        heard, self._words = self._words, None
        if message.tool_calls or self._acted:
            self._said = ""
            if self._shown:
                yield self._take_back(event)
            return
        self._message_id = self._message_id or message.id
        rest = heard.end() if heard is not None else ""
        if rest:
            yield self._tell(event, rest)
        self._said, self._claimed = self._filtered(message)

    def _end(self, event: events.RunEnd) -> Iterator[Event]:
        self.outcome = event.outcome
        well = event.outcome in ANSWERED
        reply = self._reply() if well else FAILURE
        helped = reply != FAILURE
        self.result = AgentResult(
            success=helped,
            response=reply,
            tool_calls=self.records(),
            error=None if helped else FAILURE,
        )
        if not reply.startswith(self._shown):
            yield self._take_back(event)
        if rest := reply[len(self._shown) :]:
            yield self._tell(event, rest)
        error = (
            msgspec.UNSET
            if event.error is msgspec.UNSET
            else events.ErrorInfo(kind=event.error.kind, message=FAILURE)
        )
        yield replace(
            event,
            text=reply,
            output=reply,
            usage=Usage(),
            cost_usd=msgspec.UNSET,
            total=RunTotals(),
            error=error,
        )

    # ------------------------------------------------------------ the reply

    def _reply(self) -> str:
        calls = [*self._called.values()]
        tail = NO_MORE if self.outcome is Outcome.CALL_LIMIT and self._refused else ""
        if self._acted:
            said = compose(calls)
            return "\n".join(filter(None, (said, tail))) or UNCLEAR
        if calls:
            return "\n".join(
                filter(
                    None,
                    (
                        self._said,
                        compose(calls, most=max(REPLY_CHARS - len(self._said), LEAST_LISTED)),
                        tail,
                    ),
                )
            )
        return self._said or (FAILURE if self._claimed else UNCLEAR)

    def _filter(self) -> ReplyFilter:
        return ReplyFilter(self._titles(), without_lists=bool(self._called))

    def _filtered(self, message: Message) -> tuple[str, bool]:
        words = self._filter()
        return words.add(message.text) + words.end(), words.claimed

    def _titles(self) -> Iterator[str]:
        for call in self._called.values():
            for task in (call.response.data or {}).get("tasks") or ():
                if isinstance(title := task.get("title"), str):
                    yield title

    def _tell(self, event: Event, text: str) -> Event:
        self._shown += text
        return events.TextDelta(
            **_head(event), message_id=self._message_id, attempt=self._attempt, text=text
        )

    def _take_back(self, event: Event) -> Event:
        self._shown = ""
        return events.Retry(**_head(event), attempt=self._attempt, wait_s=0.0, kind=OTHERWISE)

    def _record(self, call_id: str, call: ReplyCall) -> ToolCallRecord:
        result = msgspec.to_builtins(call.response)
        return ToolCallRecord(
            call.name, call.arguments, self._clean.value(_whole(result)), self._took[call_id]
        )


def _head(event: Event) -> dict[str, Any]:
    return {"run_id": event.run_id, "session_id": event.session_id, "seq": 0, "at": event.at}


def _whole(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result with all of its three members."""
    return {"success": result["success"], "data": result.get("data"), "error": result.get("error")}
