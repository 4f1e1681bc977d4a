"""Context management for conversations that outgrow the model's context window.

compaction.py         tries native compaction, then clears old results and summarizes
shortening.py         selection of old results, images and exchanges that can go
compaction_work.py    the state of one compaction
native_compaction.py  compaction by the provider
summary.py            the summary request and the resulting message
summary_budget.py     the cost of summary attempts
"""
