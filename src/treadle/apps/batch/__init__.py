"""A batch of prompts, worked unattended: `treadle work` without its terminal. It stands on the
runtime and prints nothing.

What a batch is, and where prompts come from: batch.py, prompts.py. What outlives a crash, beside
the journal of runs: logbook.py. Many prompts side by side, what they share, one of them to its end,
and what comes next for it: crew.py, workshop.py, item.py, steps.py. Who runs what is submitted:
queue.py. Git, a checkout for each prompt, and what was changed in it: git.py, worktrees.py,
changes.py. The commands that judge the work, and what a dead process left running: gates.py,
leftovers.py. What came of it: report.py, and markdown.py for people. Entry: `begin` and `Crew` in
crew.py, over a `Logbook`.

    workers_queue.py  A batch whose runs wait in a queue for workers, in whatever processes
"""
