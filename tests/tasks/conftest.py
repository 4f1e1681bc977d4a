"""A database of tasks for each test, and people who use it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from sqlmodel import Session

from tests.tasks.people import People, Person, engine_in


@pytest.fixture
def people(tmp_path: Path) -> Iterator[People]:
    engine = engine_in(tmp_path)
    yield People(partial(Session, engine, expire_on_commit=False))
    engine.dispose()


@pytest.fixture
def ada(people: People) -> Person:
    """In a chat."""
    return people.person("ada")


@pytest.fixture
def client(people: People) -> Person:
    """Ada at a plain client of the protocol."""
    return people.person("ada", None).in_run(None)
