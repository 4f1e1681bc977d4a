"""Unattended processing of a batch of prompts: `treadle work` without its terminal output, on top
of the runtime.

Batch definition and prompt sources: batch.py, prompts.py. State that survives a crash, in addition
to the journal: logbook.py. Concurrent prompts, shared resources, one prompt, and its next step:
crew.py, workshop.py, item.py, steps.py. Submission of runs: queue.py. Git, a checkout per prompt,
and changes in it: git.py, worktrees.py, changes.py. Gate commands, and cleanup after a dead
process: gates.py, leftovers.py. Results: report.py, and markdown.py for people. Entry points:
`begin` and `Crew` in crew.py, over a `Logbook`.

workers_queue.py a batch whose runs are queued for workers, in any processes
"""
