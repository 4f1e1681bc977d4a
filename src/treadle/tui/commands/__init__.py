"""What a person can say to the chat itself: slash commands, ours and their own. Entry: `Command`,
`Commands`.

One of them: command.py; all by name: registry.py; the user's own: own.py. What ours do:
conversation.py, undo.py, settings.py, view.py (`/help`, `/todos`), account.py (`/cost`,
`/context`), files.py (`/diff`, `/copy`), export.py, around.py (`/agents`, `/mcp`).
"""
