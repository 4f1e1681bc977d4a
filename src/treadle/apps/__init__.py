"""Applications built on the library: the task assistant (assistant/), batches of prompts (batch/),
agents served over MCP (mcp_server/), evaluations (evals/), fixtures for pytest (pytest_plugin.py),
and contract suites for plug-ins (testing/).
"""
