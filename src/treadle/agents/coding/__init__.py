"""The coding assistant: its instructions and tools.

The instructions are in prompt.md. guidance.py adds AGENTS.md files, skills.py skills, and
whereabouts.py the working environment. vain_rules.py reports user rules that match nothing.
agent.py loads agents for delegation and combines everything. Entry points: `coding_agent`.
"""

from __future__ import annotations

from treadle.agents.coding.agent import Assistant as Assistant
from treadle.agents.coding.agent import coding_agent as coding_agent
