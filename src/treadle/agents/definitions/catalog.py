"""Catalog of the agents that files and modules define, loaded and validated on demand.

places.py finds the files, keys.py reads them and naming.py resolves tool names. Entry points:
`Catalog`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from treadle.agents.agent import Agent
from treadle.agents.definitions.inputs import missing
from treadle.agents.definitions.keys import ReadDefinition, read_keys
from treadle.agents.definitions.modules import Modules, import_modules
from treadle.agents.definitions.naming import (
    Callee,
    CompletionTool,
    Meaning,
    NameResolver,
    OwnTool,
    ServerTools,
    UnknownName,
)
from treadle.agents.definitions.places import (
    DefinitionFile,
    DefinitionProblem,
    FoundDefinitions,
    add_file,
    find,
)
from treadle.agents.definitions.text import read
from treadle.config import Config, Trust, project_of, trust_of
from treadle.config.file import Broken
from treadle.config.keys import STAND_INS
from treadle.config.readers import nearest
from treadle.config.trust import command
from treadle.config.workspace import lower
from treadle.errors import AgentError
from treadle.tools.tool import Tool, ToolProvider
from treadle.types import Limits

ASSISTANT = "treadle"
"""Reserved name of the coding assistant."""
NESTED_MAX = 20
"""Maximum depth of agents that use each other as tools."""
SIZES = ("large", "small")
"""Aliases for the configured models."""


class _Read(NamedTuple):
    definition: ReadDefinition | None
    """The definition; None if there are problems."""
    tools: tuple[tuple[Meaning, int], ...]
    """Resolved tools with their line numbers."""
    problems: tuple[DefinitionProblem, ...]


class _Refused(Exception):
    """Raised for a problem that appears when an agent is created, not when its file is read."""

    def __init__(self, file: DefinitionFile, line: int, text: str) -> None:
        super().__init__(text)
        self.problem = DefinitionProblem(str(file.path), line, text)


class Catalog:
    """Agents that a working directory and a configuration define.

    Reads files and imports modules on first use. Excludes the definitions of an untrusted project
    until `name` or `admit_all` admits them.
    """

    def __init__(
        self, config: Config, cwd: Path, *, works_in: Path | None = None, trust: Trust | None = None
    ) -> None:
        """`works_in`: working directory of stdio MCP servers, if it is not `cwd`.

        `trust`: replaces the stored trust in the project of `cwd`, for a copy of a project that
        Treadle has made.
        """
        self._config, self._cwd = config, (works_in or cwd).resolve()
        own, project = Path(config.home) if config.home else None, project_of(cwd)
        trust = trust or (trust_of(own, project) if own is not None else None)
        self.found: FoundDefinitions
        self.found, self.withheld = find(own, project, trust)  # withheld: of an untrusted project
        self._read: dict[str, _Read] = {}
        self._made: dict[str, Agent[Any, Any]] = {}
        self.warnings: list[str] = []
        """Warnings for the user about the agents created so far."""

    # ------------------------------------------------------------ names

    @cached_property
    def modules(self) -> Modules:
        return import_modules(self._config.agents, self._config.origin("agents"))

    @cached_property
    def tool_names(self) -> NameResolver:
        return NameResolver(self.names(), self.modules.tools, self._config.mcp_servers)

    def names(self) -> list[str]:
        """Return the names of all agents, including those with problems."""
        return sorted({*self.found.files, *self.found.refused, *self.modules.agents})

    def name(self, name: str) -> None:
        """Admit the definitions of an untrusted project if a person typed a name that only this
        project defines.

        Admits all of them, because the agent may have others among its tools. Names that are
        defined elsewhere keep their meaning.
        """
        theirs = self.withheld.files.get(name)
        if theirs is not None and name in self.found.files:
            self.found.hidden.append((theirs, self.found.files[name].path))
        elif name not in self.names() and (theirs or name in self.withheld.refused):
            self.admit_all()
            file = self.found.files.get(name)
            if file is not None and file.root is not None:
                self.warnings.append(
                    f"{file.path}: the agent {name!r} runs because you named it; {file.root} is "
                    f"not trusted. Review it, then run: {command(file.root)}"
                )

    def admit_all(self) -> None:
        """Admit every definition of an untrusted project, for display to a person."""
        self.found.admit(self.withheld, self.modules.agents)
        self.withheld = FoundDefinitions()
        self.__dict__.pop("tool_names", None)
        self._read.clear()

    def definition(self, name: str) -> ReadDefinition | None:
        """Return the definition from the agent's file; None if it has none, or has problems."""
        return self._reading(name).definition if name in self.found.files else None

    def is_untrusted(self, name: str) -> bool:
        """True if the agent belongs to a project that is not trusted."""
        return name in self.found.files and self.found.files[name].is_untrusted

    def hidden(self) -> list[str]:
        """Return a line `NAME: …` for each file that another file of the same name replaces."""
        return self.found.replaced()

    def remarks(self, name: str) -> tuple[str, ...]:
        """Return the warnings for a person who runs this agent. Call it after `agent`."""
        return (*(line for line in self.hidden() if line.startswith(f"{name}: ")), *self.warnings)

    def add(self, path: Path) -> str:
        """Add a file from any location as if it belonged to the project, and return the agent's
        name.

        Replaces an agent of the same name.
        """
        real = Path(os.path.realpath(path))
        same = next(
            (
                file
                for file in self.found.files.values()
                if os.path.realpath(file.path) == str(real)
            ),
            None,
        )
        if same is not None:
            return same.name
        one_of = FoundDefinitions()
        add_file(one_of, [path], real.parent)  # trusted, because a person named it
        self.found.files.pop(path.stem, None)
        self.found.refused.pop(path.stem, None)
        self.found.files.update(one_of.files)
        self.found.refused.update(one_of.refused)
        return path.stem

    # ------------------------------------------------------------ problems

    def problems(self, name: str | None = None) -> list[DefinitionProblem]:
        """Return the problems of an agent and the agents among its tools; without a name, of all
        agents and modules.

        Raises AgentError(invalid) for an unknown name.
        """
        if name is not None:
            self._must_be_there(name)
        found = dict.fromkeys(self.modules.problems)
        seen: dict[str, int] = {}
        names = self.names() if name is None else [name]
        for each in names:
            self._look(each, (), seen, found)
        return list(found | dict.fromkeys(self._unmakeable(names)))

    def _unmakeable(self, names: Sequence[str]) -> Iterator[DefinitionProblem]:
        """Yield problems that appear only when an agent is created, if there are no others."""
        for name in names:
            wrong: dict[DefinitionProblem, None] = {}
            self._look(name, (), {}, wrong)
            try:
                if not wrong:
                    self._agent(name)
            except _Refused as e:
                yield e.problem

    def _look(
        self,
        name: str,
        chain: tuple[str, ...],
        seen: dict[str, int],
        found: dict[DefinitionProblem, None],
    ) -> int:
        """Add the problems of an agent and of those among its tools to `found`, and return its
        depth.

        `seen`: depths of the agents visited so far. `chain`: callers, from the first down to the
        one that has `name` among its tools.
        """
        if name in seen:
            return seen[name]
        deepest = 0
        if (refused := self._refused(name)) is not None:
            found[refused] = None
        elif name in self.found.files:
            reading, chain = self._reading(name), (*chain, name)
            found |= dict.fromkeys(reading.problems)
            for callee, line in self._callees(reading):
                below, wrong = (
                    0,
                    self._circle(chain, callee, line) or self._uncallable(name, callee, line),
                )
                if wrong is None:
                    below = self._look(callee, chain, seen, found) if len(chain) < NESTED_MAX else 1
                    wrong = (
                        self._too_deep(chain, callee, line)
                        if len(chain) + below > NESTED_MAX
                        else None
                    )
                if wrong is not None:
                    found[wrong] = None
                deepest = max(deepest, below)
        seen[name] = 1 + deepest
        return seen[name]

    def _callees(self, reading: _Read) -> Iterator[tuple[str, int]]:
        for meaning, line in reading.tools:
            if isinstance(meaning, Callee):
                yield meaning.name, line

    def _circle(self, chain: tuple[str, ...], callee: str, line: int) -> DefinitionProblem | None:
        if callee not in chain:
            return None
        circle = " -> ".join((*chain[chain.index(callee) :], callee))
        text = f"agents call each other in a cycle: {circle}. Remove one from the other's tools"
        return DefinitionProblem(str(self.found.files[chain[-1]].path), line, text)

    def _uncallable(self, name: str, callee: str, line: int) -> DefinitionProblem | None:
        """Return a problem if the callee needs inputs: callers pass only a prompt."""
        of = self.modules.agents.get(callee)
        called = of.it if of is not None else self.definition(callee)
        if called is None or not (needed := missing(called.inputs, called.instructions, ())):
            return None
        text = (
            f"tools: the agent {callee!r} needs the input {needed[0]!r}, which no caller "
            "can provide: give it a default there"
        )
        return DefinitionProblem(str(self.found.files[name].path), line, text)

    def _too_deep(self, chain: tuple[str, ...], callee: str, line: int) -> DefinitionProblem:
        return DefinitionProblem(
            str(self.found.files[chain[-1]].path),
            line,
            f"agents are nested deeper than {NESTED_MAX} levels: {chain[0]} -> … -> {callee}",
        )

    def _refused(self, name: str) -> DefinitionProblem | None:
        if (refused := self.found.refused.get(name)) is not None:
            return refused
        file = self.found.files.get(name)
        if file is not None and (of := self.modules.agents.get(name)) is not None:
            return DefinitionProblem(
                str(file.path),
                1,
                f"two agents are named {name!r}, this one and one of {of.module}: rename one",
            )
        return None

    def _must_be_there(self, name: str) -> None:
        known = self.names()
        if name in known:
            return
        if (withheld := self.withheld.refusal(name)) is not None:
            raise AgentError("invalid", withheld)
        if problems := self.modules.problems:  # a broken module may define the agent
            raise AgentError("invalid", "\n".join(map(str, problems)))
        near = nearest(name, [*known, *self.withheld.files])
        there_are = (
            f"there are {', '.join(known[:20])}"
            if known
            else "none is defined here: `treadle init` writes an example"
        )
        raise AgentError(
            "invalid",
            f"there is no agent {name[:80]!r}: {f'did you mean {near!r}?' if near else there_are}",
        )

    # ------------------------------------------------------------ one definition

    def _reading(self, name: str) -> _Read:
        if name not in self._read:
            self._read[name] = self._fresh(self.found.files[name])
        return self._read[name]

    def _fresh(self, file: DefinitionFile) -> _Read:
        place = str(file.path)
        if file.name == ASSISTANT:
            return _Read(
                None,
                (),
                (
                    DefinitionProblem(
                        place,
                        1,
                        (
                            f"{ASSISTANT!r} is the name of the coding assistant: give the file "
                            "another one"
                        ),
                    ),
                ),
            )
        try:
            definition, problems = read_keys(file, read(file))
        except Broken as e:
            return _Read(None, (), (DefinitionProblem(place, e.line, e.text),))
        problems += self._wrong_model(definition)
        tools: list[tuple[Meaning, int]] = []
        for named in definition.tools:
            try:
                tools.append((self.tool_names.meaning(named.text), named.line))
            except UnknownName as e:
                problems.append(
                    DefinitionProblem(
                        place, named.line, f"tools: {self.withheld.refusal(named.text) or e}"
                    )
                )
        problems.sort(key=lambda problem: problem.line or 0)
        return _Read(None if problems else definition, tuple(tools), tuple(problems))

    def _wrong_model(self, definition: ReadDefinition) -> list[DefinitionProblem]:
        model, file = definition.model, definition.file
        if model is None or model.text in SIZES:
            return []
        try:
            provider, _ = self._config.split(model.text)
        except AgentError as e:
            return [DefinitionProblem(str(file.path), model.line, f"model: {e.message}")]
        if file.root is not None and provider in STAND_INS:
            text = (
                f"model: {model.text!r} is a file, and a project may not replace "
                "a model with a file: pass it with --model"
            )
            return [DefinitionProblem(str(file.path), model.line, text)]
        return []

    # ------------------------------------------------------------ agents

    def agent(self, name: str) -> Agent[Any, Any]:
        """Return the definition as an `Agent`.

        Opens no connections. Raises AgentError(invalid) for an unknown name, and with every problem
        of the agent and of the agents among its tools.
        """
        if problems := self.problems(name):
            raise AgentError("invalid", "\n".join(map(str, problems)))
        return self._agent(name)

    def made(self) -> list[Agent[Any, Any]]:
        """Return the agents of modules, and the agents of files that were created so far."""
        return [*(of.it for of in self.modules.agents.values()), *self._made.values()]

    def _agent(self, name: str) -> Agent[Any, Any]:
        """Return the agent, created on first use. Raises _Refused."""
        if (of := self.modules.agents.get(name)) is not None:
            return of.it
        if name not in self._made:
            reading = self._reading(name)
            assert reading.definition is not None, "it was checked"
            self._made[name] = self._make(
                reading.definition, [meaning for meaning, _ in reading.tools]
            )
        return self._made[name]

    def _make(self, definition: ReadDefinition, meanings: Sequence[Meaning]) -> Agent[Any, Any]:
        tools: list[Tool[Any] | Agent[Any, Any]] = []
        wanted: dict[str, list[str | None]] = {}
        for meaning in meanings:
            match meaning:
                case OwnTool(tool):
                    tools.append(tool)
                case Callee(callee):
                    tools.append(self._agent(callee))
                case ServerTools():
                    wanted.setdefault(meaning.server, []).append(meaning.tool)
                case CompletionTool():
                    pass
        try:
            return Agent(
                name=definition.file.name,
                description=definition.description,
                instructions=definition.instructions,
                model=self._model(definition),
                tools=tools,
                output=definition.output,
                completion=any(isinstance(meaning, CompletionTool) for meaning in meanings),
                mcp_servers=[self._server(name, tuple(named)) for name, named in wanted.items()],
                limits=self._limits(definition),
                inputs=definition.inputs,
            )
        except AgentError as e:
            raise _Refused(definition.file, 1, e.message) from e

    def _server(self, name: str, wanted: tuple[str | None, ...]) -> ToolProvider:
        """Return an MCP server, restricted to the tools `wanted`, by the server's names for them.
        None selects all tools that the configuration allows.

        Agents that want different tools share one process.
        """
        from treadle.tools.mcp import McpServer  # noqa: PLC0415  few agents have such tools

        server = McpServer.of(name, self._config.mcp_servers[name], cwd=self._cwd)
        return (
            server
            if None in wanted
            else msgspec.structs.replace(
                server, tools=tuple(tool for tool in wanted if tool is not None)
            )
        )

    def _model(self, definition: ReadDefinition) -> str | None:
        """Return the model's name; None for the configuration's large model."""
        model = definition.model
        return (
            None
            if model is None or model.text == "large"
            else self._config.models.small
            if model.text == "small"
            else model.text
        )

    def _limits(self, definition: ReadDefinition) -> Limits | None:
        """Return the limits. A project can only lower the limits in the user's configuration."""
        limits, file = definition.limits, definition.file
        if limits is None or file.root is None:
            return limits
        above: dict[str, None] = {}
        for name, line in definition.limit_lines.items():
            if (
                reason := lower(getattr(limits, name), getattr(self._config.limits, name), ())
            ) is not None:
                above[name] = None
                self.warnings.append(f"{file.path}:{line}: limits.{name} is ignored: {reason}")
        return msgspec.structs.replace(limits, **above)
