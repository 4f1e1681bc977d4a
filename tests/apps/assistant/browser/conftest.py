"""One browser and one server for all of these tests: at another address, the browser starts other
processes. A page is drawn by a real chromium or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from playwright.sync_api import Browser, Page

from tests.apps.assistant.browser.visiting import CHROMIUM, Person, browsing
from tests.service.unlimited import unlimited


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    with browsing() as browser:
        yield browser


@pytest.fixture(scope="package")
def url(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[str]:
    with unlimited(tmp_path_factory.mktemp("service"), "--cheap-passwords") as url:
        yield url


@pytest.fixture(scope="package")
def left(browser: Browser) -> list[Page]:
    """Pages of persons who have left. A new page starts a process of the browser, in one CPU second."""
    return []


@pytest.fixture
def visit(browser: Browser, url: str, left: list[Page]) -> Iterator[Callable[..., Person]]:
    """Makes a person who looks at the page.

    Whatever they do, the browser has nothing against it, and asks no other server.
    """
    people: list[Person] = []

    def make(**options: Any) -> Person:
        people.append(Person(browser, url, page=left.pop() if left else None, **options))
        return people[-1]

    yield make
    left += [person.leave() for person in people]
    assert [complaint for person in people for complaint in person.complaints] == []
    assert [request for person in people for request in person.elsewhere] == []


@pytest.fixture
def person(visit: Callable[..., Person]) -> Person:
    """Somebody who has just made an account."""
    return visit().register()
