"""A journal in memory, for tests and for runs that need not outlive their process. Entry:
`MemoryJournal`.

journal.py   the journal
run.py       one of its runs, and its driver
queue.py     its queue
notifier.py  change hints inside one machine
"""

from __future__ import annotations

from treadle.journal.memory.journal import MemoryJournal as MemoryJournal
