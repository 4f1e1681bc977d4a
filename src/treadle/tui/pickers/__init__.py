"""What a person chooses from in a chat, a file for each: conversations, models, earlier points. The list itself is picker.py's."""
