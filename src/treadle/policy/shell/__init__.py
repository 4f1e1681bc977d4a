"""Judgement of command lines, by bash's grammar and tables of programs. Nothing is executed.

judge.py is the entry: it returns findings (judgement.py). Only lines of a small language may run
without approval outside a sandbox: language.py parses it, plain_line.py has its values,
agreement.py compares it with the grammar, globs.py expands its patterns, lookup.py checks that a
program is the one in the tables. simple.py judges one command, ground.py its paths. Parsing:
tree.py, syntax.py, script.py and words.py; lexical.py searches text that cannot be parsed,
hiding.py looks for commands that parsing does not show. Programs that only read: options.py,
programs.py, text_programs.py, conditions.py, filters.py, find.py, git.py. Programs that run others:
wrappers.py. Rules of the user: runners.py. Programs that write: writers.py. Denials and dangers:
denials.py, dangers.py. Descriptions for the user: effects.py.

The parser is loaded for the first command, not at start-up. The mode of the run is not used here.
"""
