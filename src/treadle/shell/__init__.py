"""What a command line would do, found out by parsing it: bash's grammar, tables of programs, and no execution of anything.

`judge.py` is the entry; the parser is loaded at the first command, never at start-up. Which mode a run has is not known here.
"""
