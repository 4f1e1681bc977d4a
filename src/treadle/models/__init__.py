"""The model contract, retries, and lookup by name. providers/ contains the vendors' adapters.

model.py     `Model` turns a request into deltas; `Fold` turns deltas into a response
deltas.py    the fragments in which a response arrives
refused_settings.py  settings and content that a provider refuses
retry.py     when and how a request is retried
registry.py  `Models`: resolves `provider:id` to a model with its connection
"""
