"""Queued runs. Engines, which deliver them, are in engines/; the worker, which drives them, is in
worker/.

schedules.py  when the runs of a schedule are due
"""
