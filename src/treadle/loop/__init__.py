"""The core loop: one run from its first request to its outcome. Start with loop.py.

loop.py          `Run`: the turns of a run
plan.py          `Plan`: a run as resolved before it starts
ending.py        `Ending`: outcome and metrics of a run
model_turn.py    the request and response of a turn
changed_requests.py requests that hooks or failures change
hook_responses.py responses that hooks supply instead of the model
call_values.py   calls that are ready, held, deferred or refused
calls.py         the tool calls of a response: which may run, with one result each
cut_calls.py     results of calls that a driver did not finish
toolbox.py       executes one call: validation, decision, timeout, result
hooked_calls.py  hooks before and after a call
guarding.py      checks of input and output by hooks
handoffs.py      calls that hand the run to another agent
repeated_calls.py calls of an earlier driver: run again, or probed
tool_code.py     the tool's own code: timeout, probe, failures, cancellation
shown_results.py results as the model sees them
recovery.py      open calls after a crash
answers.py       a user's answers to open calls
outcome.py       decides whether a run ends or continues, and stores the end
output.py        the output: validation and corrections
recorder.py      updates state, journal and subscribers, in that order
approvals.py     asks an approver about held calls
inbox.py         messages for the model between turns, except results
processing.py    messages that functions show to the model
session_past.py  the earlier messages of a session
deadline.py      a deadline that pauses during approvals
auto_compact.py  compaction before a request
"""
