"""Cost control for a run and for the runs it starts.

ledger.py      what a run has spent and reserved, and what its limits leave
tree.py        the arithmetic of nested budgets
prices.py      rates per million tokens, and the exact cost of a response
price_list.py  prices of models that the configuration does not price
costs.py       spending by day, model, session, user or agent
"""
