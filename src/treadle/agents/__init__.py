"""Agents. Definitions in files and modules are in definitions/, the coding assistant is in coding/.

agent.py     `Agent`, `Input`: a validated definition
registry.py  `AgentRegistry`: agents by name
"""
