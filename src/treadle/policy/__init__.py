"""Permissions and sandboxes. The parser of command lines is in shell/, the sandboxes are in
sandboxes/.

policy.py         `decide`: whether a call may run
permissions.py    rules for a run's calls, in addition to its mode
decision.py       the possible decisions, and how findings combine into one
paths.py          resolution and checks of a call's paths
guarded_paths.py  guarded files and files that probably contain secrets
secrets_below.py  search for secrets below a directory that is read
guarded_tools.py  the tables behind guarded paths
secret_places.py  where programs keep credentials
ruled_files.py    files on disk that `deny` and `ask` rules name
approvals.py      approvals that cover more than one call
"""
