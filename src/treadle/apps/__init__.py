"""Applications built on the library: the task assistant (assistant/), batches of prompts (batch/),
agents served over MCP (mcp_server/), and fixtures for pytest (pytest_plugin.py).
"""
