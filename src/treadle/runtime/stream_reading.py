"""Ways to read a run that is streamed: its text, its output so far, or server-sent events.

Entry point: `ReadableStream`, a base class of `RunStream`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Never, Self, cast

from treadle._internal.other_names import missing
from treadle.errors import AgentError
from treadle.loop.loop import Run
from treadle.messages.events import Event, TextDelta
from treadle.messages.result import Out, RunResult


class ReadableStream(ABC, Generic[Out]):
    """Events of a run in progress, and what can be read from them."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Never:
            raise missing(type(self).__name__, name)

    @property
    @abstractmethod
    def _run(self) -> Run: ...

    @property
    @abstractmethod
    def result(self) -> RunResult[Out]: ...

    @abstractmethod
    def __aiter__(self) -> AsyncIterator[Event]: ...

    @abstractmethod
    async def __aenter__(self) -> Self: ...

    @abstractmethod
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None: ...

    @property
    def window_tokens(self) -> int | None:
        """Context window of the model in tokens, input and output; None if unknown."""
        plan = self._run.plan
        return plan.windows(plan.model_name)

    @property
    def partial_output(self) -> object | None:
        """Answer so far: plain data of a typed output, growing and not validated; None before its
        beginning. Read it after a text_delta.
        """
        if (answer := self._run.plan.answer) is None:
            return self._run.text_so_far or None
        return answer.partial(self._run.text_so_far)

    @property
    def output_so_far(self) -> Out | None:
        """The output so far, as a value of its type: without elements that are not complete enough
        to be valid, and with defaults for fields that have not arrived. None while nothing fits the
        type, and for agents with `completion=True`. Read it after a text_delta.

        Parses the whole answer, and calls the type's validators, each time.
        """
        run = self._run
        if run.plan.completion:  # the output is not text, but the argument of a call
            return None
        if run.plan.answer is None:
            return cast("Out | None", run.text_so_far or None)
        return run.plan.answer.so_far(run.text_so_far)

    async def text_stream(self) -> AsyncIterator[str]:
        """Iterate over the text as it is streamed, and leave out the other events. Text that a
        failed request had streamed stays; the result's `text` does not contain it.

        Raises the errors of `__aiter__`.
        """
        async for event in self:
            if isinstance(event, TextDelta):
                yield event.text

    async def output_stream(self) -> AsyncIterator[Out]:
        """Iterate over `output_so_far` as it changes, and leave out the events. The last value is
        the output of the run, if it completes. After an answer that is corrected, the values begin
        again.

        Raises the errors of `__aiter__`.
        """
        last: Out | None = None
        async for event in self:
            if isinstance(event, TextDelta):
                value = self.output_so_far
                if value is not None and value != last:
                    yield value
                    last = value
        if self.result.success and self.result.output != last:
            yield self.result.unwrap()

    async def sse(self) -> AsyncIterator[bytes]:
        """Run, and iterate over the events as server-sent events (`Event.to_sse`):
        `StreamingResponse(runtime.stream(…).sse(), media_type="text/event-stream")`.

        Starts the run itself, so there is no `async with`. Cancellation, such as a client that
        disconnects, cancels the run.
        """
        async with self:
            async for event in self:
                yield event.to_sse()


def check_steering(text: str) -> None:
    """Raise AgentError(invalid) if the text is empty."""
    if not text.strip():
        raise AgentError("invalid", "the text to steer with is empty")
