"""What a command line would do, found out by parsing it: bash's grammar, tables of programs, and no
execution of anything (judge.py).

The small language, in which alone a line may run unasked without a sandbox: language.py defines it,
agreement.py compares it with the grammar, globs.py and expansion.py expand its patterns, lookup.py
finds out whether a program is the one that the tables describe. One command of literal words, and
where its paths lead: simple.py, ground.py. Parsing: the commands in a text, one word as bash reads
it, what is looked for where nothing can be parsed, and what a line may run without showing it:
syntax.py, words.py, lexical.py, hiding.py. Programs that only read, as tables and small readers:
programs.py, options.py, conditions.py, filters.py, find.py, git.py. Programs that run others, how
far a rule reaches, what programs write, what is never run, and plain words for what a command does:
wrappers.py, runners.py, writers.py, dangers.py, effects.py. The findings of a line: judgement.py.

The parser is loaded at the first command, never at start-up. Which mode a run has is not known
here.
"""
