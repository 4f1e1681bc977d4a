"""Values shared by every package. They do no I/O.

message.py           messages, encoded and decoded without loss
parts.py             the parts of messages: text, calls, results, media
event.py             the base of events
tool_events.py       events of tool calls and approvals
events.py            the events of a run, in the order subscribers receive them
history.py           a conversation and its encoded bytes
result.py            `RunResult`: the outcome of a run
metrics.py           figures of one run and of the tree of runs below it
response_details.py  response metadata reported by the provider
validate.py          checking and repairing a history from elsewhere
attachments.py       a user's file as a message part
images.py            image limits of vendors, and smaller copies
todos.py             the to-do list of a conversation
size.py              estimated tokens of texts and messages
"""
