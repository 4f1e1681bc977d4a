"""Cost control for a run and for the runs it starts.

ledger.py      what a run has spent and reserved, and what its limits leave
limits.py      reached limits, and what they leave for a response
tree.py        the arithmetic of nested budgets
prices.py      rates per million tokens, and the exact cost of a response
price_list.py  prices of models that the configuration does not price
spending.py    what a model took on a day, and what an attempt reserves
costs.py       spending by day, model, session, user or agent
"""
