"""A database of tasks for each test, and people who use it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import StaticPool

from tests.apps.assistant.people import People, Person
from tests.service.database.postgres import postgres_server, postgres_url
from tests.service.database.ready import ready_url
from treadle.service.database.database import Database

__all__ = ["ada", "client", "people", "postgres_server", "postgres_url"]

ON_BOTH = (
    "test_lists_are_narrowed_by_status_priority_and_search",
    "test_what_is_deleted_goes_for_good_after_thirty_days",
    "test_undo_goes_back_step_by_step_and_forgets_after_thirty_days",
    "test_the_same_call_at_the_same_time_is_made_once",
    "test_several_deletions_of_one_run_are_one_question",
    "test_what_the_person_said_yes_to_does_not_count",
    "test_a_plain_client_gets_a_code_that_is_good_once",
    "test_twenty_people_side_by_side_meet_only_their_own_words",
)
"""Those between them make every statement there is: they run on PostgreSQL too, where making a
database takes a second.
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "people" in metafunc.fixturenames and metafunc.definition.originalname in ON_BOTH:
        metafunc.parametrize("people", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
async def people(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[People]:
    on_postgres = getattr(request, "param", "sqlite") == "postgres"
    url: str = (
        request.getfixturevalue("postgres_url") if on_postgres else ready_url(tmp_path / "tasks.db")
    )
    async with Database.open(url) as database:
        yield People(database)


@pytest.fixture
def without_tables() -> Iterator[Engine]:
    """An empty database in memory, in which every statement fails. Its connection may be used in
    any thread, so that it can be closed in this one.
    """
    engine = create_engine(
        "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
    )
    yield engine
    engine.dispose()


@pytest.fixture
def ada(people: People) -> Person:
    """In a chat."""
    return people.person("ada")


@pytest.fixture
def client(people: People) -> Person:
    """Ada at a plain client of the protocol."""
    return people.person("ada", None).in_run(None)
