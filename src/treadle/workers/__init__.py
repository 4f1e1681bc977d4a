"""Queued runs: engines/ deliver them to workers, and worker/ drives them.

schedules.py  times at which a schedule's runs are due
"""
