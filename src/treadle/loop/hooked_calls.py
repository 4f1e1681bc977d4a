"""Tool hooks of a run: their answers before a call, and their changes to its result.

Entry point: `HookedCalls`, a base class of `Toolbox`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

import anyio
from msgspec import structs

from treadle._internal.uninterrupted import cancel_again
from treadle.events.hooks import Answer, Ask, Hooks
from treadle.events.hooks.chain import UNSAID, AfterToolSaid, BeforeToolSaid
from treadle.loop.call_values import HOOK, Prepared, Ready, changed, refused
from treadle.messages.message import (
    JsonText,
    MediaPart,
    TextPart,
    ToolCall,
    ToolResult,
    encode_json,
)
from treadle.tools.approval import Deny

_UNSEEN = "is not shown, because the run was stopped while a hook was processing it."


class HookedCalls:
    """Calls of a run with tool hooks."""

    __slots__ = ()
    clean: Callable[[str], str]
    hooks: Hooks
    said: dict[str, BeforeToolSaid]

    def decide_call(self, call: ToolCall, *, allowed: bool, asks: str | None = None) -> Prepared:
        raise NotImplementedError

    async def ask_hooks(self, calls: Sequence[ToolCall], settled: Container[str]) -> None:
        """Call the hooks before the calls. `settled`: as in `Toolbox.get_ready`. Raises
        RunBlocked.
        """
        self.said.clear()
        for call in calls:
            said = await self.hooks.before_tool(call)
            self.said[call.id] = said._replace(arguments_json=None) if call.id in settled else said

    def prepare_as_hooked(self, call: ToolCall, *, allowed: bool) -> Prepared:
        """Decide a call as the hooks answered. `allowed`: True if a user has approved it."""
        said = self.said.pop(call.id, UNSAID)
        asks = None
        match said.verdict:
            case Deny(reason=reason):
                return refused(call, self.clean(f"Not run: {reason}"), status="denied")
            case Answer(text=text):
                return refused(call, self.clean(text), status="ok")
            case Ask(reason=reason):
                asks = self.clean(reason)
            case _:
                pass
        if said.arguments_json is None:
            return self.decide_call(call, allowed=allowed, asks=asks)
        rewritten = structs.replace(call, arguments_json=said.arguments_json)
        return changed(self.decide_call(rewritten, allowed=allowed, asks=asks), HOOK)

    async def after_tool(self, ready: Ready, result: ToolResult) -> AfterToolSaid:
        """Run the hooks after a call. If they are cancelled, a `once` call keeps its status, but
        its text is removed.
        """
        try:
            return await self.said_after(ready.call, result)
        except anyio.get_cancelled_exc_class():
            if ready.tool.effect != "once" or result.unknown:
                raise
            cancel_again()
            return AfterToolSaid(unseen(result), withheld=True)

    async def said_after(self, call: ToolCall, result: ToolResult) -> AfterToolSaid:
        said, blocked, withheld = await self.hooks.after_tool(call, result)
        if said is not result:
            said = structs.replace(said, content=self._cleaned(said.content))
        return AfterToolSaid(said, self.clean(blocked), withheld)

    def _cleaned(
        self, content: str | tuple[TextPart | MediaPart, ...]
    ) -> str | tuple[TextPart | MediaPart, ...]:
        if isinstance(content, str):
            return self.clean(content)
        return tuple(
            TextPart(text=self.clean(part.text)) if isinstance(part, TextPart) else part
            for part in content
        )


def shown_end(output: JsonText, result: ToolResult, said: AfterToolSaid) -> JsonText | bool:
    """Return the output with which a call ends its run: if a hook replaced the result, its text, so
    that removed content is not in the output; True if the result is withheld, so that the run ends
    with an error.
    """
    if said.withheld:
        return True
    return output if said.result is result else encode_json(said.result.text).decode()


def unseen(result: ToolResult) -> ToolResult:
    """Remove the text of a result whose hooks were interrupted, because they might have removed
    it.
    """
    text = (
        f"The call failed. Its error {_UNSEEN}"
        if result.is_error
        else f"The call ended without an error. Its result {_UNSEEN}"
    )
    return structs.replace(result, content=text)
