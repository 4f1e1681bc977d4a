"""Cost control for a run and its child runs.

ledger.py      spending, reservations and remaining budget of a run
limits.py      reached limits, and the output they leave for a response
tree.py        the arithmetic of nested budgets
prices.py      rates per million tokens, and the exact cost of a response
price_list.py  listed prices, for models without a configured price
spending.py    spending by model and day, and the reservation of an attempt
costs.py       spending by day, model, session, user or agent
"""
