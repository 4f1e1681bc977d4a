"""Types and JSON Schemas, as tools and answers both need them: a schema that reads well, a check by
one, and what is wrong in a few words.

Types: structs.py (msgspec's, made known to pydantic), tidy.py (a schema without what a model need
not read), faults.py (pydantic's errors). Schemas that somebody else wrote: checked.py,
references.py; their limits: bounds.py, graph.py. What a model is told: problems.py.
Arguments are tools/function/, answers outputs/.
"""
