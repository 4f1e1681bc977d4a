"""Models: the contract, the only place that retries, and lookup by name. Vendor adapters are in
providers/.

    model.py     `Model`: turns a request into deltas; `Fold` turns deltas into a response
    deltas.py    the pieces in which a response arrives
    retry.py     when and how a request is repeated
    registry.py  `Models`: resolves `provider:id` to a model with its connection
"""
