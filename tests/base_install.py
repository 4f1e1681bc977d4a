"""What `pip install treadle` gives: run by the Python of an environment that has nothing else.

    python tests/base_install.py FOLDER_OF_THE_ENVIRONMENT

Asserts that an agent runs with a tool and a journal on disk, that the command names its extra, and
that the environment is as small as docs/compatibility.md says. pytest does not collect this file.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from importlib.metadata import distribution, distributions
from pathlib import Path

from treadle import Agent, AgentError, Runtime, tool
from treadle.testing import ScriptedModel

PACKAGES_MOST, DIRECT_MOST, MEGABYTES_MOST = 20, 10, 60
TOOLS_OF_THE_ENVIRONMENT = {"pip", "setuptools", "wheel"}


@tool(effect="pure")
async def price(title: str) -> float:
    """Price of a book."""
    return 12.5


async def run(folder: Path) -> None:
    call = {"name": "price", "arguments": {"title": "Warp and Weft"}}
    model = ScriptedModel([{"tool_calls": [call]}, {"text": "12.50 euros."}])
    async with Runtime.open(f"sqlite:///{folder / 'runs.db'}") as runtime:
        result = await runtime.run(Agent(name="shop", model=model, tools=[price]), "How much?")
        assert result.unwrap() == "12.50 euros.", result
        assert len(await runtime.journal.runs()) == 1


def check_errors(environment: Path) -> None:
    from treadle.tools.builtin.coding import default_tools

    message = ""
    try:
        default_tools()
    except AgentError as e:
        message = e.message
    assert message.endswith("pip install 'treadle[coding]'"), message
    told = subprocess.run(
        [environment / "bin" / "treadle", "run", "Hello"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.returncode, told.stdout) == (1, ""), told
    assert told.stderr.endswith("pip install 'treadle[cli]'\n"), told
    assert told.stderr.count("\n") == 1, told


def check_size(environment: Path) -> None:
    names = {one.metadata["Name"].lower() for one in distributions()} - TOOLS_OF_THE_ENVIRONMENT
    direct = [one for one in distribution("treadle").requires or [] if "extra ==" not in one]
    size = sum(
        path.stat().st_size
        for one in distributions()
        if one.metadata["Name"].lower() in names
        for path in map(Path, map(str, map(one.locate_file, one.files or [])))
        if path.is_file() and path.suffix != ".pyc"
    )
    print(f"base install: {len(direct)} requirements, {len(names)} packages, {size / 1e6:.0f} MB")
    assert len(direct) <= DIRECT_MOST, direct
    assert len(names) <= PACKAGES_MOST, sorted(names)
    assert size <= MEGABYTES_MOST * 1e6, size


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(run(Path(scratch)))
    check_errors(Path(sys.argv[1]))
    check_size(Path(sys.argv[1]))
