"""Ready-made checks: rules in Python that deny tool calls or require approval, by tool name and
arguments, and a mask for secrets. Entry points: `Guard`, `Rule`, `Secrets`.

A guard only restricts. Mode and configuration decide about all other calls.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from typing_extensions import override

from treadle._internal.json_text import decode_json
from treadle._internal.redaction import Redactor
from treadle._internal.wildcards import wildcards
from treadle.errors import AgentError
from treadle.events.hooks.hook import Ask, BeforeTool, Hook, HookedRun
from treadle.messages.message import Message, ToolCall, ToolResult
from treadle.models.model import ModelRequest, ModelResponse
from treadle.tools.approval import Deny


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule for the calls that it matches.

    Attributes:
        tool: Name of a tool; `*` matches any characters, `?` a single one.
        verdict: Decision for a matching call.
        when: Predicate on the arguments as the model wrote them, without the tool's defaults; None
            matches all calls. If it raises, the call is denied. Arguments that are not a JSON
            object match.
        reason: Reason for the model, or for the person who is asked.
    """

    tool: str
    verdict: Literal["deny", "ask"] = "deny"
    when: Callable[[dict[str, Any]], bool] | None = None
    reason: str = ""

    def fits(self, call: ToolCall) -> bool:
        """Return True if the arguments match. The caller compares the tool's name."""
        if self.when is None:
            return True
        try:
            arguments = decode_json(
                (call.arguments_json.strip() or "{}").encode(errors="replace"), dict[str, Any]
            )
        except (ValueError, RecursionError):
            return True
        return bool(self.when(arguments))


class Guard(Hook):
    """Hook that applies the first of several rules that matches a call.

    `Guard(Rule("delete_*"), Rule("transfer", "ask", when=lambda a: a["amount"] > 100, reason="a
    large amount"))`.
    """

    def __init__(self, *rules: Rule) -> None:
        """Create a guard. Raises AgentError(invalid) for an invalid rule."""
        for rule in rules:
            if inspect.iscoroutinefunction(getattr(rule, "when", None)):
                raise AgentError(
                    "invalid",
                    (
                        f"the predicate of Rule({rule.tool!r}) must be a plain `def`: it is not "
                        "awaited"
                    ),
                )
            if not isinstance(rule, Rule) or rule.verdict not in ("deny", "ask"):  # pyright: ignore[reportUnnecessaryIsInstance]  anybody may call it
                raise AgentError(
                    "invalid",
                    (
                        f"{rule!r} is not a valid rule: use Rule('tool', 'deny') or Rule('tool', "
                        "'ask')"
                    ),
                )
        self._rules = [(re.compile(wildcards(rule.tool, "."), re.DOTALL), rule) for rule in rules]

    @override
    async def before_tool(self, run: HookedRun, call: ToolCall) -> BeforeTool:
        """Deny the call or require approval, by the first rule that matches it; None if none
        does.
        """
        for name, rule in self._rules:
            if name.fullmatch(call.name) is not None and rule.fits(call):
                reason = rule.reason or f"a rule for {rule.tool} applies"
                return Ask(reason) if rule.verdict == "ask" else Deny(reason)
        return None


class Secrets(Hook):
    """Mask what looks like a key, a token or a password in messages of users, in texts of the
    model and in results of tools, before they are recorded.
    """

    def __init__(self) -> None:
        self._mask = Redactor(frozenset()).text

    def _masked(self, text: str) -> str | None:
        masked = self._mask(text)
        return None if masked == text else masked

    @override
    async def before_input(self, run: HookedRun, message: Message) -> str | None:
        """Mask secrets in the message."""
        return self._masked(message.text)

    @override
    async def after_model(
        self, run: HookedRun, request: ModelRequest, response: ModelResponse
    ) -> str | None:
        """Mask secrets in the text of the response."""
        return self._masked(response.text)

    @override
    async def after_tool(self, run: HookedRun, call: ToolCall, result: ToolResult) -> str | None:
        """Mask secrets in the text of the result."""
        return self._masked(result.text)
