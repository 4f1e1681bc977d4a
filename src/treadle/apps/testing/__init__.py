"""Contract suites for implementations that others write: journals, models, sandboxes and engines.

`treadle.testing.contracts` is this folder's `contracts/`. It needs pytest.
"""
