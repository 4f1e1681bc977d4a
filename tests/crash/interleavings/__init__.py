"""A deterministic scheduler for two drivers over one journal, and a search through their
interleavings.

`steps`: event loop with a clock that stands still, and drivers that stop before each operation.
`gates`: a journal whose operations are such stops. `stories`: the drivers, and the invariants.
`search`: every schedule up to a depth. Entry: `search.explore`.
"""
