"""Catalog of the agents that files and modules define, loaded and validated on demand.

places.py finds the files, keys.py reads them, naming.py resolves tool names, nesting.py checks
agents among each other's tools, and making.py makes agents. Entry point: `Catalog`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from treadle.agents.agent import Agent
from treadle.agents.definitions.keys import ReadDefinition, read_keys
from treadle.agents.definitions.making import AgentMaker
from treadle.agents.definitions.modules import Modules, Of, import_modules
from treadle.agents.definitions.naming import (
    Meaning,
    NameResolver,
    UnknownName,
)
from treadle.agents.definitions.nesting import Nesting, ResolvedDefinition
from treadle.agents.definitions.places import (
    DefinitionFile,
    DefinitionProblem,
    FoundDefinitions,
    add_file,
    find,
)
from treadle.agents.definitions.text import read
from treadle.agents.registry import plugin_agent
from treadle.config import Config, Trust, project_of, trust_of
from treadle.config.file import Broken
from treadle.config.keys import STAND_INS
from treadle.config.plugins import names
from treadle.config.readers import nearest
from treadle.config.trust import command
from treadle.errors import AgentError

ASSISTANT = "treadle"
"""Reserved name of the coding assistant."""
SIZES = ("large", "small")
"""Aliases for the configured models."""


class _Unmakeable(Exception):
    """Raised for a problem that is detected when an agent is created, not when its file is read."""

    def __init__(self, file: DefinitionFile, text: str) -> None:
        super().__init__(text)
        self.problem = DefinitionProblem(str(file.path), 1, text)


class Catalog:
    """Agents that a working directory and a configuration define.

    Reads files and imports modules on first use. Excludes the definitions of an untrusted project
    until `name` or `admit_all` admits them.
    """

    def __init__(
        self, config: Config, cwd: Path, *, works_in: Path | None = None, trust: Trust | None = None
    ) -> None:
        """Create a catalog. `works_in`: working directory of stdio MCP servers, if it is not `cwd`.

        `trust`: replaces the stored trust in the project of `cwd`, for a copy of a project that
        Treadle has made.
        """
        self._config, self._cwd = config, (works_in or cwd).resolve()
        own, project = Path(config.home) if config.home else None, project_of(cwd)
        trust = trust or (trust_of(own, project) if own is not None else None)
        self.found: FoundDefinitions
        # withheld, because the project is untrusted
        self.found, self.withheld = find(own, project, trust)
        self._read: dict[str, ResolvedDefinition] = {}
        self._made: dict[str, Agent[Any, Any]] = {}
        self._maker = AgentMaker(config, self._cwd, self._agent, self._described)
        self._nesting = Nesting(self)
        self.warnings = self._maker.warnings

    # ------------------------------------------------------------ names

    @cached_property
    def modules(self) -> Modules:
        return import_modules(self._config.agents, self._config.origin("agents"))

    @cached_property
    def tool_names(self) -> NameResolver:
        return NameResolver(self.names(), self.modules.tools, self._config.mcp_servers, self.adopt)

    def names(self) -> list[str]:
        """Return the names of all agents, including those with problems."""
        return sorted({*self.found.files, *self.found.refused, *self.modules.agents})

    def name(self, name: str) -> None:
        """Admit the definitions of an untrusted project if the user typed a name that only this
        project defines.

        Admits all of them, because the agent may have others among its tools. Names that are
        defined elsewhere keep their meaning.
        """
        theirs = self.withheld.files.get(name)
        if theirs is not None and name in self.found.files:
            self.found.hidden.append((theirs, self.found.files[name].path))
        elif (
            name not in self.names()
            and (theirs or name in self.withheld.refused)
            and not self.adopt(name)
        ):
            self.admit_all()
            file = self.found.files.get(name)
            if file is not None and file.root is not None:
                self.warnings.append(
                    f"{file.path}: the agent {name!r} runs because you named it; {file.root} is "
                    f"not trusted. Review it, then run: {command(file.root)}"
                )

    def adopt(self, name: str) -> bool:
        """Add the agent that a plug-in provides under this name, as if a module defined it. Returns
        False if there is none. Raises AgentError(invalid) for a broken plug-in.
        """
        if name == ASSISTANT or (found := plugin_agent(name)) is None:
            return False
        loaded, agent = found
        self.modules.agents[name] = Of(loaded.plugin.distribution, agent)
        return True

    def adopt_all(self) -> None:
        """Add the agents of all plug-ins whose names are free, for display to the user."""
        for name in names("agents"):
            try:
                if name not in self.names():
                    self.adopt(name)
            except AgentError as e:
                self.modules.problems.append(DefinitionProblem(name, None, e.message))

    def admit_all(self) -> None:
        """Admit every definition of an untrusted project, for display to the user."""
        self.found.admit(self.withheld, self.modules.agents)
        self.withheld = FoundDefinitions()
        self.__dict__.pop("tool_names", None)
        self._read.clear()

    def definition(self, name: str) -> ReadDefinition | None:
        """Return the definition from the agent's file; None if it has none, or has problems."""
        return self.reading(name).definition if name in self.found.files else None

    def callee(self, name: str) -> Agent[Any, Any] | ReadDefinition | None:
        """Return the agent of a module, or the definition from the agent's file; None if it has
        problems.
        """
        of = self.modules.agents.get(name)
        return self.definition(name) if of is None else of.it

    def is_untrusted(self, name: str) -> bool:
        """Return True if the agent belongs to a project that is not trusted."""
        return name in self.found.files and self.found.files[name].is_untrusted

    def hidden(self) -> list[str]:
        """Return a line `NAME: …` for each file that another file of the same name replaces."""
        return self.found.replaced()

    def remarks(self, name: str) -> tuple[str, ...]:
        """Return the warnings for the user who runs this agent. Call it after `agent`."""
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
        add_file(one_of, [path], real.parent)  # trusted, because the user named it
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
        following = [*names]
        for each in following:
            self._nesting.look(each, (), seen, found)
            for visited in seen:
                following += [one for one in self._next(visited) if one not in following]
        for visited in seen:
            found |= dict.fromkeys(self._nesting.wrong_handoffs(visited))
        return list(found | dict.fromkeys(self._unmakeable(names)))

    def _next(self, name: str) -> list[str]:
        """Return the names of the agents that an agent of a file can hand over to."""
        definition = self.definition(name)
        return [] if definition is None else [named.text for named in definition.handoffs]

    def _described(self, name: str) -> str:
        found = self.callee(name)
        return "" if found is None else found.description

    def _unmakeable(self, names: Sequence[str]) -> Iterator[DefinitionProblem]:
        """Yield problems that appear only when an agent is created, if there are no others."""
        for name in names:
            wrong: dict[DefinitionProblem, None] = {}
            self._nesting.look(name, (), {}, wrong)
            try:
                if not wrong:
                    self._agent(name)
            except _Unmakeable as e:
                yield e.problem

    def refused(self, name: str) -> DefinitionProblem | None:
        """Return the problem that keeps an agent from having this name; None if there is none."""
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
        if name in known or self.adopt(name):
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

    def reading(self, name: str) -> ResolvedDefinition:
        """Return the definition in the agent's file, read on first use."""
        if name not in self._read:
            self._read[name] = self._fresh(self.found.files[name])
        return self._read[name]

    def _fresh(self, file: DefinitionFile) -> ResolvedDefinition:
        place = str(file.path)
        if file.name == ASSISTANT:
            return ResolvedDefinition(
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
            return ResolvedDefinition(None, (), (DefinitionProblem(place, e.line, e.text),))
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
        for named in definition.handoffs:
            if (wrong := self._wrong_handoff(file, named.text)) is not None:
                problems.append(DefinitionProblem(place, named.line, f"handoffs: {wrong}"))
        problems.sort(key=lambda problem: problem.line or 0)
        return ResolvedDefinition(None if problems else definition, tuple(tools), tuple(problems))

    def _wrong_handoff(self, file: DefinitionFile, name: str) -> str | None:
        """Return the error in a name among an agent's handoffs; None if it is valid."""
        if name == file.name:
            return f"the agent {name!r} cannot hand over to itself: leave it out"
        known = self.names()
        if name in known or self.adopt(name):
            return None
        near = nearest(name, known)
        hint = f"did you mean {near!r}?" if near else "define it, or leave it out"
        return self.withheld.refusal(name) or f"there is no agent {name[:80]!r}: {hint}"

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

        Creates those that it can hand over to as well. Opens no connections. Raises
        AgentError(invalid) for an unknown name, and with every problem of the agent and of the
        agents among its tools and handoffs.
        """
        if problems := self.problems(name):
            raise AgentError("invalid", "\n".join(map(str, problems)))
        made = self._agent(name)
        following = [name]
        for each in following:
            following += [one for one in self._next(each) if one not in following]
            if each in self.found.files:
                self._agent(each)
        return made

    def made(self) -> list[Agent[Any, Any]]:
        """Return the agents of modules, and the agents of files that were created so far."""
        return [*(of.it for of in self.modules.agents.values()), *self._made.values()]

    def _agent(self, name: str) -> Agent[Any, Any]:
        """Return the agent, created on first use. Raises _Unmakeable."""
        if (of := self.modules.agents.get(name)) is not None:
            return of.it
        if name not in self._made:
            reading = self.reading(name)
            assert reading.definition is not None, "it was checked"
            meanings = [meaning for meaning, _ in reading.tools]
            try:
                self._made[name] = self._maker.make(reading.definition, meanings)
            except AgentError as e:
                raise _Unmakeable(reading.definition.file, e.message) from e
        return self._made[name]
