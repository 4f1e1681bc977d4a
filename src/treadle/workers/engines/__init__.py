"""Engines that deliver queued runs to workers, loaded on first use. journal/engine.py is the
contract.

    local.py       inside one worker, which applies the queues' limits itself (lane_state.py)
    bare_group.py  a task group whose errors are not wrapped
    dbos/          on the tables of DBOS, for all workers together: dbos/engine.py, dbos/store.py,
                   dbos/process.py, dbos/handover.py
    temporal/      runs as activities of Temporal workflows, without the queues of the journal:
                   temporal/plugin.py, temporal/workflow.py
"""
