"""The core loop: one run from its first request to its outcome. Start with loop.py.

loop.py          `Run`: the turns of a run
plan.py          `Plan`: a run as resolved before it starts
ending.py        `Ending`: outcome and metrics of a run
model_turn.py    the request and response of a turn
model_entries.py entries of a response, and of a switch to another model
hook_responses.py responses that hooks supply instead of the model
call_values.py   calls that are ready, held, deferred or refused
calls.py         the tool calls of a response, with one result each
admission.py     decides which calls of a response may run
toolbox.py       executes one call: validation, decision, timeout, result
tool_code.py     the tool's own code: timeout, probe, failures, cancellation
shown_results.py results as the model sees them
recovery.py      open calls after a crash
answers.py       a user's answers to open calls
outcome.py       decides whether a run ends or continues
closing.py       the end of a run
recorder.py      updates state, journal and subscribers, in that order
approvals.py     asks an approver about held calls
inbox.py         messages for the model between turns, except results
processing.py    messages that functions show to the model
session_past.py  the earlier messages of a session
deadline.py      a deadline that pauses during approvals
auto_compact.py  compaction before a request
"""
