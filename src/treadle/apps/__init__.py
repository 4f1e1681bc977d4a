"""Applications built on the library: the task assistant (assistant/), batches of prompts (batch/),
and agents served over MCP (mcp_server/).
"""
