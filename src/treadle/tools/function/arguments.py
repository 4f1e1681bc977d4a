"""Arguments defined by a function's signature: the definition for the model, and the parser of the
JSON that the model sends.

Cheap to import: schema.py, and pydantic with it, is imported on first use. Entry point:
`SignatureArguments`.
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
"""Invariant: each definition is built once, even if two threads request it at the same time.

Reentrant, because building the schema of one type may require the definition of another tool.
"""


class SignatureArguments:
    """Arguments as the signature of a function defines them. The annotations are evaluated on the
    first use of `definition` or `parse`.
    """

    def __init__(
        self, name: str, description: str | None, signature: Signature, docstring: str | None
    ) -> None:
        self.name: Final = name
        self.description: Final = description
        """Description for the model; None uses the docstring."""
        self.signature: Final = signature
        self.docstring: Final = docstring
        self._definition: ToolDefinition | None = None
        self._validate: Callable[[str], dict[str, Any]] = self._validate_first

    def of_bound(self, method: AnyFunction) -> SignatureArguments:
        """Return the arguments of the bound method, without `self`."""
        return SignatureArguments(
            self.name,
            self.description,
            Signature.of(method, self.signature.namespaces[1]),
            self.docstring,
        )

    @property
    def definition(self) -> ToolDefinition:
        """Definition for the model. Raises AgentError(invalid), which names the function, the
        parameter and its type, if JSON cannot describe the type.
        """
        if self._definition is None:
            with _first_use:
                if self._definition is None:
                    self._build()
        assert self._definition is not None
        return self._definition

    def parse(self, arguments_json: JsonText) -> dict[str, Any]:
        """Return the validated values by name. Parameters that the model omitted are absent, so
        that the function's own defaults apply.

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
        from treadle.tools.function.schema import describe  # noqa: PLC0415  imports pydantic, which takes 90 ms; only for agents with such tools

        described = describe(self.name, self.signature, self.docstring)
        text = self.description if self.description is not None else described.text
        self._validate = described.validate
        self._definition = ToolDefinition(
            name=self.name, description=text, parameters=described.parameters
        )


class WithText:
    """Arguments of an isolated tool. Parsed arguments keep their JSON text."""

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
                f"{label} is a method: take the tool from an instance, which is passed as its "
                "first argument"
            ),
        )

    @property
    def definition(self) -> ToolDefinition:
        raise self._error

    def parse(self, arguments_json: JsonText) -> dict[str, Any]:
        raise self._error
