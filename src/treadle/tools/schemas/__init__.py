"""Types and JSON Schemas for tools and typed answers: readable schemas, validation, and short
descriptions of problems.

    structs.py     msgspec Structs inside types for pydantic
    tidy.py        pydantic's schemas, shortened for the model
    faults.py      pydantic's errors as problems
    checked.py     validation by a schema that the caller wrote
    references.py  references of such a schema; rejects remote ones
    bounds.py      limits of such a schema, and of the work of one check
    graph.py       the schema as a graph, for these limits
    problems.py    descriptions of problems for the model

tools/function/ uses them for arguments, tools/structured_output/ for answers.
"""
