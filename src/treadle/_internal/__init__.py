"""Private helpers for every package. They import nothing else from Treadle and are not part of its
API.

json_text.py      lossless JSON encoding and decoding
value_schema.py   schemas of values for pydantic
signatures.py     signatures with annotations that cannot be evaluated
redaction.py      removal of secrets from text, whole or in pieces
secret_patterns.py names, URLs and keys that look like secrets
log_masking.py    log records without secrets
terminal_text.py  text that is safe to print on a terminal, and its width
units.py          numbers, money, sizes and times for people
wildcards.py      `*` and `?` patterns that match in linear time
file_lock.py      locks that the kernel releases with their process
safe_open.py      opening a file without following a planted link
temporary.py      private temporary folders
stamps.py         detecting whether a file changed without reading it
key_file.py       a secret key in a file that only its owner can read
held_files.py     files that this process must not open twice
write_ahead.py    write-ahead logging of SQLite files, also while another process begins it
environment.py    the environment of child processes, without credentials
addresses.py      public and private network addresses
clock.py          time and randomness, replaceable in tests
ids.py            ids that sort by time
hosted_tools.py   tools that a provider runs on its own servers
other_names.py    hints for names of other libraries
crash.py          `TREADLE_CRASH_AT`: stops the process at a chosen point
uninterrupted.py  awaiting work that a cancellation must not abandon
idle_threads.py   worker threads that an interrupted event loop leaves idle
"""
