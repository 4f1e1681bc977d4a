"""Servers that enforce what the vendors document, and runs against them. Each rule names its source
and the date it was read.

`server.py` is one server for four wires; `claude.py`, `gpt.py` and `gemini.py` hold the rules; the
shapes of messages are those of tests/models/switching/rules.
"""
