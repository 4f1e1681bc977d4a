"""Tools from functions: `@tool` takes a function's signature for a schema, `FunctionTool` a given
one (decorator.py, function_tool.py).

What a tool declares about itself is traits.py. A function as a JSON Schema: signature.py,
docstring.py, schema.py. Arguments, and what the model is told of wrong ones: arguments.py,
given.py, refusals.py. What a function gives: returned.py. Sync functions in threads,
those that were abandoned, and functions in a process of their own: threads.py, isolate.py,
isolated.py. Entry: `tool`, `FunctionTool`.

    parsed_text.py  arguments of an isolated call together with their text
"""

from __future__ import annotations

from treadle.tools.function.decorator import tool as tool
from treadle.tools.function.function_tool import FunctionTool as FunctionTool
