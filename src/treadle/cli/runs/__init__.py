"""Commands of `treadle runs`, which inspect and change the runs in a journal. Entry points: `runs`
in group.py.

Inspect: listing.py, show.py, diff.py, cost.py. Watch: follow.py, top.py (top_frame.py,
top_view.py). Continue, repeat or end: resume.py, fork.py, replay.py, kill.py, wake.py. Move or
delete: export.py, import_.py, prune.py. Encrypt: encrypt.py. Restore files: undo.py. Shared:
selecting a run (finding.py), a run as a row (row.py) and as JSON lines (lines.py), driving a run
(driving.py), answers to calls (answers.py), questions about an imported run (imported.py),
signatures of exports (signing.py).
"""
