"""Rules over tool calls, in Python: refused, or asked about, by the name of the tool and by its
arguments. Entry: `Guard`, `Rule`.

What may run without a rule is the mode's and the configuration's business: a guard only takes away.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from typing_extensions import override

from treadle._internal.json_text import decode_json
from treadle._internal.wildcards import wildcards
from treadle.errors import AgentError
from treadle.events.hooks.hook import Ask, BeforeTool, Hook, HookedRun
from treadle.messages.message import ToolCall
from treadle.tools.approval import Deny


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule for the calls that it fits.

    Attributes:
        tool: A name; `*` and `?` stand for any characters and for one.
        verdict: Decision for a call that matches.
        when: Given the arguments as the model wrote them, without the tool's defaults. One that
            raises denies the call; where the arguments are no JSON object the rule fits. None: all
            calls.
        reason: Reason for the model, or for the person who is asked.
    """

    tool: str
    verdict: Literal["deny", "ask"] = "deny"
    when: Callable[[dict[str, Any]], bool] | None = None
    reason: str = ""

    def fits(self, call: ToolCall) -> bool:
        """Return True for a call of such a tool."""
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
    """`Guard(Rule("delete_*"), Rule("transfer", "ask", when=lambda a: a["amount"] > 100,
    reason="that is much"))`. The first rule that fits counts.
    """

    def __init__(self, *rules: Rule) -> None:
        """Raises AgentError(invalid) for what is no rule."""
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
                        f"{rule!r} is no rule of a guard: use Rule('tool', 'deny') or Rule('tool', "
                        "'ask')"
                    ),
                )
        self._rules = [(re.compile(wildcards(rule.tool, "."), re.DOTALL), rule) for rule in rules]

    @override
    async def before_tool(self, run: HookedRun, call: ToolCall) -> BeforeTool:
        """Apply the first rule that matches the call."""
        for name, rule in self._rules:
            if name.fullmatch(call.name) is not None and rule.fits(call):
                reason = rule.reason or f"a rule about {rule.tool} says so"
                return Ask(reason) if rule.verdict == "ask" else Deny(reason)
        return None
