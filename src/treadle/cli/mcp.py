"""`treadle mcp`: serves agents as MCP tools over standard input and output.

The server is in treadle.apps.mcp_server. Entry points: `mcp`.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import click

from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import plain
from treadle.cli.agent_option import (
    ASSISTANT,
    ChosenAgent,
    chosen_agent,
    defined_agent,
    made_agent,
    module_hooks,
)
from treadle.cli.echo import echo
from treadle.cli.exits import CommandFailed, failing
from treadle.cli.help import HELP
from treadle.cli.journal_option import journal_url, open_runtime
from treadle.cli.run_options import check_directory, configured, run_options, settings_of
from treadle.config import Config
from treadle.errors import AgentError

if TYPE_CHECKING:
    from treadle.agents.definitions import Catalog
    from treadle.runtime.session import SessionOptions

INSTRUCTIONS = (
    "Each tool is a Treadle agent, which works on its prompt autonomously, with its own tools, "
    "and returns its answer."
)


@click.command(context_settings=HELP)
@click.option(
    "--agent",
    "names",
    metavar="NAME",
    multiple=True,
    help=(
        "Serve this agent; repeatable. Default: all defined agents, or the coding assistant, "
        "`treadle`."
    ),
)
@run_options
def mcp(names: tuple[str, ...], **options: Any) -> None:
    """Serve agents as tools over the Model Context Protocol, on standard input and output.

    A client starts this command. Its tools are the agents, with a `prompt` and the agent's inputs.
    Each call is a run in the journal. Approvals are requested through the client if it supports
    that; limits and mode apply to each run.

    Ends when the client closes the input, with exit code 0; with 2 on a usage error, 130 when
    stopped. Open runs are then closed.
    """
    from treadle.apps.mcp_server import require_sdk  # noqa: PLC0415  --help needs none of it

    check_directory(options["cwd"])
    with failing():
        require_sdk()
        config = configured(options, cwd=options["cwd"])
        agents = _agents(config, names, options)
        for warning in dict.fromkeys(
            (*config.warnings, *(warning for chosen in agents for warning in chosen.warnings))
        ):
            _say(Redactor(config.secrets()).exact(warning))
        stopped = anyio.run(_serve, config, agents, options)
    sys.exit(130 if stopped else 0)


# There is no prompt that --file could add to.
mcp.params[:] = [one for one in mcp.params if one.name != "attached"]


async def _serve(config: Config, agents: Sequence[ChosenAgent], options: dict[str, Any]) -> bool:
    """Serve until the input closes. Return True if a signal ended it."""
    from treadle.apps.mcp_server.agents import ServedAgent  # noqa: PLC0415  brings the SDK
    from treadle.apps.mcp_server.server import McpToolServer  # noqa: PLC0415  brings the SDK
    from treadle.apps.mcp_server.stdio import serve_stdio  # noqa: PLC0415  brings the SDK

    stopped = Stopped()
    async with open_runtime(
        config, journal_url(config, options["journal"]), hooks=module_hooks(config)
    ) as runtime:
        for name, agent in {
            agent.name: agent for chosen in agents for agent in (*chosen.others, chosen.agent)
        }.items():
            if name not in runtime.agents:
                runtime.agents.register(agent)
        served = [
            ServedAgent(chosen.agent, runtime, _options(config, chosen, options))
            for chosen in agents
        ]
        server = McpToolServer(served, instructions=INSTRUCTIONS, redact=runtime.redact)
        if sys.stdin.isatty():
            _say(
                f"serving {', '.join(chosen.agent.name for chosen in agents)} to an MCP client on "
                "standard input, which is meant for programs; Ctrl-C stops it"
            )
        async with anyio.create_task_group() as group:
            group.start_soon(stopped.watch, group.cancel_scope)
            await serve_stdio(server)
            group.cancel_scope.cancel()
    return stopped.by_signal


class Stopped:
    by_signal = False

    async def watch(self, scope: anyio.CancelScope) -> None:
        """Close the open runs on the first signal, and end the process immediately on the third."""
        # Windows has no SIGHUP; under nohup it stays ignored.
        hang_up = getattr(signal, "SIGHUP", None)
        heard = [
            signal.SIGINT,
            signal.SIGTERM,
            *(
                [hang_up]
                if hang_up is not None and signal.getsignal(hang_up) is not signal.SIG_IGN
                else []
            ),
        ]
        with anyio.open_signal_receiver(*heard) as signals:
            count = 0
            async for number in signals:
                self.by_signal = True
                scope.cancel()
                count += 1
                if count == 2:
                    signal.signal(number, signal.SIG_DFL)


def _agents(config: Config, names: Sequence[str], options: dict[str, Any]) -> list[ChosenAgent]:
    """Return the named agents; without names, all defined agents, or the coding assistant if there
    are none. Raises AgentError(invalid) and CommandFailed.
    """
    from treadle.agents.definitions import Catalog  # noqa: PLC0415  it brings the library for YAML

    catalog = Catalog(config, options["cwd"].resolve())
    found: list[ChosenAgent] = []
    if not names and (withheld := catalog.withheld.left_out()):
        _say(withheld)
    for name in dict.fromkeys(names or catalog.names() or [ASSISTANT]):
        try:
            found.append(_agent(config, catalog, name, options, named=bool(names)))
        except AgentError as e:
            if names:
                raise
            _say(f"the agent {name} is not served: {e.message}")
    if not found:
        raise CommandFailed(
            "no agent can be served: fix their definitions, or name a valid one with --agent"
        )
    return found


def _agent(
    config: Config, catalog: Catalog, name: str, options: dict[str, Any], *, named: bool
) -> ChosenAgent:
    if name == ASSISTANT:
        return chosen_agent(
            config,
            options["cwd"].resolve(),
            {**options, "agent": None, "inputs": (), "output_schema": None},
        )
    chosen = (defined_agent if named else made_agent)(config, catalog, name)
    return (
        chosen._replace(agent=replace(chosen.agent, model=options["model"]))
        if options["model"]
        else chosen
    )


def _options(config: Config, chosen: ChosenAgent, options: dict[str, Any]) -> SessionOptions:
    return {
        "settings": settings_of(options),
        "limits": chosen.limits,
        "mode": config.defaults.mode,
        "cwd": options["cwd"].resolve(),
        "on_ask": options["on_ask"],
        "on_unknown": options["on_unknown"],
    }


def _say(text: str) -> None:
    echo(f"! {plain(text)}", err=True)
