"""Queued runs: engines/ deliver them to workers, and worker/ drives them.

schedules.py  due times of schedules
"""
