"""Let the coding assistant change files of a directory, with a person who approves.

python examples/coding.py
"""

import asyncio
import tempfile
from pathlib import Path

from treadle import ApprovalRequest, Approve, Deny
from treadle.coding import CodingAgent
from treadle.testing import ScriptedModel

CALL = {"name": "write", "arguments": {"path": "answer.txt", "content": "42\n"}}
MODEL = ScriptedModel([{"text": "I write it.", "tool_calls": [CALL]}, {"text": "Done."}])


async def approve(request: ApprovalRequest) -> Approve | Deny:
    print(f"{request.name}: {request.arguments}")
    return Approve() if request.name == "write" else Deny("only files may change")


async def main() -> None:
    folder = Path(tempfile.mkdtemp())
    async with CodingAgent(folder, model=MODEL, on_approval=approve) as coder:
        print((await coder.run("Write the answer into answer.txt.")).unwrap())
    print((folder / "answer.txt").read_text().strip())


asyncio.run(main())
