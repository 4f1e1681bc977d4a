"""Agent definitions, their registry, file-based definitions and the coding assistant.

    agent.py     `Agent`: a validated definition
    arguments.py mistaken arguments of `Agent`
    templates.py `Input`, and the variables of instructions
    registry.py  `AgentRegistry`: agents by name

Subpackages: definitions/ loads agents from files and modules, coding/ defines the coding assistant.
"""
