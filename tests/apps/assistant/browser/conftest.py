"""One server and one browser for a module: a page is drawn by a real chromium or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from playwright.sync_api import Browser

from tests.apps.assistant.browser.visiting import CHROMIUM, Person, browsing, served


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    with browsing() as browser:
        yield browser


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("service")) as url:
        yield url


@pytest.fixture
def visit(browser: Browser, url: str) -> Iterator[Callable[..., Person]]:
    """Makes a person who looks at the page.

    Whatever they do, the browser has nothing against it, and asks no other server.
    """
    people: list[Person] = []

    def make(**options: Any) -> Person:
        people.append(Person(browser, url, **options))
        return people[-1]

    yield make
    for person in people:
        person.context.close()
    assert [complaint for person in people for complaint in person.complaints] == []
    assert [request for person in people for request in person.elsewhere] == []


@pytest.fixture
def person(visit: Callable[..., Person]) -> Person:
    """Somebody who has just made an account."""
    return visit().register()
