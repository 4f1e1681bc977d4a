"""Fold of a run's events into finished blocks, emitted once and in order, and the live state. Entry
points: `Transcript`.

Independent of the terminal, and without side effects.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

from msgspec import UNSET

from treadle._internal.terminal_text import one_line
from treadle.messages import events
from treadle.messages.message import Message
from treadle.messages.todos import TOOL, written
from treadle.tools.approval import ApprovalRequest
from treadle.tui.blocks import AnswerBlock, Block, CallBlock, NoticeBlock, PromptBlock, Thought
from treadle.tui.calling import Calling, calling
from treadle.tui.ends import ended
from treadle.tui.growing import Growing, SourcePiece
from treadle.tui.live import Activity, Live
from treadle.tui.transcript_children import ChildRuns
from treadle.types import Outcome

PROGRESS_CHARS: Final = 200
_THOUGHT_KEPT: Final = 20_000
"""Maximum number of characters that are kept of one reasoning."""


class _Stream:
    """Answer that is being streamed."""

    __slots__ = ("given", "growing", "message_id")

    def __init__(self, message_id: str) -> None:
        self.message_id = message_id
        self.growing = Growing()
        self.given = False
        """True if a part of the answer is in the scrollback already."""


class Transcript:
    """Display state of an open conversation.

    `apply` receives every event of its runs and their child runs.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.live = Live()
        self._clock = clock
        self._stream: _Stream | None = None
        self._thought = ""
        """Beginning of the current reasoning."""
        self._thinks_last = ""
        """End of the current reasoning."""
        self.steered: dict[str, str] = {}
        """Steering text that has not reached the run yet, with the text as typed."""
        self._calls: dict[str, tuple[str, object]] = {}
        """Name and arguments of each call without a result, by call id."""
        self._children = ChildRuns(self.live, self._calls, clock)
        self.answer = ""
        """Complete text of the last answer, which `/copy` copies."""

    def begin(self) -> None:
        """Reset for a new run."""
        self.live.asking_since = self._clock()

    def forget(self) -> None:
        """Reset for another conversation; the cost is kept."""
        self.live.calm()
        self.live.todos, self.live.context_tokens, self.answer = (), 0, ""
        self._calls.clear()

    def apply(self, event: events.Event) -> list[Block]:
        """Return the blocks that the event finishes."""
        is_ours = event.parent_run_id is UNSET
        return list(self._of_ours(event) if is_ours else self._children.apply(event))

    def asks_about(self, request: ApprovalRequest) -> None:
        """Remove a call whose approval prompt is now on the screen."""
        self.live.asking_since = None
        self.live.activities.pop(request.call_id, None)
        self.live.activities.pop(f"{request.run_id}:{request.call_id}", None)

    def replay(self, message: Message) -> list[Block]:
        """Return the blocks of a message of an earlier run."""
        return list(self._replayed(message))

    # ------------------------------------------------------------ events of the run

    def _of_ours(self, event: events.Event) -> Iterator[Block]:
        live = self.live
        match event:
            case events.TurnStart():
                live.asking_since = self._clock()
            case events.TextDelta():
                yield from self._said(event)
            case events.ReasoningStart():
                live.thinking_since, live.asking_since = self._clock(), None
                self._thought = self._thinks_last = ""
            case events.ReasoningDelta():
                self._thinks(event.text)
            case events.ReasoningEnd():
                yield from self._has_thought()
            case events.ToolCallDelta():
                live.asking_since, live.retry = None, ""
                live.activities.setdefault(
                    event.call_id,
                    Activity(
                        call=Calling(f"Preparing {one_line(event.name)}", "", ""),
                        since=self._clock(),
                    ),
                )
            case events.MessageAdded():
                yield from self._whole(event.message)
            case events.Retry():
                yield from self._again(event)
            case events.UsageReported():
                self._paid(event)
            case events.RunEnd():
                yield from self._end(event)
            case _:
                yield from self._call(event)

    def _call(self, event: events.Event) -> Iterator[Block]:
        live = self.live
        match event:
            case events.ToolCallAsked():
                self._calls[event.call_id] = (event.name, event.arguments)
                live.activities.pop(event.call_id, None)
            case events.ApprovalRequested():
                self._calls.setdefault(event.call_id, (event.name, event.arguments))
                live.activities[event.call_id] = Activity(
                    call=calling(event.name, event.arguments), since=self._clock(), waits=True
                )
            case events.ApprovalResolved():
                live.activities.pop(event.call_id, None)
            case events.ToolCallStart():
                name, arguments = self._calls.get(event.call_id, (event.name, ""))
                if name != TOOL:  # finishes immediately, shown with the other calls of its turn
                    live.activities[event.call_id] = Activity(
                        call=calling(name, arguments), since=self._clock()
                    )
            case events.ToolProgress():
                if (activity := live.activities.get(event.call_id)) is not None:
                    activity.progress = one_line(
                        event.text.rstrip().rpartition("\n")[2], PROGRESS_CHARS
                    )
            case events.ToolCallEnd(refused=False):
                yield from self._called(event)
            case _:
                yield from self._remark(event)

    def _remark(self, event: events.Event) -> Iterator[Block]:
        match event:
            case events.ChildStart():
                self._children.start(event)
            case events.Warned():
                if isinstance(event.call_id, str) and event.call_id in self._calls:
                    self.live.activities.pop(event.call_id, None)
                    yield self._not_run(
                        event.call_id,
                        event.text.partition("was not run: ")[2].removeprefix("Not run: "),
                    )
                else:
                    yield NoticeBlock(event.text, "warning")
            case events.LimitWarning():
                yield NoticeBlock(
                    f"The limit of {event.limit} is near: {event.left:g} left.", "warning"
                )
            case events.InputAdded():
                yield self._heard(event.text)
            case events.HandedOver(before=before, agent=agent):
                yield NoticeBlock(f"{before} handed over to {agent}.")
            case events.Compacted() if _is_of_room(event.receipt):
                yield NoticeBlock("Older messages were summarised to free context.")
            case _:
                return

    def _said(self, event: events.TextDelta) -> Iterator[Block]:
        stream = self._stream
        if stream is None or stream.message_id != event.message_id:
            stream = self._stream = _Stream(event.message_id)
        self.live.asking_since, self.live.retry = None, ""
        yield from self._answers(stream, stream.growing.feed(event.text))
        self.live.tail = stream.growing.tail

    def _answers(self, stream: _Stream, pieces: Sequence[SourcePiece]) -> Iterator[Block]:
        for source in pieces:
            if source.strip() or source.within.fence:
                yield AnswerBlock(source, first=not stream.given)
                stream.given = True

    def _thinks(self, text: str) -> None:
        if len(self._thought) < _THOUGHT_KEPT:
            self._thought += text
        self._thinks_last = (self._thinks_last + text)[-PROGRESS_CHARS:]
        self.live.thought = one_line(self._thinks_last, PROGRESS_CHARS)

    def _has_thought(self) -> Iterator[Block]:
        since, self.live.thinking_since, self.live.thought = self.live.thinking_since, None, ""
        if since is not None:
            yield Thought(self._clock() - since, self._thought)
        self.live.asking_since = self._clock()

    def _whole(self, message: Message) -> Iterator[Block]:
        """Emit the parts of a message that its deltas have not emitted."""
        stream, self._stream = self._stream, None
        self.live.tail, self.live.asking_since = "", None
        self._forget_prepared()
        if message.text:
            self.answer = message.text
        yield from self._rest_of(message, stream)

    def _rest_of(self, message: Message, stream: _Stream | None = None) -> Iterator[Block]:
        """Emit the text after what `stream` has emitted of this message, and the hosted calls."""
        if stream is None or stream.message_id != message.id:
            stream = _Stream(message.id)
            yield from self._answers(stream, stream.growing.feed(message.text))
        yield from self._answers(stream, stream.growing.finish())
        for call in message.hosted_calls:
            yield NoticeBlock(f"The provider ran {call}")

    def _again(self, event: events.Retry) -> Iterator[Block]:
        """Discard the text of a failed attempt, with a notice if a part was already emitted."""
        stream, self._stream = self._stream, None
        self.live.tail = ""
        self._forget_prepared()
        self.live.thinking_since, self.live.asking_since = None, self._clock()
        self.live.retry = f"{event.kind}: retrying" + (
            f" in {event.wait_s:.0f} s" if event.wait_s >= 1 else ""
        )
        if stream is not None and stream.given:
            yield NoticeBlock("The answer above was interrupted; it starts again.")

    def _forget_prepared(self) -> None:
        """Drop calls that were being streamed and were never requested."""
        self.live.activities = {
            key: activity for key, activity in self.live.activities.items() if key in self._calls
        }

    def _heard(self, text: str) -> Block:
        """Return the block for a message of the user or the runtime that reached the run."""
        typed = self.steered.pop(text, None)
        return (
            NoticeBlock(f"Sent to the model: {text}")
            if typed is None
            else PromptBlock(typed, "while it works")
        )

    def _paid(self, event: events.UsageReported) -> None:
        live = self.live
        live.context_tokens = (
            event.input_tokens
            + event.cache_read_tokens
            + event.cache_write_tokens
            + event.output_tokens
        )
        live.add_cost(event.cost_usd)

    def _called(self, event: events.ToolCallEnd) -> Iterator[Block]:
        name, arguments = self._calls.pop(event.call_id, (event.name, ""))
        self.live.activities.pop(event.call_id, None)
        if name == TOOL and not event.is_error and (todos := written(arguments)) is not None:
            self.live.todos = todos
        yield CallBlock(
            call=calling(name, arguments),
            name=name,
            result=event.result,
            status="unknown" if event.unknown else "error" if event.is_error else "ok",
            seconds=event.duration_ms / 1000,
            exit_code=event.exit_code if isinstance(event.exit_code, int) else None,
            calls=self._children.take_count(event.call_id),
        )

    def _not_run(self, call_id: str, why: str = "") -> Block:
        name, arguments = self._calls.pop(call_id, ("call", ""))
        return CallBlock(
            call=calling(name, arguments), name=name, result=why, status="denied", seconds=0
        )

    def _end(self, event: events.RunEnd) -> Iterator[Block]:
        stream, self._stream = self._stream, None
        if stream is not None:  # interrupted: the partial answer stays
            yield from self._answers(stream, stream.growing.finish())
        for call_id in [
            call_id
            for call_id, activity in self.live.activities.items()
            if call_id in self._calls and not activity.waits
        ]:
            yield self._not_run(call_id)
        self._calls.clear()
        self._children.clear()
        self.live.calm()
        if event.outcome is Outcome.COMPLETED:
            if (
                event.output is not None
                and event.output is not UNSET
                and not isinstance(event.output, str)
            ):
                yield AnswerBlock(_as_json(event.output), first=True)
            return
        yield NoticeBlock(ended(event), "error" if event.outcome is Outcome.ERROR else "warning")

    # ------------------------------------------------------------ earlier messages

    def _replayed(self, message: Message) -> Iterator[Block]:
        if message.role == "user" and message.text.strip():
            yield PromptBlock(message.text)
        elif message.role == "assistant":
            if message.text.strip():
                self.answer = message.text
            yield from self._rest_of(message)
            for call in message.tool_calls:
                self._calls[call.id] = (call.name, _arguments(call.arguments_json))
        for result in message.tool_results:
            name, arguments = self._calls.pop(result.call_id, (result.name, ""))
            if name == TOOL and not result.is_error and (todos := written(arguments)) is not None:
                self.live.todos = todos
            status = "unknown" if result.unknown else "error" if result.is_error else "ok"
            yield CallBlock(
                call=calling(name, arguments),
                name=name,
                result=result.text,
                status=status,
                seconds=0,
                exit_code=result.exit_code,
            )


def _is_of_room(receipt: object) -> bool:
    """Return True if the compaction freed context. Other omissions have their own warnings."""
    fields = cast("dict[str, object]", receipt) if isinstance(receipt, dict) else {}
    return fields.get("kind") != "withdrawn" and "unseen" not in fields


def _arguments(text: str) -> object:
    from treadle.journal.projection import shown_arguments  # noqa: PLC0415  only for earlier messages

    return shown_arguments(text)


def _as_json(value: object) -> str:
    from treadle.messages.message import encode_json  # noqa: PLC0415  only for typed answers

    return f"```json\n{encode_json(value).decode()}\n```\n"
