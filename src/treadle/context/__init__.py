"""Context management: what happens when a conversation outgrows its model.

compaction.py         lets the provider compact; else clears old results, then summarises
compaction_work.py    one compaction under way
native_compaction.py  compaction by the provider
summary.py            the request for a summary, and its message
summary_budget.py     the cost of attempts at a summary
"""
