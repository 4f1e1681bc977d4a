"""All names in exported spans and metrics, and the conventions' names for our values.

The GenAI conventions are still in development. Source: opentelemetry-semantic-conventions 0.66b2
and open-telemetry/semantic-conventions-genai, November 2026. Entry points: `OURS`.
"""

from __future__ import annotations

from typing import Final

from treadle.types import StopReason

SCOPE: Final = "treadle"
"""Instrumentation scope of all spans and metrics."""

# ---------------------------------------------------------------- operations

INVOKE_AGENT: Final = "invoke_agent"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"

# ---------------------------------------------------------------- attributes of the conventions

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
CONVERSATION: Final = "gen_ai.conversation.id"
AGENT_ID: Final = "gen_ai.agent.id"
AGENT_NAME: Final = "gen_ai.agent.name"
AGENT_DESCRIPTION: Final = "gen_ai.agent.description"
AGENT_VERSION: Final = "gen_ai.agent.version"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_STOP: Final = "gen_ai.request.stop_sequences"
REQUEST_STREAM: Final = "gen_ai.request.stream"
OUTPUT_TYPE: Final = "gen_ai.output.type"
RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
FIRST_CHUNK_S: Final = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
"""Number of input tokens, including cached ones."""
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
TOKEN_TYPE: Final = "gen_ai.token.type"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
ERROR_TYPE: Final = "error.type"
USER_ID: Final = "user.id"

# ---------------------------------------------------------------- Treadle's attributes

RUN_ID: Final = "treadle.run.id"
PARENT_RUN_ID: Final = "treadle.run.parent_id"
TAGS: Final = "treadle.run.tags"
METADATA: Final = "treadle.run.metadata"
"""Prefix of the metadata, which follows by name: `treadle.run.metadata.NAME`."""
OUTCOME: Final = "treadle.run.outcome"
TURNS: Final = "treadle.run.turns"
TOOL_CALLS: Final = "treadle.run.tool_calls"
RETRIES: Final = "treadle.run.retries"
COST_USD: Final = "treadle.cost_usd"
TOTAL_RUNS: Final = "treadle.run.total.runs"
"""Number of runs in the tree. All names that begin with `treadle.run.total` cover the tree."""
TOTAL_TURNS: Final = "treadle.run.total.turns"
TOTAL_TOOL_CALLS: Final = "treadle.run.total.tool_calls"
TOTAL_INPUT_TOKENS: Final = "treadle.run.total.input_tokens"
TOTAL_OUTPUT_TOKENS: Final = "treadle.run.total.output_tokens"
TOTAL_COST_USD: Final = "treadle.run.total.cost_usd"
STOP_REASON: Final = "treadle.stop_reason"
REQUEST_ID: Final = "treadle.request_id"
"""The provider's request id, of a response or an error."""
SERVICE_TIER: Final = "treadle.service_tier"
CACHE_MISS: Final = "treadle.cache_miss"
RATE_LIMITS: Final = {
    name: f"treadle.rate_limit.{name}.remaining"
    for name in ("requests", "tokens", "input_tokens", "output_tokens")
}
"""Attribute for the remaining amount, by rate limit."""
RETRY_WAIT_S: Final = "treadle.retry.wait_s"
MESSAGES_LEFT_OUT: Final = "treadle.messages_left_out"
"""Number of oldest messages left out of `gen_ai.input.messages`."""
MCP_SERVER: Final = "treadle.mcp.server"
MCP_TOOL: Final = "treadle.mcp.tool"
"""Name of the tool on its MCP server."""
TOOL_AGENT: Final = "treadle.tool.agent"
TOOL_DEFERRED: Final = "treadle.tool.deferred"
"""True if the result will come later, from outside."""

OURS: Final = frozenset(
    {
        RUN_ID,
        PARENT_RUN_ID,
        TAGS,
        METADATA,
        OUTCOME,
        TURNS,
        TOOL_CALLS,
        RETRIES,
        COST_USD,
        TOTAL_RUNS,
        TOTAL_TURNS,
        TOTAL_TOOL_CALLS,
        TOTAL_INPUT_TOKENS,
        TOTAL_OUTPUT_TOKENS,
        TOTAL_COST_USD,
        STOP_REASON,
        REQUEST_ID,
        SERVICE_TIER,
        CACHE_MISS,
        *RATE_LIMITS.values(),
        RETRY_WAIT_S,
        MESSAGES_LEFT_OUT,
        MCP_SERVER,
        MCP_TOOL,
        TOOL_AGENT,
        TOOL_DEFERRED,
    }
)

TOOL_KIND: Final = {"mcp.server": MCP_SERVER, "mcp.tool": MCP_TOOL, "agent": TOOL_AGENT}
"""Span attribute for each key of a tool's own trace attributes."""
FUNCTION: Final = "function"
EXTENSION: Final = "extension"
"""`gen_ai.tool.type` of a tool that runs outside this process."""

# ---------------------------------------------------------------- span events and metrics

RETRY: Final = "treadle.retry"

OPERATION_DURATION: Final = "gen_ai.client.operation.duration"
TOKEN_USAGE: Final = "gen_ai.client.token.usage"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.client.operation.time_to_first_chunk"

DURATION_BOUNDS_S: Final = (
    0.01,
    0.02,
    0.04,
    0.08,
    0.16,
    0.32,
    0.64,
    1.28,
    2.56,
    5.12,
    10.24,
    20.48,
    40.96,
    81.92,
)
TOKEN_BOUNDS: Final = tuple(4**n for n in range(14))

# ---------------------------------------------------------------- values

CANCELLED: Final = "cancelled"
TOOL_ERROR: Final = "tool_error"
TOOL_UNKNOWN: Final = "unknown"
"""`error.type` of a call whose outcome is unknown."""

_PROVIDERS: Final = {
    "openai-chat": "openai",
    "gemini": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "bedrock": "aws.bedrock",
}

FINISH: Final = {
    StopReason.COMPLETE: "stop",
    StopReason.STOP_SEQUENCE: "stop",
    StopReason.PAUSE: "stop",
    StopReason.TOOL_USE: "tool_call",
    StopReason.MAX_TOKENS: "length",
    StopReason.CONTEXT_OVERFLOW: "length",
    StopReason.REFUSAL: "content_filter",
}
"""Finish reasons in `gen_ai.output.messages`, by stop reason."""


def provider_and_model(model: str) -> tuple[str, str]:
    """Split a model's name: "gemini:flash" -> ("gcp.gemini", "flash").

    Providers that are not in the conventions keep their names.
    """
    provider, colon, name = model.partition(":")
    return (_PROVIDERS.get(provider, provider), name) if colon else ("", model)
