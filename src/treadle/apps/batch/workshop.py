"""Resources shared by the prompts of a batch. Entry points: `Workshop`, `workshop`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import anyio

from treadle._internal.environment import child_environment
from treadle._internal.redaction import Redactor
from treadle.agents.agent import Agent
from treadle.agents.coding import coding_agent
from treadle.agents.definitions import Catalog
from treadle.apps.batch.batch import Terms
from treadle.apps.batch.gates import Gates
from treadle.apps.batch.git import GitFailed
from treadle.apps.batch.leftovers import LEFT_BY
from treadle.apps.batch.logbook import Logbook
from treadle.apps.batch.queue import LocalQueue, RunSubmitter
from treadle.apps.batch.report import ReportRow
from treadle.apps.batch.workers_queue import WorkersQueue
from treadle.apps.batch.worktrees import BatchRepository, Worktrees, worktree_shelf
from treadle.config import Config, project_of, trust_of
from treadle.errors import AgentError
from treadle.messages.events import Event
from treadle.messages.message import Part
from treadle.policy.sandboxes import chosen_sandbox
from treadle.runtime.runtime import Runtime
from treadle.runtime.sandboxing import OPEN, egress_to
from treadle.tools.confinement import Sandbox


class Watcher(Protocol):
    """Observer of a batch's progress. Its methods must not block."""

    def says(self, number: int, what: str) -> None:
        """Report that a prompt has reached a new stage."""
        ...

    def heard(self, number: int, event: Event) -> None:
        """Report an event of a prompt's run."""
        ...

    def ended(self, row: ReportRow) -> None:
        """Report that a prompt has ended, or cannot proceed now."""
        ...

    def warns(self, text: str) -> None:
        """Warn a person about the whole batch."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    logbook: Logbook
    runtime: Runtime
    """Runtime whose journal has the runs."""
    queue: RunSubmitter
    watcher: Watcher
    gates: Gates
    judging: anyio.CapacityLimiter
    """Limit on the number of prompts whose gates run concurrently."""
    repository: BatchRepository | None
    """Repository of the batch's folder; None if there is none, or it is unknown."""
    worktrees: Worktrees | None
    """Worktrees; None if every prompt is worked on in the folder of the batch."""
    attached: Sequence[Part]
    """Message parts that are placed before the text of each prompt."""


@asynccontextmanager
async def workshop(
    logbook: Logbook, runtime: Runtime, watcher: Watcher, attached: Sequence[Part]
) -> AsyncGenerator[Workshop]:
    """Open the shared resources. Leaving the context ends every run in progress.

    Raises AgentError(invalid) if the worktrees' repository no longer exists.
    """
    batch, terms, config = logbook.batch, logbook.batch.terms, runtime.config
    environment = {**child_environment(config.secrets()), LEFT_BY: batch.id}
    repository = await repository_of(Path(terms.cwd), environment, needed=terms.worktree)
    assistants = Assistants(config, terms)
    for warning in assistants.warnings:
        watcher.warns(warning)
    sandbox = await _sandbox(config, watcher) if terms.gates else None
    listed = config.permissions.network if sandbox is not None and terms.mode == "full" else "none"
    network = listed if isinstance(listed, str) else egress_to(listed)
    if network == "open":
        watcher.warns(f"gates: {OPEN}")

    def heard(event: Event) -> None:
        if (number := batch.number_of(event.session_id)) is not None:
            watcher.heard(number, event)

    try:
        async with _queue(runtime, terms, assistants, heard) as queue:
            yield Workshop(
                logbook=logbook,
                runtime=runtime,
                queue=queue,
                watcher=watcher,
                gates=Gates(
                    commands=terms.gates,
                    timeout_s=terms.gate_timeout_s,
                    environment=environment,
                    secrets=Redactor(config.secrets()),
                    kept=logbook.folder,
                    scratch=logbook.scratch,
                    sandbox=sandbox,
                    is_open=terms.mode == "full",
                    network=network,
                ),
                judging=anyio.CapacityLimiter(terms.parallel),
                repository=repository,
                worktrees=repository.worktrees(batch, worktree_shelf(environment))
                if repository is not None and terms.worktree
                else None,
                attached=attached,
            )
    finally:
        if not isinstance(network, str):
            await network.aclose()
        if sandbox is not None:
            await sandbox.aclose()


def _queue(
    runtime: Runtime, terms: Terms, assistants: Assistants, heard: Callable[[Event], None]
) -> LocalQueue | WorkersQueue:
    if terms.queue is None:
        return LocalQueue(runtime, assistants.of, heard)
    return WorkersQueue(runtime, assistants.of, heard, terms.queue)


class Assistants:
    """Agents for the folders of prompts: the coding assistant with the folder's instructions, or
    the agent of the batch as defined where it was started.

    A worktree is trusted as far as its original.
    """

    def __init__(self, config: Config, terms: Terms) -> None:
        """Find the agent. Raises AgentError(invalid) if it does not exist or is invalid."""
        self._config, self._terms = config, terms
        self._trust = (
            trust_of(Path(config.home), project_of(Path(terms.cwd)))
            if config.home and terms.worktree
            else None
        )
        self._made: dict[Path, Agent[Any, Any]] = {}
        self.warnings = self._make(Path(terms.cwd))[1]

    def of(self, folder: Path) -> Agent[Any, Any]:
        """Return the same agent for every run in a folder, regardless of later changes there.

        Blocks while it reads files.
        """
        if folder not in self._made:
            agent, model = self._make(folder)[0], self._terms.model
            if isinstance(agent.model, str | None) or agent.model.name != model:
                agent = replace(agent, model=model)
            output = self._terms.output
            self._made[folder] = agent if output is None else agent.with_(output=output)
        return self._made[folder]

    def _make(self, folder: Path) -> tuple[Agent[Any, Any], Sequence[str]]:
        name, cwd = self._terms.agent, Path(self._terms.cwd)
        if name is not None:
            catalog = Catalog(self._config, cwd, works_in=folder)
            catalog.name(name)
            return catalog.agent(name), catalog.remarks(name)
        project = project_of(folder) if folder != cwd else None
        trust = (
            self._trust.at(project.root)
            if self._trust is not None and project is not None
            else None
        )
        made = coding_agent(self._config, folder, trust=trust)
        return made.agent, made.warnings


async def repository_of(
    cwd: Path, environment: dict[str, str], *, needed: bool
) -> BatchRepository | None:
    """Return the repository around `cwd`; None if there is none or git is missing. Raises
    AgentError(invalid) instead if one is `needed`.
    """
    try:
        return await BatchRepository.of(cwd, environment)
    except GitFailed:
        if needed:
            raise
        return None


async def _sandbox(config: Config, watcher: Watcher) -> Sandbox | None:
    """Return a working sandbox for the gates. Without one, gates run unconfined, with a warning,
    because a person wrote them.

    Raises AgentError(invalid) if the configuration requires a sandbox.
    """
    if config.defaults.sandbox == "off":
        return None
    own = Path(config.home) if config.home else None
    sandbox = chosen_sandbox(
        config.defaults.sandbox, own if own is not None and own.is_dir() else None
    )
    standing = await sandbox.standing()
    if standing.works:
        return sandbox
    await sandbox.aclose()
    if config.defaults.sandbox != "auto":
        raise AgentError(
            "invalid",
            (
                f"defaults.sandbox is {config.defaults.sandbox}, and no sandbox works: "
                f"{standing.text}. Fix that, or set it to auto"
            ),
        )
    watcher.warns(
        f"gates run without a sandbox: {standing.text}; they may run code that the model wrote"
    )
    return None
