"""`treadle runs …`: what the journal holds, and what can be done with it. A file for each command.
Entry: `runs` in group.py.

To look at: listing.py, show.py, diff.py, cost.py; while it goes on: follow.py, top.py
(top_frame.py, top_view.py). To go on, again, or end: resume.py, fork.py, replay.py, kill.py,
wake.py. To take out, in and away: export.py, import_.py, prune.py. To have files back: undo.py.
What they share: which run is meant (finding.py), a run in one line (row.py) and as JSON lines
(lines.py), driving one (driving.py), what a person says about calls (answers.py), questions about
the calls of an imported run (imported.py), signatures of exports (signing.py).
"""
