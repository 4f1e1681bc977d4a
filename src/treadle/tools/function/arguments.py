"""The arguments that a function's own signature asks for: a definition for the model, and a parse
of what it sent.

Light on purpose: pydantic, and all that turns annotations into a schema (schema.py), come with the
first use. Entry: `SignatureArguments`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from treadle.errors import AgentError
from treadle.messages.message import JsonText
from treadle.models.model import ToolDefinition
from treadle.tools.function.parsed_text import ParsedText
from treadle.tools.function.signature import AnyFunction, Signature

_first_use: Final = threading.RLock()
"""Invariant: a definition is built once, also where two threads ask for it at the same time.

A type's own schema may ask for another tool's.
"""


class SignatureArguments:
    """Arguments as the signature of a function defines them. Lazy: evaluated by `definition` or
    `parse`.
    """

    def __init__(
        self, name: str, description: str | None, signature: Signature, docstring: str | None
    ) -> None:
        self.name: Final = name
        self.description: Final = description
        """Description for the model; None: from the docstring."""
        self.signature: Final = signature
        self.docstring: Final = docstring
        self._definition: ToolDefinition | None = None
        self._validate: Callable[[str], dict[str, Any]] = self._validate_first

    def of_bound(self, method: AnyFunction) -> SignatureArguments:
        """The same for a method that was bound to an instance: `self` is not asked for."""
        return SignatureArguments(
            self.name,
            self.description,
            Signature.of(method, self.signature.namespaces[1]),
            self.docstring,
        )

    @property
    def definition(self) -> ToolDefinition:
        """Raises AgentError(invalid) naming the function, the parameter and its type where that is
        no JSON.
        """
        if self._definition is None:
            with _first_use:
                if self._definition is None:
                    self._build()
        assert self._definition is not None
        return self._definition

    def parse(self, arguments_json: JsonText) -> dict[str, Any]:
        """Validated values by name, without those that are left to the function's own defaults.

        Raises InvalidArguments.
        """
        try:
            return self._validate(arguments_json)
        except (ValueError, RecursionError) as e:
            from treadle.tools.function.refusals import invalid_arguments  # noqa: PLC0415  only for wrong arguments

            if not arguments_json.strip():
                return self.parse("{}")
            raise invalid_arguments(e, self.definition, arguments_json) from e

    def _validate_first(self, arguments_json: JsonText) -> dict[str, Any]:
        _ = self.definition
        return self._validate(arguments_json)

    def _build(self) -> None:
        from treadle.tools.function.schema import describe  # noqa: PLC0415  it imports pydantic: 90 ms that nobody pays who uses no such tool

        described = describe(self.name, self.signature, self.docstring)
        text = self.description if self.description is not None else described.text
        self._validate = described.validate
        self._definition = ToolDefinition(
            name=self.name, description=text, parameters=described.parameters
        )


class WithText:
    """The arguments of an isolated tool, which take their text along."""

    def __init__(self, arguments: SignatureArguments) -> None:
        self._arguments = arguments

    @property
    def definition(self) -> ToolDefinition:
        return self._arguments.definition

    def parse(self, arguments_json: JsonText) -> ParsedText:
        return ParsedText(self._arguments.parse(arguments_json), arguments_json)


class Unbound:
    """Placeholder for the arguments of a method that was taken from its class."""

    def __init__(self, label: str) -> None:
        self._error = AgentError(
            "invalid",
            (
                f"{label} is a method: take the tool from an instance, which becomes its first "
                "parameter"
            ),
        )

    @property
    def definition(self) -> ToolDefinition:
        raise self._error

    def parse(self, arguments_json: JsonText) -> dict[str, Any]:
        raise self._error
