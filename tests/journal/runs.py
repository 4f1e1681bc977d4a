"""Runs as tests of journals write them; they are part of the contract that plug-ins can import."""

from treadle.apps.testing.contracts.runs import *  # noqa: F403  under their old name
