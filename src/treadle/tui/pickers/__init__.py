"""What a person chooses from in a chat: conversations (sessions.py), models (models.py), earlier
points (points.py). The list itself is picker.py's.
"""
