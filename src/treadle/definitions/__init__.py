"""Agents that are defined in files, and in Python modules that the configuration names; nothing here runs or prints.

Which files there are: places.py. What stands in one: its text with lines text.py, its keys keys.py, values of inputs inputs.py, the schema of
an output schemas.py. Agents and tools of Python modules: modules.py. What the name of a tool means: naming.py. All of it together, checked and
made: catalog.py. The format as a JSON Schema, for editors: format.py. Entry: `Catalog`.
"""

from __future__ import annotations

from treadle.definitions.catalog import ASSISTANT as ASSISTANT
from treadle.definitions.catalog import Catalog as Catalog
from treadle.definitions.inputs import missing as missing
from treadle.definitions.inputs import typed as typed
from treadle.definitions.modules import import_modules as import_modules
from treadle.definitions.places import Problem as Problem
