"""What delivers queued runs to workers; the contract stands in engine.py. None is loaded before it
is used.

local.py       inside one worker, which counts what queues allow by itself (lane_state.py);
bare_group.py: errors come out of it as they are dbos/          over the tables of DBOS, for all
workers together: dbos/engine.py, dbos/store.py, dbos/process.py, dbos/handover.py
"""
