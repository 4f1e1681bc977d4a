"""Applications built on the library: the task assistant (assistant/), batches of prompts (batch/),
agents served over MCP (mcp_server/), evaluations (evals/), and fixtures for pytest
(pytest_plugin.py).
"""
