"""Tools: the contract, and code that all implementations share. Built-in tools are in builtin/,
functions in function/, MCP servers in mcp/.

tool.py          `Tool`, `ToolContext`, `ToolFailed`: the contract
run_context.py   `RunContext`: a run before its first request
offered.py       conditions of a tool, and tools under another name or definition
toolset.py       `Toolset`: tools that are filtered, renamed and combined together
tool_search.py   search among deferred tools, and the tools that it has found
approval.py      approval requests and their answers
confinement.py   the contract of a sandbox for commands
failures.py      `ToolFailed`, `ToolDeferred`: how a tool reports its outcome
registry.py      tools by name
plain_text.py    terminal output as plain text
truncate.py      how much of an output the model sees
spill.py         files for outputs that are too long for the model
file_history.py  file contents before tools changed them
handoff.py       `Handoff`: another agent continues the run
subagent.py      an agent as a tool of another agent

    schemas/            types and JSON Schemas, for tools and typed answers
    structured_output/  typed answers
"""
