"""Agents defined in files, and in Python modules that the configuration names.

places.py finds the files, text.py reads their text with line numbers, keys.py validates the keys,
inputs.py the input values and schemas.py output schemas. modules.py imports agents and tools from
Python modules, naming.py resolves tool names, nesting.py checks agents among each other's tools,
making.py makes agents, catalog.py combines them, and format.py describes the format as a JSON
Schema for editors. key_reader.py has the typed reading of values. Entry points: `Catalog`.
"""

from __future__ import annotations

from treadle.agents.definitions.catalog import ASSISTANT as ASSISTANT
from treadle.agents.definitions.catalog import Catalog as Catalog
from treadle.agents.definitions.inputs import missing as missing
from treadle.agents.definitions.inputs import typed as typed
from treadle.agents.definitions.modules import import_modules as import_modules
from treadle.agents.definitions.places import DefinitionProblem as DefinitionProblem
