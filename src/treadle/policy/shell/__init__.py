"""Effects of a command line, found by parsing it: bash's grammar, tables of programs, and no
execution (judge.py).

The small language, in which alone a line may run without approval outside a sandbox: language.py
defines it, agreement.py compares it with the grammar, globs.py and expansion.py expand its
patterns, lookup.py finds out whether a program is the one that the tables describe. One command of
literal words, and its paths: simple.py, ground.py. Parsing: the commands in a text, one word as
bash reads it, a search if parsing fails, and hidden commands: syntax.py, words.py, lexical.py,
hiding.py. Programs that only read, as tables and small readers: programs.py, options.py,
conditions.py, filters.py, find.py, git.py. Programs that run others, the reach of a rule, writing
programs, forbidden ones, and plain descriptions: wrappers.py, runners.py, writers.py, dangers.py,
effects.py. The findings of a line: judgement.py.

The parser is loaded at the first command, never at start-up. The mode of a run is not known here.
"""
