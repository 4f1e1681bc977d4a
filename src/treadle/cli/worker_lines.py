"""Log lines of `treadle worker` on standard error, and metrics of its runs. Entry points:
`WorkerOutput`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from treadle._internal.terminal_text import one_line, plain
from treadle.cli.echo import echo
from treadle.errors import AgentError

if TYPE_CHECKING:
    from treadle._internal.redaction import Redactor
    from treadle.agents.agent import Agent
    from treadle.cli.worker_agents import Agents
    from treadle.events.telemetry.workers import WorkerMetrics
    from treadle.journal.run_info import RunInfo
    from treadle.messages.events import Event
    from treadle.runtime.runtime import Runtime


class WorkerOutput:
    """Output of a worker: log lines on standard error, and a count of finished runs."""

    def __init__(self, secrets: Redactor, *, quiet: bool, verbose: bool) -> None:
        self._secrets, self._quiet, self._verbose = secrets, quiet, verbose
        self._under_way: dict[str, str] = {}
        """Name of the agent, by id of each run that started here and has not ended."""
        self.metrics: WorkerMetrics | None = None

    def follow(self, runtime: Runtime, agents: Agents, *, counted: bool) -> None:
        """Subscribe to the runtime's events if runs are `counted` or printed."""
        self._runtime, self._agents = runtime, agents
        if counted or self._verbose:
            runtime.hub.agents.add(self)

    async def left(self) -> int:
        """Return the number of runs that started here and that no process drives now."""
        number = 0
        for run_id in self._under_way:
            with suppress(AgentError):
                number += (await self._runtime.journal.info(run_id)).status in ("queued", "stopped")
        return number

    def say(self, text: str) -> None:
        if not self._quiet:
            echo(plain(self._secrets.text(text)), err=True)

    def warn(self, text: str) -> None:
        echo(f"! {plain(self._secrets.text(text))}", err=True)

    async def agent_of(self, info: RunInfo) -> Agent[Any, Any] | None:
        agent = await self._agents.of(info)
        self._under_way[info.run_id] = info.agent
        if self._verbose:
            self.say(
                f"> {info.run_id} {info.agent}: "
                f"{one_line(self._secrets.shortened(info.prompt), 80)}"
            )
        return agent

    def put(self, event: Event) -> None:
        """Record the end of a run. Called by the event hub."""
        from treadle.cli.render import summary  # noqa: PLC0415  not needed for --help
        from treadle.messages.events import RunEnd  # noqa: PLC0415  not needed for --help
        from treadle.types import Outcome  # noqa: PLC0415  not needed for --help

        if (
            isinstance(event, RunEnd)
            and (agent := self._under_way.pop(event.run_id, None)) is not None
        ):
            if self.metrics is not None:
                self.metrics.ended(agent, event)
            if self._verbose:
                # Otherwise the end is not in the journal.
                is_over = isinstance(event.id, str) or event.outcome is Outcome.APPROVAL_NEEDED
                self.say(
                    f"< {event.run_id} "
                    f"{summary(event) if is_over else 'released unfinished: another worker continues it'}"  # noqa: E501
                )

    def close(self) -> None:
        pass
