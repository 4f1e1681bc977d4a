"""Agent definitions, their registry, file-based definitions and the coding assistant.

    agent.py     `Agent`, `Input`: a validated definition
    registry.py  `AgentRegistry`: agents by name

Subpackages: definitions/ loads agents from files and modules, coding/ defines the coding assistant.
"""
