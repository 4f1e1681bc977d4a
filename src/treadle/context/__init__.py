"""Context management: what happens when a conversation outgrows its model.

compaction.py  clears old results, then summarises
summary.py     the request for a summary, and its message
summary_budget.py  the cost of attempts at a summary
"""
