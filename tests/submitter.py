"""A process of its own that submits runs, for tests that kill it:

`python -m tests.submitter URL RUN_ID SESSION`; TREADLE_CRASH_AT says where it dies.
"""

from __future__ import annotations

import sys

import anyio

from tests.doubles import agent
from treadle.config import Config
from treadle.runtime.runtime import Runtime


async def main(url: str, run_id: str, session: str) -> None:
    async with Runtime.open(url, config=Config()) as runtime:
        await runtime.submit(
            agent("anthropic:claude-haiku-5-5"),
            "Say hello.",
            run_id=run_id,
            session=session,
            queue="default",
            tenant="t",
        )


if __name__ == "__main__":
    _, given_url, given_run, given_session = sys.argv
    anyio.run(main, given_url, given_run, given_session)
