"""A cookie that another page of the same host has put in the place of ours."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from tests.apps.assistant.browser.visiting import PASSWORD, Person

Visit = Callable[..., Person]


def plant(person: Person, mallory: Person) -> None:
    """Replace the person's cookie by that of another login, as a page on another port can."""
    person.context.add_cookies(
        [cookie for cookie in mallory.context.cookies() if cookie["name"] == "treadle_refresh"]
    )


def test_a_planted_cookie_signs_nobody_in(visit: Visit) -> None:
    """Review 2, B7: the next load was signed in as the attacker, without a word."""
    person, mallory = visit().register(), visit().register()
    mallory.add("Pay mallory")
    plant(person, mallory)
    person.page.reload()
    refused = person.page.get_by_role("alert").filter(has_text="did not sign in on this page")
    expect(refused).to_be_visible()
    expect(person.page.get_by_text("Pay mallory")).to_have_count(0)
    person.page.locator("[name=username]:visible").fill(person.name)
    person.page.locator("[name=password]:visible").fill(PASSWORD)
    person.page.locator("[name=password]:visible").press("Enter")
    expect(person.message_field).to_be_focused()
    expect(person.page.locator("#who")).to_have_text(person.name)
    person.page.reload()
    expect(person.page.locator("#who")).to_have_text(person.name)


def test_a_cookie_planted_under_an_open_page_sends_nothing_of_it(visit: Visit) -> None:
    """The token of the page ends, and the refresh brings one of the attacker's."""
    person, mallory = visit().register(), visit().register()
    mallory.add("Pay mallory")
    plant(person, mallory)
    sent = list[str]()
    person.page.on("request", lambda request: sent.append(f"{request.method} {request.url}"))
    person.page.route("**/tasks", lambda route: route.fulfill(status=401, body="{}"), times=1)
    person.page.get_by_label("New task").fill("A secret")
    person.page.get_by_label("New task").press("Enter")
    refused = person.page.get_by_role("alert").filter(has_text="did not sign in on this page")
    expect(refused.first).to_be_visible()
    assert len([one for one in sent if one.startswith("POST") and one.endswith("/tasks")]) == 1
    mallory.page.reload()
    expect(mallory.page.get_by_text("Pay mallory")).to_be_visible()
    expect(mallory.page.get_by_text("A secret")).to_have_count(0)


def test_another_tab_may_sign_in_as_somebody_else(visit: Visit) -> None:
    person, other = visit().register(), visit().register()
    tab = person.tab()
    expect(tab.locator("#who")).to_have_text(person.name)
    tab.get_by_role("button", name="Sign out").click()
    tab.locator("[name=username]:visible").fill(other.name)
    tab.locator("[name=password]:visible").fill(PASSWORD)
    tab.locator("[name=password]:visible").press("Enter")
    for page in (tab, person.page):
        expect(page.locator("#who")).to_have_text(other.name)
