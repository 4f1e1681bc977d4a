"""Engines, which deliver queued runs to workers; the contract is journal/engine.py. Each is loaded
on first use.

    local.py       inside one worker, which applies the limits of queues itself (lane_state.py)
    bare_group.py  a task group whose errors are not wrapped
    dbos/          over the tables of DBOS, for all workers together: dbos/engine.py, dbos/store.py,
                   dbos/process.py, dbos/handover.py
"""
