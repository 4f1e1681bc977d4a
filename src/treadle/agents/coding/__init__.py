"""The coding assistant: what it is told, and with which tools it works. Fronts run it; nothing here
runs or prints.

Its instructions are prompt.md; people's and projects' own words guidance.py and skills.py; where it
works whereabouts.py; which of the user's rules match nothing here vain_rules.py; agents that it can
hand work to: agent.py; all of it together agent.py. Entry: `coding_agent`.
"""

from __future__ import annotations

from treadle.agents.coding.agent import Assistant as Assistant
from treadle.agents.coding.agent import coding_agent as coding_agent
