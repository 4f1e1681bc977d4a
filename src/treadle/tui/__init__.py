"""The terminal UI, `treadle chat`: what a person says becomes runs, and what runs do is drawn.

Inline: what is finished is written once into the terminal's own scrollback; below it stands a small
region that lives. What a run is, and how it is kept, is the runtime's. Reading order: chat.py (the
whole), conversation.py (runs), transcript.py (events to blocks), screen.py (the terminal). Entry:
`treadle.tui.start.chat`, which is imported by itself so that the first paint waits for nothing
else.
"""
