"""`treadle runs …`: what the journal holds, and what can be done with it. A file for each command. Entry: `runs` in group.py."""
