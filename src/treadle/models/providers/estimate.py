"""About how many tokens a request has, where nobody can be asked.

Asking is each wire's own; what a run may still spend is ledger.py's. Entry: `estimated_tokens`.
"""

from __future__ import annotations

from treadle.messages.size import Size, size_of, text_bytes
from treadle.models.model import ModelRequest
from treadle.models.providers.encoding import dumped


def estimated_tokens(request: ModelRequest) -> int:
    """Rather too many than too few for prose and code; pictures are counted by the piece, whatever
    they weigh.
    """
    frame = sum(text_bytes(block.text) for block in request.system)
    frame += sum(
        text_bytes(tool.name) + text_bytes(tool.description) + len(dumped(tool.parameters))
        for tool in request.tools
    )
    said = size_of(request.messages)
    return Size(frame + said.size_bytes, said.media).tokens
