"""The wires: one adapter for each provider, and the connections they speak over. Nothing is
imported until its model is used.

Contracts live in model.py, retries in retry.py. Entry: the module of the provider (`anthropic`).
"""
