"""Commands that show usage: `/cost` and `/context`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import structs
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from treadle._internal.terminal_text import one_line
from treadle._internal.units import count, money, tokens
from treadle.budget.costs import Cost, Costs, Tally
from treadle.journal.journal import Journal
from treadle.journal.run_info import RunInfo, spent
from treadle.messages.message import Message, ToolResult
from treadle.models.model import ModelRequest
from treadle.models.providers.estimate import estimated_tokens
from treadle.tui.drawing import Drawing
from treadle.types import Usage

if TYPE_CHECKING:
    from treadle.tui.desk import Desk

BAR_COLUMNS: Final = 40
NEARLY_FULL: Final = 0.8


# ---------------------------------------------------------------- cost


async def show_cost(desk: Desk, rest: str) -> None:
    """Show the cost by model: of this conversation, including its child runs, and of all
    conversations today.
    """
    journal = desk.conversation.runtime.journal
    runs = await _with_children(journal, await desk.conversation.runs())
    tally = Tally("model")
    for info in runs:
        tally.add(spent(info))
    today = await journal.costs("model", since=datetime.now(UTC).date())
    drawing = Drawing(desk.screen.columns, desk.theme)
    said = (
        f"This conversation: {count(sum(info.turns for info in runs), 'turn')} in "
        f"{count(len(runs), 'run')}"
    )
    desk.show(
        Group(
            *_costs(said, tally.costs(), drawing),
            *_costs("Today, all conversations (UTC)", today, drawing),
        )
    )


async def _with_children(journal: Journal, runs: Sequence[RunInfo]) -> list[RunInfo]:
    found = {info.run_id: info for info in runs}
    waiting = [*found.values()]
    while waiting:
        for info in await journal.children(waiting.pop().run_id):
            if info.run_id not in found:
                found[info.run_id] = info
                waiting.append(info)
    return [*found.values()]


def _costs(title: str, costs: Costs, drawing: Drawing) -> list[RenderableType]:
    head = Text(title, drawing.style("title"))
    if not costs.rows:
        return [head, Text("  nothing yet", drawing.style("dim"))]
    grid = Table.grid(padding=(0, 2))
    for column in ("model", "input", "cached", "output", "cost"):
        grid.add_column(justify="left" if column == "model" else "right")
    grid.add_row(
        *(
            Text(word, drawing.style("table.head"))
            for word in ("  model", "input", "cached", "output", "cost")
        )
    )
    rows = [
        *costs.rows,
        *([structs.replace(costs.total, key="total")] if len(costs.rows) > 1 else []),
    ]
    for row in rows:
        grid.add_row(*map(Text, _cells(row)))
    return [head, grid]


def _cells(row: Cost) -> list[str]:
    usage = row.usage
    cost = money(row.cost_usd, more=bool(row.unpriced) and row.cost_usd is not None)
    return [
        f"  {one_line(row.key or 'total', 60)}",
        tokens(usage.total_input_tokens),
        cached_share(usage),
        tokens(usage.output_tokens),
        cost,
    ]


def cached_share(usage: Usage) -> str:
    """Return the share of the input that the provider read from its cache."""
    return (
        f"{usage.cache_read_tokens / usage.total_input_tokens:.0%}"
        if usage.total_input_tokens
        else "-"
    )


# ---------------------------------------------------------------- context


class ShareOfCost(NamedTuple):
    what: str
    tokens: int


async def show_context(desk: Desk, rest: str) -> None:
    conversation = desk.conversation
    messages = await conversation.messages()
    shares = shares_of(desk, messages)
    estimate = sum(share.tokens for share in shares)
    counted = desk.transcript.live.context_tokens
    used, window = counted or estimate, conversation.window_tokens or desk.status.window_tokens
    drawing = Drawing(desk.screen.columns, desk.theme)
    how = "as the model counted it" if counted else "by estimate"
    head = (
        f"{tokens(used)} of {tokens(window)} tokens ({used / window:.0%}), {how}"
        if window
        else f"{tokens(used)} tokens, {how}"
    )
    shown: list[RenderableType] = [Text(head, drawing.style("title"))]
    if window:
        shown.append(_bar(used / window, drawing))
    grid = Table.grid(padding=(0, 2))
    grid.add_column()
    grid.add_column(justify="right")
    grid.add_column(justify="right")
    for share in shares:
        part = f"{share.tokens / estimate:.0%}" if estimate else ""
        grid.add_row(
            Text(f"  {share.what}"), Text(tokens(share.tokens)), Text(part, drawing.style("dim"))
        )
    advice = (
        "/compact frees space."
        if window and used / window > NEARLY_FULL
        else "Shares are estimates. Tools of MCP servers are not included."
    )
    desk.show(Group(*shown, grid, Text(advice, drawing.style("dim"))))


def shares_of(desk: Desk, messages: Sequence[Message]) -> list[ShareOfCost]:
    """Return the estimated parts of the next request and their sizes."""
    setting = desk.conversation.setting
    agent = setting.agent
    results = [
        message.with_parts([part for part in message.parts if isinstance(part, ToolResult)])
        for message in messages
        if message.role == "tool"
    ]
    said = [message for message in messages if message.role != "tool"]
    return [
        ShareOfCost(
            "instructions",
            estimated_tokens(
                ModelRequest(
                    messages=agent.messages, system=agent.system(agent.values(setting.inputs))
                )
            ),
        ),
        ShareOfCost(
            "tools",
            estimated_tokens(
                ModelRequest(messages=(), tools=tuple(tool.definition for tool in agent.own_tools))
            ),
        ),
        ShareOfCost("messages", estimated_tokens(ModelRequest(messages=said))),
        ShareOfCost("tool results", estimated_tokens(ModelRequest(messages=results))),
    ]


def _bar(share: float, drawing: Drawing) -> Text:
    wide = min(BAR_COLUMNS, max(drawing.width - 4, 10))
    full = min(max(round(share * wide), 0), wide)
    signs = "█░" if drawing.theme.unicode else "#."
    bar = Text("  ")
    bar.append(signs[0] * full, drawing.style("warning" if share > NEARLY_FULL else "tool.target"))
    bar.append(signs[1] * (wide - full), drawing.style("dim"))
    return bar
