"""What a command line would do, found out by parsing it: bash's grammar, tables of programs, and no execution of anything (judge.py).

One command of literal words, and where its paths lead: simple.py, ground.py. Parsing: the commands in a text, one word as bash reads it,
and what is looked for where nothing can be parsed: syntax.py, words.py, lexical.py. Programs that only read, as tables and small readers:
programs.py, options.py, conditions.py, filters.py, find.py, git.py. Programs that run others, how far a rule reaches, what programs
write, and what is never run: wrappers.py, runners.py, writers.py, dangers.py.

The parser is loaded at the first command, never at start-up. Which mode a run has is not known here.
"""
