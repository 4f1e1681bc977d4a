"""The life cycle of runs: start, resume, fork, follow, submit and end. Read runtime.py first.

runtime.py          `Runtime`: the top of the library
runs.py             the active runs of this process
continuing.py       runs that are resumed, forked or submitted
assembly.py         resolves agent, model, settings and history into a plan
evaluating.py       agents with functions, evaluated for a run
options.py          options of a run, over those of its agent and the configuration
run_stream.py       `RunStream`: a run, with its events while it runs
stream_reading.py   reading the text or the output of a streamed run
session.py          `Session`: a conversation that spans many runs
stored_session.py   `StoredSession`: a conversation in a store of the user's own
single.py           `run`, `run_sync`: one run without a runtime
sync.py             `open`: a runtime for code without an event loop
busy_sessions.py    sessions with an active run
continued_runs.py   resuming and forking runs
ensured_runs.py     runs and steps that are executed once per id
batched_runs.py     many prompts, over the provider's batch API
batches.py          the batches of runs, and their models
handing_over.py     the plan of an agent that continues a run
closing_runs.py     closing runs that have no driver
late_runs.py        runs whose last calls are still running
results.py          results of runs
children.py         runs that other runs start
submit.py           queued runs, and answers to waiting ones
facilities.py       configuration, models and prices, sandbox and servers of runs
past_runs.py        reading runs from the journal
session_control.py  acting on a session by its id
prompt.py           the prompt and the earlier messages of a run
model_choice.py     choosing the model of a run, and its fallbacks
chosen_model.py     the chosen model, and the run that requests it
model_catalog.py    the available models
mcp_servers.py      the tools of MCP servers
toolbox_factory.py  a toolbox for each run
session_grants.py   approvals and the mode of a session
sandboxing.py       confinement of the runs' commands
undo.py             restoring files that runs changed
undo_calls.py       the calls of runs, for undo
"""
