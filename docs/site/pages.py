"""Pages of the API reference: the public names, grouped by what they are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

REFERENCE: Mapping[str, tuple[str, Sequence[str]]] = {
    "running": (
        "Running agents",
        (
            "treadle.Runtime",
            "treadle.run",
            "treadle.run_sync",
            "treadle.open",
            "treadle.SyncRuntime",
            "treadle.RunOptions",
            "treadle.RunStream",
            "treadle.RunResult",
            "treadle.Outcome",
            "treadle.RunMetrics",
            "treadle.RunTotals",
            "treadle.Usage",
            "treadle.Callbacks",
        ),
    ),
    "agents": (
        "Agents",
        (
            "treadle.Agent",
            "treadle.Input",
            "treadle.handoff",
            "treadle.Handoff",
            "treadle.Limits",
            "treadle.Settings",
            "treadle.AgentRegistry",
            "treadle.coding.CodingAgent",
            "treadle.coding.CodingOptions",
        ),
    ),
    "tools": (
        "Tools",
        (
            "treadle.tool",
            "treadle.ToolContext",
            "treadle.RunContext",
            "treadle.ToolDefinition",
            "treadle.Toolset",
            "treadle.ToolFailed",
            "treadle.ToolDone",
            "treadle.ToolDeferred",
            "treadle.Happened",
            "treadle.DidNotHappen",
            "treadle.Tool",
            "treadle.FunctionTool",
            "treadle.ToolRegistry",
            "treadle.tools.mcp.McpServer",
        ),
    ),
    "approvals": (
        "Approvals",
        ("treadle.ApprovalRequest", "treadle.Approve", "treadle.Deny"),
    ),
    "sessions": (
        "Sessions",
        ("treadle.Session", "treadle.SessionStore", "treadle.MAX_SESSION_MESSAGES"),
    ),
    "messages": (
        "Messages",
        (
            "treadle.Message",
            "treadle.TextPart",
            "treadle.ReasoningPart",
            "treadle.ToolCall",
            "treadle.ToolResult",
            "treadle.MediaPart",
            "treadle.ProviderPart",
            "treadle.UnknownPart",
            "treadle.check_history",
            "treadle.repair_history",
        ),
    ),
    "events": (
        "Events",
        (
            "treadle.Event",
            "treadle.Hub",
            "treadle.messages.event",
            "treadle.messages.events",
            "treadle.messages.tool_events",
        ),
    ),
    "hooks": (
        "Hooks",
        (
            "treadle.Hook",
            "treadle.hooks.Add",
            "treadle.hooks.Answer",
            "treadle.hooks.Ask",
            "treadle.hooks.Stop",
            "treadle.hooks.Guard",
            "treadle.hooks.Rule",
            "treadle.hooks.Cache",
            "treadle.hooks.Audit",
        ),
    ),
    "models": (
        "Models",
        (
            "treadle.Model",
            "treadle.ModelRequest",
            "treadle.ModelResponse",
            "treadle.StopReason",
            "treadle.FallbackModel",
            "treadle.models.deltas",
        ),
    ),
    "journal": ("The journal", ("treadle.Journal",)),
    "configuration": (
        "Configuration",
        (
            "treadle.config.Config",
            "treadle.config.Provider",
            "treadle.config.Price",
            "treadle.config.load",
        ),
    ),
    "workers": (
        "Workers",
        (
            "treadle.workers.worker.Worker",
            "treadle.workers.engines.temporal.TreadlePlugin",
            "treadle.workers.engines.temporal.run_agent",
            "treadle.workers.engines.temporal.AgentRun",
            "treadle.workers.engines.temporal.RunRequest",
            "treadle.workers.engines.temporal.RunAnswer",
            "treadle.workers.engines.temporal.RunReply",
            "treadle.workers.engines.temporal.OpenCall",
            "treadle.workers.engines.temporal.answer_signal",
            "treadle.workers.engines.temporal.priority_of",
        ),
    ),
    "testing": (
        "Testing",
        (
            "treadle.testing.ScriptedModel",
            "treadle.testing.context",
            "treadle.testing.override",
            "treadle.testing.no_real_models",
            "treadle.testing.transcript",
            "treadle.testing.FakeClock",
            "treadle.testing.collect",
        ),
    ),
    "telemetry": (
        "Telemetry",
        ("treadle.telemetry.otel_tracer", "treadle.telemetry.log_events"),
    ),
    "errors": ("Errors", ("treadle.AgentError", "treadle.ErrorKind")),
}
"""Title and names of each page, by file name. A module stands for its public members."""
