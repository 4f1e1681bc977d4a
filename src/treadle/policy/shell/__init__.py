"""Effects of a command line, found by parsing it: bash's grammar, tables of programs, and no
execution (judge.py).

The small language, in which alone a line may run without approval outside a sandbox: language.py
defines it, plain_line.py has its values, agreement.py compares it with the grammar, globs.py and
expansion.py expand its patterns, lookup.py finds out whether a program is the one that the tables
describe. One command of literal words, and its paths: simple.py, ground.py. Parsing: the syntax
tree, the commands in it as values, one word as bash reads it, a search if parsing fails, and hidden
commands: tree.py, syntax.py, script.py, words.py, lexical.py, hiding.py. Programs that only read,
as tables and small readers: program.py, programs.py, text_programs.py, options.py, conditions.py,
filters.py, find.py, git.py. Programs that run others, the reach and scope of a rule, writing
programs, forbidden ones, and plain descriptions: wrappers.py, runners.py, rule_scope.py,
writers.py, dangers.py, effects.py. Denials anywhere in a line, and the findings of a line:
denials.py, judgement.py.

The parser is loaded at the first command, never at start-up. The mode of a run is not known here.
"""
