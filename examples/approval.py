"""Hold a tool call for a person's approval, even while no program runs: one process asks, and
another one brings the answer later.

    python examples/approval.py --folder /tmp/mails                  # ends; the run waits
    python examples/approval.py --folder /tmp/mails --approve    # or: --deny "say it more kindly"
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from treadle import Agent, Runtime, ToolContext, tool
from treadle.events import ApprovalRequested

SCRIPT = Path(__file__).with_suffix(".json")


@tool(effect="once", needs_approval=True)
async def send_mail(ctx: ToolContext[Path], to: str, text: str) -> str:
    """Send a mail."""
    with (ctx.deps / "sent.txt").open("a") as sent:  # a real one would do more
        sent.write(f"to {to}: {text}\n")
    return "sent"


async def main() -> None:
    parser = argparse.ArgumentParser(description="Human approval over a restart.")
    parser.add_argument(
        "--model",
        default=f"script:{SCRIPT}",
        help="like anthropic:claude-opus-5-5; a script without a key where nothing is said",
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("mails"), help="of the journal and of what was sent"
    )
    parser.add_argument("--approve", action="store_true")
    parser.add_argument("--deny", metavar="REASON", default="")
    said = parser.parse_args()
    said.folder.mkdir(parents=True, exist_ok=True)
    agent = Agent(
        name="clerk", instructions="You answer mails.", model=said.model, tools=[send_mail]
    )

    async with Runtime.open(f"sqlite:///{said.folder / 'journal.db'}") as rt:
        waits = next(iter(await rt.journal.runs(status="waiting")), None)
        if waits is None:
            result = await rt.run(
                agent, "Tell Bob that we take the blue one.", deps=said.folder, on_ask="wait"
            )
        else:
            calls = [
                event.call_id
                for event in await rt.events(waits.run_id)
                if isinstance(event, ApprovalRequested)
            ]
            approve = calls if said.approve else []
            deny = {call: str(said.deny) for call in calls} if said.deny else {}
            result = await rt.resume(
                waits.run_id, agent, deps=said.folder, approve=approve, deny=deny
            )

        print(result.outcome.value)
        if result.waiting:
            for event in await rt.events(result.run_id):
                if isinstance(event, ApprovalRequested):
                    print(f"{event.name} waits for --approve or --deny: {event.arguments}")
        print(result.text)


asyncio.run(main())
