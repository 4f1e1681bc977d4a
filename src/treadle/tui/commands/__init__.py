"""Slash commands of the chat, built-in and user-defined. Entry points: `Command`, `Commands`.

The type: command.py; all commands by name: registry.py; user-defined ones: own.py. Built-in ones:
conversation.py, undo.py, settings.py, view.py (`/help`, `/todos`), account.py (`/cost`,
`/context`), files.py (`/diff`, `/copy`), export.py, around.py (`/agents`, `/mcp`).
"""
