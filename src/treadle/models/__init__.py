"""Models: the contract, the only place that retries, and models by name. Vendor adapters are in
providers/.

model.py     `Model`: a request becomes deltas; `Fold` turns deltas into a response
retry.py     when and how a request is repeated
registry.py  `Models`: `provider:id` to a model with its connection
"""
