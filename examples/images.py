"""Ask about an image and a document.

python examples/images.py
"""

import os
import tempfile
from pathlib import Path

import treadle
from treadle import Agent, MediaPart
from treadle.testing import ScriptedModel

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8"
    "cfc000000301010018dd8db00000000049454e44ae426082"
)
notes = Path(tempfile.mkdtemp()) / "notes.txt"
notes.write_text("The loom of 1805 used punched cards.")
agent = Agent(
    name="reader", model=os.environ.get("MODEL") or ScriptedModel([{"text": "A loom of 1805."}])
)
loom = MediaPart.from_bytes(PIXEL, name="loom.png")
result = treadle.run_sync(agent, ["What is this?", notes, loom])
print(result.unwrap())
print([part.media_type for part in result.messages[0].parts if isinstance(part, MediaPart)])
