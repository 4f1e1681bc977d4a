"""Token estimate for a request, without a call to a provider.

Wires can ask their provider for a count; ledger.py enforces budgets. Entry points:
`estimated_tokens`.
"""

from __future__ import annotations

from treadle.messages.size import Size, size_of, text_bytes
from treadle.models.model import ModelRequest
from treadle.models.providers.encoding import dumped


def estimated_tokens(request: ModelRequest) -> int:
    """Return an upper estimate for prose and code. Images count a fixed amount each."""
    frame = sum(text_bytes(block.text) for block in request.system)
    frame += sum(
        text_bytes(tool.name) + text_bytes(tool.description) + len(dumped(tool.parameters))
        for tool in request.tools
        if not tool.deferred
    )
    said = size_of(request.messages)
    return Size(frame + said.size_bytes, said.media).tokens
