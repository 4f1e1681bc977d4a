"""Agent definitions and their registry.

    agent.py     `Agent`: a validated definition
    arguments.py errors for wrong arguments of `Agent`
    checks.py    checks of the fields of an `Agent`
    evaluation.py the functions of a definition, evaluated for a run
    fingerprint.py the hash of a definition
    guardrails.py hooks that ask a model
    fields.py    types of the fields, for type checkers
    templates.py `Input`, and the variables in instructions
    registry.py  `AgentRegistry`: agents by name

Subpackages: definitions/ loads agents from files and modules, coding/ defines the coding assistant.
"""
