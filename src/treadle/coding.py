"""The coding assistant of `treadle run` and `treadle chat`, for programs: its agent for one
directory, and a runtime with the directory's settings.

agents/coding/ defines the agent. Entry points: `CodingAgent`, `CodingOptions`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypedDict

from msgspec import structs
from typing_extensions import Unpack

from treadle.agents.agent import Agent
from treadle.agents.coding import coding_agent
from treadle.config import Config, Permissions, load
from treadle.config.plugins import offers
from treadle.errors import AgentError
from treadle.events.hooks import Hook
from treadle.journal import open_journal
from treadle.messages.message import Prompt
from treadle.messages.result import RunResult
from treadle.models.model import Model
from treadle.policy.permissions import permissions_of
from treadle.policy.sandboxes import SANDBOX_USES
from treadle.runtime.options import checked_mode, limits_over
from treadle.runtime.run_stream import RunStream
from treadle.runtime.runtime import Runtime
from treadle.runtime.session import ResumeOptions, RunOptions
from treadle.tools.approval import Approver
from treadle.tools.registry import closest
from treadle.tools.tool import Tool, ToolProvider
from treadle.types import Limits, Mode, SystemBlock

_INSTEAD: Final[Mapping[str, str]] = {
    "agents": "pass the agents in tools=",
    "allowed_tools": "use permissions=Permissions(allow=…)",
    "can_use_tool": "use on_approval=",
    "disallowed_tools": "use permissions=Permissions(deny=…)",
    "max_budget_usd": "use limits=Limits(cost_usd=…)",
    "max_turns": "use limits=Limits(turns=…)",
    "permission_mode": "use mode=",
    "resume": "use session=, an option of each run",
    "setting_sources": "use settings=True",
    "system_prompt": "use instructions=",
}


class CodingOptions(TypedDict, total=False):
    """Options of a `CodingAgent`.

    Attributes:
        model: `provider:id` or a Model object. Default: the large model of the configuration.
        mode: Calls that need no approval. Default: that of the configuration, or `ask`.
        tools: Tools in addition to those of the assistant; an `Agent` becomes a tool.
        mcp_servers: MCP servers in addition to those of the settings.
        instructions: Text at the end of the system prompt.
        permissions: Rules that replace those of the settings.
        sandbox: Sandbox for commands: `auto` (where it works), `on` (or fail), `off`, or the name
            of a plug-in. Default: that of the configuration.
        on_approval: Async function that is asked about each call that needs approval. Without it,
            such calls are denied, and their runs end as `approval_needed`.
        limits: Limits of each run, over those of the configuration: 50 turns and 600 seconds.
        hooks: Hooks of every run.
        journal: URL of the journal. Default: `memory:`.
        settings: True reads what `treadle run` reads: the user's configuration, and of a trusted
            project its configuration, AGENTS.md, skills, agents and MCP servers. Default: False,
            which reads environment variables only.
    """

    model: str | Model
    mode: Mode
    tools: Sequence[Tool[Any] | Agent[Any, Any]]
    mcp_servers: Sequence[ToolProvider]
    instructions: str
    permissions: Permissions
    sandbox: str
    on_approval: Approver
    limits: Limits
    hooks: Sequence[Hook[Any]]
    journal: str
    settings: bool


class CodingAgent:
    """The coding assistant of `treadle run`, in this process, for the files of one directory.

    `async with CodingAgent("/repo", mode="accept-edits") as coder: await coder.run("Fix it.")`. It
    reads, searches and edits files and runs commands, within its mode, its rules and the sandbox.

    Attributes:
        agent: Definition of the assistant, for `runtime` and `agent.with_(…)`.
        cwd: The directory.
        warnings: Warnings to show once, such as settings that were ignored.
        runtime: Runtime of its runs: journal, events, sessions.
    """

    def __init__(self, cwd: str | Path = ".", **options: Unpack[CodingOptions]) -> None:
        """Read the settings and define the assistant. Blocks while it reads files.

        Raises AgentError(invalid) for a directory that does not exist, an invalid option or invalid
        settings.
        """
        _check(options)
        self.cwd = Path(os.path.abspath(os.path.expanduser(cwd)))
        if not self.cwd.is_dir():
            raise AgentError("invalid", f"cwd {str(cwd)!r} is not a directory")
        config = _configured(self.cwd, options)
        approver = options.get("on_approval")
        made = coding_agent(config, self.cwd, attended=approver is not None)
        self.agent = _extended(made.agent, options)
        self.warnings = (*config.warnings, *made.warnings)
        self._runs = RunOptions(cwd=self.cwd, mode=config.defaults.mode, limits=config.limits)
        if approver is not None:
            self._runs["on_approval"] = approver
        self.runtime = Runtime(
            config=config,
            journal=open_journal(options.get("journal", "memory:"), lease_s=config.workers.lease_s),
            hooks=options.get("hooks", ()),
        )

    async def __aenter__(self) -> Self:
        await self.runtime.__aenter__()
        self.runtime.agents.register(self.agent)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.runtime.__aexit__(kind, error, trace)

    async def run(self, text: Prompt, **options: Unpack[RunOptions]) -> RunResult[str]:
        """Run the assistant to its end. Runs with the same `session=` continue one conversation.

        `options` replace those of this object. Raises the errors of `Runtime.run`; cancellation
        closes the run.
        """
        return await self.runtime.run(self.agent, text, **{**self._runs, **options})

    def stream(self, text: Prompt, **options: Unpack[RunOptions]) -> RunStream[str]:
        """Start a run and stream its events: `async with coder.stream(…) as run: async for event in
        run: …`. Options as for `run`.
        """
        return self.runtime.stream(self.agent, text, **{**self._runs, **options})

    async def resume(self, run_id: str, **options: Unpack[ResumeOptions]) -> RunResult[str]:
        """Continue a run that waits for approval or whose process was killed, with this object's
        `on_approval`. Raises the errors of `Runtime.resume`.
        """
        if "on_approval" in self._runs and "on_approval" not in options:
            options["on_approval"] = self._runs["on_approval"]
        return await self.runtime.resume(run_id, agent=self.agent, **options)


def _check(options: Mapping[str, object]) -> None:
    """Raise AgentError(invalid) for an unknown option."""
    known: frozenset[str] = CodingOptions.__optional_keys__
    for name in options:
        if name not in known:
            near = closest(name, sorted(known))
            instead = _INSTEAD.get(name) or (
                f"{f'did you mean {near!r}? ' if near else ''}Its options: "
                f"{', '.join(sorted(known))}"
            )
            raise AgentError("invalid", f"CodingAgent has no option {name!r}: {instead}")


def _configured(cwd: Path, options: CodingOptions) -> Config:
    """Return the configuration of the assistant's runtime, with the options over it."""
    config = load(cwd=cwd, files=options.get("settings", False))
    permissions, sandbox = (
        options.get("permissions", config.permissions),
        options.get("sandbox", config.defaults.sandbox),
    )
    if sandbox not in SANDBOX_USES and not offers("sandboxes", sandbox):
        raise AgentError("invalid", f"sandbox={sandbox!r} is not one of: {', '.join(SANDBOX_USES)}")
    permissions_of(allow=permissions.allow, ask=permissions.ask, deny=permissions.deny)
    defaults = structs.replace(
        config.defaults,
        mode=checked_mode(options.get("mode", config.defaults.mode)),
        sandbox=sandbox,
    )
    return structs.replace(
        config,
        defaults=defaults,
        permissions=permissions,
        limits=limits_over(options.get("limits"), config.limits),
    )


def _extended(agent: Agent[object, str], options: CodingOptions) -> Agent[object, str]:
    """Return the assistant with the additions of the options."""
    said = options.get("instructions", "")
    return agent.with_(
        model=options.get("model", agent.model),
        tools=[*agent.own_tools, *options.get("tools", ())],
        mcp_servers=[*agent.mcp_servers, *options.get("mcp_servers", ())],
        context=[*agent.context, *([SystemBlock(text=said.replace("$", "$$"))] if said else [])],
    )
