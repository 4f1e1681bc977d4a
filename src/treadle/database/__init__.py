"""Rows of users: which tables there are, who may see which rows, and one transaction at a time.

Nothing here knows what a task or a conversation is for: tasks/ and service/ do. Entry: `Database`, `Identity`, `Scope`.
"""
