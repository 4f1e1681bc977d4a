"""Agents that are defined in files, and in Python modules that the configuration names; nothing
here runs or prints.

Which files there are: places.py. What stands in one: its text with lines text.py, its keys keys.py,
values of inputs inputs.py, the schema of an output schemas.py. Agents and tools of Python modules:
modules.py. What the name of a tool means: naming.py. All of it together, checked and made:
catalog.py. The format as a JSON Schema, for editors: format.py. Entry: `Catalog`.
"""

from __future__ import annotations

from treadle.agents.definitions.catalog import ASSISTANT as ASSISTANT
from treadle.agents.definitions.catalog import Catalog as Catalog
from treadle.agents.definitions.inputs import missing as missing
from treadle.agents.definitions.inputs import typed as typed
from treadle.agents.definitions.modules import import_modules as import_modules
from treadle.agents.definitions.places import DefinitionProblem as DefinitionProblem
