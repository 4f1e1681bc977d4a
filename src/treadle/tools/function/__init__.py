"""Tools from functions: `@tool` takes a function's signature for a schema, `FunctionTool` a given one (decorator.py).

What a tool declares is traits.py; arguments are read by signature.py, docstring.py and schema.py, or by given.py; what a function gives
is returned.py; threads and processes are threads.py and isolate.py. Entry: `tool`, `FunctionTool`.
"""

from __future__ import annotations

from treadle.tools.function.decorator import FunctionTool as FunctionTool
from treadle.tools.function.decorator import tool as tool
