"""Validation of the keys of an agent definition. Each problem has a line number, and a suggestion
for a misspelt name.

catalog.py resolves tools and models; text.py reads the file. Entry points: `read_keys`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast, get_args

from treadle.agents.definitions.inputs import HOLE, InputType, misfit
from treadle.agents.definitions.key_reader import LIMITS, KeyReader, SourceText
from treadle.agents.definitions.places import DefinitionFile, DefinitionProblem
from treadle.agents.definitions.text import DefinitionText
from treadle.agents.templates import Input
from treadle.config.document import MappingEntry, Node
from treadle.config.keys import shown
from treadle.config.readers import nearest, one_of, yes_or_no
from treadle.types import Limits

KEYS = ("description", "model", "tools", "handoffs", "limits", "output", "inputs", "instructions")
INPUT_TYPES: tuple[str, ...] = get_args(InputType)
INPUT_KEYS = ("type", "required", "default", "description")

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, kw_only=True)
class ReadDefinition:
    """A definition file whose keys are validated. Tools and models are not resolved yet."""

    file: DefinitionFile
    description: str
    instructions: str
    model: SourceText | None
    tools: tuple[SourceText, ...]
    handoffs: tuple[SourceText, ...]
    """Names of agents that can continue its runs."""
    limits: Limits | None
    limit_lines: Mapping[str, int]
    output: dict[str, Any] | None
    output_line: int
    inputs: Mapping[str, Input]


def read_keys(
    file: DefinitionFile, written: DefinitionText
) -> tuple[ReadDefinition, list[DefinitionProblem]]:
    """Return the definition and its problems.

    If there are problems, the definition contains only the valid keys.
    """
    reading = _Reading(file, written)
    return reading.definition(), reading.problems


@dataclass
class _Reading(KeyReader):
    written: DefinitionText

    def definition(self) -> ReadDefinition:
        document = self.written.document
        root = document.root
        for twice in document.duplicates:
            self.wrong(
                twice.line, f"the key {twice.key!r} is given twice (first in line {twice.first})"
            )
        entries = self.mapping(root, "a definition", 1) if root is not None else {}
        self.known(entries, KEYS, "")
        inputs = self._inputs(entries.get("inputs"))
        lines = (
            {
                name: entry.key.line
                for name, entry in self.entries(entries.get("inputs"), "inputs").items()
            }
            if inputs
            else {}
        )
        limits, limit_lines = self._limits(entries.get("limits"))
        output = entries.get("output")
        return ReadDefinition(
            file=self.file,
            description=self._description(entries.get("description"), root),
            instructions=self._instructions(entries.get("instructions"), inputs, lines),
            model=self.source_text(entries.get("model"), "model"),
            tools=self._names(entries.get("tools"), "tools", "[read, grep]"),
            handoffs=self._names(entries.get("handoffs"), "handoffs", "[billing]"),
            limits=limits,
            limit_lines=limit_lines,
            output=self._output(output),
            output_line=1 if output is None else output.key.line,
            inputs=inputs,
        )

    # ------------------------------------------------------------ keys

    def _description(self, entry: MappingEntry | None, root: Node | None) -> str:
        found = self.source_text(entry, "description")
        if entry is None or entry.node.value is None:
            line = 1 if entry is None else entry.key.line
            self.wrong(
                line,
                "needs a description: its purpose, in one sentence"
                + ("" if root is not None else ", before its instructions"),
            )
        return found.text.strip() if found else ""

    def _instructions(
        self,
        entry: MappingEntry | None,
        inputs: Mapping[str, Input],
        input_lines: Mapping[str, int],
    ) -> str:
        body = self.written.body
        if body is not None and entry is not None:
            self.wrong(
                entry.key.line,
                (
                    "the instructions of a Markdown file are what follows its second line `---`: "
                    "move them there"
                ),
            )
        given = self.source_text(entry, "instructions") if body is None else None
        instructions = body if body is not None else given.text.strip() if given else ""
        if inputs:
            for name in dict.fromkeys(
                hole for hole in HOLE.findall(instructions) if hole and hole not in inputs
            ):
                near = nearest(name, inputs)
                hint = (
                    f"did you mean ${{{near}}}?"
                    if near
                    else f"declare it, or write $${{{name}}} for the characters themselves"
                )
                self.wrong(
                    self._line_of(name, entry),
                    f"${{{name}}} is not among the declared inputs ({', '.join(inputs)}): {hint}",
                )
        for name in sorted(set(inputs) - set(HOLE.findall(instructions))):
            self.wrong(
                input_lines[name],
                (
                    f"inputs.{name} is unused: write ${{{name}}} in the instructions, or remove "
                    "the input"
                ),
            )
        return instructions

    def _line_of(self, variable: str, entry: MappingEntry | None) -> int:
        """Return the line of the instructions where the variable first occurs."""
        lines = self.written.lines
        first = entry.key.line if entry is not None else _body_line(lines)
        return next(
            (
                n
                for n, line in enumerate(lines[first - 1 :], first)
                if variable in HOLE.findall(line)
            ),
            first,
        )

    def _names(self, entry: MappingEntry | None, key: str, example: str) -> tuple[SourceText, ...]:
        named: dict[str, SourceText] = {}
        for node in self.list(entry, key):
            if not isinstance(node.value, str) or not node.value.strip():
                self.wrong(
                    node.line,
                    (
                        f"{key} must be a list of names, like {example}; {shown(node.plain())} "
                        "is none"
                    ),
                )
            elif node.value in named:
                self.wrong(
                    node.line,
                    f"{key} names {node.value!r} twice (first in line {named[node.value].line})",
                )
            else:
                named[node.value] = SourceText(text=node.value, line=node.line)
        return tuple(named.values())

    def _limits(self, entry: MappingEntry | None) -> tuple[Limits | None, dict[str, int]]:
        entries = self.entries(entry, "limits")
        self.known(entries, LIMITS, "limits")
        values: dict[str, Any] = {}
        for name, inner in entries.items():
            if name in LIMITS and inner.node.value is not None:
                values[name] = self.value(inner, ("limits", name), LIMITS[name])
        lines = {name: entries[name].key.line for name in values}
        return (
            Limits(**{name: value for name, value in values.items() if value is not None})
            if values
            else None
        ), lines

    def _output(self, entry: MappingEntry | None) -> dict[str, Any] | None:
        if entry is None or entry.node.value is None:
            return None
        schema = entry.node.plain()
        if not isinstance(schema, dict):
            self.wrong(
                entry.key.line,
                (
                    "output must be a JSON Schema of an object, like {type: object, properties: "
                    f"…}}, not {shown(schema)}"
                ),
            )
            return None
        from treadle.agents.definitions.schemas import fault_of  # noqa: PLC0415  imports the validator, 40 ms

        if (fault := fault_of(schema)) is not None:
            self.wrong(_line_at(entry, fault.path), fault.text("output"))
        return cast("dict[str, Any]", schema)

    def _inputs(self, entry: MappingEntry | None) -> dict[str, Input]:
        inputs: dict[str, Input] = {}
        for name, inner in self.entries(entry, "inputs").items():
            if not _VARIABLE.fullmatch(name):
                self.wrong(
                    inner.key.line,
                    f"{name[:60]!r} cannot be the name of an input: use letters, digits and '_'",
                )
            elif (declared := self._input(name, inner)) is not None:
                inputs[name] = declared
        return inputs

    def _input(self, name: str, entry: MappingEntry) -> Input | None:
        place, before = ("inputs", name), len(self.problems)
        entries = self.mapping(entry.node, f"inputs.{name}", entry.key.line)
        if len(self.problems) > before:
            return None
        self.known(entries, INPUT_KEYS, f"inputs.{name}")
        if not (kind := self._type(entries.get("type"), place, entry)):
            return None
        required = (
            self.value(entries["required"], (*place, "required"), yes_or_no)
            if "required" in entries
            else None
        )
        description = self.source_text(entries.get("description"), f"inputs.{name}.description")
        default = entries["default"].node.plain() if "default" in entries else None
        if default is not None and (wrong := misfit(kind, default)):
            self.wrong(entries["default"].node.line, f"inputs.{name}.default {wrong}")
        if len(self.problems) > before:
            return None
        return Input(
            type=kind,
            required=required is not False,
            default=default,
            description=description.text if description else "",
        )

    def _type(
        self, entry: MappingEntry | None, place: tuple[str, ...], above: MappingEntry
    ) -> InputType | None:
        if entry is None:
            self.wrong(
                above.key.line, f"{'.'.join(place)} needs a type: one of {', '.join(INPUT_TYPES)}"
            )
            return None
        return self.value(entry, (*place, "type"), one_of(*INPUT_TYPES))


def _body_line(lines: list[str]) -> int:
    """Return the line where the body of a Markdown file begins."""
    return next(
        (n + 1 for n, line in enumerate(lines[1:], 2) if re.fullmatch(r"---[ \t]*\r?", line)), 1
    )


def _line_at(entry: MappingEntry, path: tuple[str | int, ...]) -> int:
    """Return the line of the value at `path`, or of the innermost existing value above it."""
    node, line = entry.node, entry.key.line
    for step in path:
        if isinstance(node.value, dict) and step in node.value:
            inner = node.value[str(step)]
            node, line = inner.node, inner.key.line
        elif isinstance(node.value, tuple) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.line
    return line
