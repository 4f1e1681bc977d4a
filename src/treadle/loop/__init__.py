"""The core loop: one run from its first request to its outcome. Start with loop.py.

loop.py          `Run`: the turns of a run
plan.py          `Plan`: all that a run is before it starts
ending.py        `Ending`: how a run ended, and its figures
model_turn.py    the request and response of a turn
hook_responses.py responses of hooks in place of the model's
call_values.py   calls that are ready, held, deferred or refused
calls.py         the tool calls of a response, with one result each
admission.py     which calls of a response may run
toolbox.py       one call: validated, decided, executed, truncated
tool_code.py     the tool's own code: timeout, probe, failures, cancellations from inside
shown_results.py results as the model is shown them
recovery.py      open calls after a crash
answers.py       a person's answers to open calls
outcome.py       why a run ends or continues
closing.py       the end of a run
recorder.py      state, journal and subscribers, in that order
approvals.py     asking people about held calls
inbox.py         messages for the model between turns, besides results
session_past.py  the earlier messages of a session
deadline.py      a deadline that pauses while people are asked
auto_compact.py  compaction before a request
"""
