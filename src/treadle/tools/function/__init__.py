"""Tools from functions: `@tool` derives the schema from the signature, `FunctionTool` takes a JSON
Schema.

    decorator.py      the `@tool` decorator
    function_tool.py  `FunctionTool`: definition, arguments and execution
    traits.py         options that a tool declares: effect, timeout, approval, and so on
    signature.py      parameters of a function, and which of them is the context
    docstring.py      descriptions of the tool and its parameters, from the docstring
    schema.py         JSON Schema and validator of a signature; imports pydantic
    arguments.py      definition and argument parser of `@tool`
    given.py          argument parser of `FunctionTool`, from a JSON Schema
    refusals.py       error messages to the model for invalid arguments
    returned.py       conversion of a return value into content for the model
    threads.py        sync functions in threads, and calls abandoned there
    isolate.py        parent side of a function that runs in its own process
    isolated.py       child side of it
    parsed_text.py    arguments of an isolated call together with their text

Entry points: `tool`, `FunctionTool`.
"""

from __future__ import annotations

from treadle.tools.function.decorator import tool as tool
from treadle.tools.function.function_tool import FunctionTool as FunctionTool
