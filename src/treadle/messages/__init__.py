"""Values shared by every package. They do no I/O.

message.py           messages, encoded and decoded without loss
parts.py             the parts of messages: text, calls, results, media
event.py             the base of events
tool_events.py       events of tool calls and approvals
events.py            the events of a run, in the order subscribers receive them
history.py           a conversation with its encoded bytes
result.py            `RunResult`: the outcome of a run
labels.py            tags and metadata of runs
metrics.py           figures of one run and of its tree of child runs
response_details.py  response metadata reported by the provider
validate.py          checks and repairs histories from other sources
attachments.py       a user's file as a message part
images.py            vendors' image limits, and scaled copies
todos.py             the to-do list of a conversation
size.py              token estimates for texts and messages
"""
