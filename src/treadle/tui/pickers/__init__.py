"""Pickers of the chat: conversations (sessions.py), models (models.py) and earlier prompts
(points.py). The list itself is in picker.py.
"""
