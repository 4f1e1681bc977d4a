"""Refusal of requests to providers, for tests (`treadle.testing.no_real_models`)."""

from __future__ import annotations

from treadle.errors import AgentError

refused = False
"""True while requests to other machines are refused. Connections look before each request."""

_THIS_MACHINE = ("localhost", "127.", "[::1]", "::1")


def check(host: str) -> None:
    """Raise AgentError(invalid) for `host` (name, or `host:port`) unless it is this machine."""
    if not host.startswith(_THIS_MACHINE):
        raise AgentError(
            "invalid",
            f"no request is sent to {host}: real models are switched off in this test. Give the "
            "agent a ScriptedModel, use treadle.testing.override, or play a tape",
        )
