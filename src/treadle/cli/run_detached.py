"""`treadle run --detach`: submits the run to a queue for a worker. Entry points: `detached`,
`check_detached`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

from treadle._internal.redaction import Redactor
from treadle.cli.agent_option import ChosenAgent, module_hooks
from treadle.cli.echo import echo
from treadle.cli.exits import CommandFailed
from treadle.cli.journal_option import open_runtime
from treadle.cli.next_steps import follow_command
from treadle.cli.run_request import last_here
from treadle.cli.terminal import put, put_json
from treadle.config import Config
from treadle.types import new_id

if TYPE_CHECKING:
    from treadle.cli.run_request import RunRequest

HERE_ONLY = {
    "output_file": ("-o", "there is no answer yet"),
    "verbose": ("-v", "nothing is shown"),
    "allow": (
        "--allow",
        "rules apply where the run is driven: pass it to `treadle worker`",
    ),
    "network": ("--network", "commands run where the run is driven: pass it to `treadle worker`"),
    "no_sandbox": (
        "--no-sandbox",
        "commands run where the run is driven: pass it to `treadle worker`",
    ),
}
"""Options that only apply to the process that drives a run, with flag and reason."""


def check_detached(options: dict[str, Any]) -> None:
    """Raise CommandFailed for options that conflict with `--detach` or that need it."""
    if not options["detach"]:
        if alone := [f"--{name}" for name in ("queue", "priority") if options[name] is not None]:
            raise CommandFailed(f"{alone[0]} is for a run in a queue: add --detach")
        return
    if options["ephemeral"]:
        raise CommandFailed(
            "--detach leaves the run to a worker, and --ephemeral keeps it in this process: "
            "leave one of them out"
        )
    if options["output"] == "stream-json":
        raise CommandFailed(
            "--detach ends before there is an event: leave out --output stream-json, and follow "
            "the run with `treadle runs follow ID`"
        )
    for name, (flag, why) in HERE_ONLY.items():
        if options[name]:
            raise CommandFailed(
                f"--detach leaves the run to a worker, so it cannot be used with {flag}: {why}"
            )


def check_journal(url: str) -> None:
    """Raise CommandFailed for a journal that other processes cannot open."""
    if url == "memory:":
        raise CommandFailed(
            "workers cannot share an in-memory journal: choose one with --journal sqlite:///FILE "
            "or "
            "postgresql://…"
        )


def detached(config: Config, wish: RunRequest, chosen: ChosenAgent) -> None:
    """Submit the run and print its id. Raises AgentError and CommandFailed."""
    check_journal(wish.journal)
    session, run_id = anyio.run(_submitted, config, wish, chosen)
    if wish.output == "json":
        put_json(
            {"run_id": run_id, "session_id": session, "queue": wish.queue, "status": "queued"},
            Redactor(config.secrets()),
        )
    else:
        put(run_id)
    if not wish.quiet:
        echo(
            f"queued in {wish.queue}; {follow_command(run_id, wish.journal_option)} follows it",
            err=True,
        )


async def _submitted(config: Config, wish: RunRequest, chosen: ChosenAgent) -> tuple[str, str]:
    async with open_runtime(config, wish.journal, hooks=module_hooks(config)) as runtime:
        session = (
            await last_here(runtime, wish.cwd)
            if wish.goes_on
            else wish.session or new_id("session")
        )
        for other in (chosen.agent, *chosen.others):
            runtime.agents.register(other)
        run_id = await runtime.submit(
            chosen.agent,
            wish.prompt,
            queue=wish.queue,
            priority=wish.priority,
            session=session,
            inputs=chosen.inputs,
            settings=wish.settings,
            limits=chosen.limits,
            mode=config.defaults.mode,
            cwd=wish.cwd,
            on_ask=wish.on_ask,
            on_unknown=wish.on_unknown,
            user_id=wish.user,
            tags=wish.tags,
            metadata=wish.metadata,
        )
    return session, run_id
