"""What is typed and what is answered survives whatever happens on the way."""

from __future__ import annotations

import re

from playwright.sync_api import Route, expect

from tests.apps.assistant.browser.visiting import Person


def test_a_reload_keeps_who_is_signed_in_what_was_said_and_what_was_typed(person: Person) -> None:
    person.say("add buy milk")
    person.message_field.fill("half a sentence")
    person.page.reload()
    expect(person.page.locator(".message.person")).to_contain_text("add buy milk")
    expect(person.page.locator(".reply .step")).to_have_text("Added a task")
    expect(person.message_field).to_have_value("half a sentence")
    assert person.context.cookies(person.url + "/auth/")[0].get("httpOnly")
    assert "eyJ" not in person.page.evaluate(
        "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
    )


def test_a_message_that_does_not_get_through_goes_back_to_its_field(person: Person) -> None:
    def refuse(route: Route) -> None:
        route.fulfill(
            status=429,
            headers={"Retry-After": "30", "Content-Type": "application/problem+json"},
            body='{"detail": "That is too much."}',
        )

    person.page.route("**/chat", refuse)
    person.message_field.fill("add something long\nwith two lines")
    person.message_field.press("Enter")
    expect(person.page.locator("#alarm")).to_contain_text(
        re.compile(r"That is too much\. Try again in 30 seconds, at \d\d:\d\d")
    )
    expect(person.message_field).to_have_value("add something long\nwith two lines")
    person.page.unroute("**/chat")
    person.context.set_offline(True)
    person.message_field.press("Enter")
    expect(person.page.locator("#alarm")).to_contain_text("There is no connection to the server.")
    expect(person.message_field).to_have_value("add something long\nwith two lines")
    person.context.set_offline(False)
    person.message_field.press("Enter")
    assert "Added" in person.reply(0)


def test_a_reply_whose_stream_breaks_is_gone_on_with(person: Person) -> None:
    """The stream ends behind the first event: the rest comes by another request, which names that
    event.
    """
    asked: list[str | None] = []

    def cut(route: Route) -> None:
        whole = route.fetch()
        # a busy server may send a comment before it, which names no run
        first = next(part for part in whole.text().split("\n\n") if not part.startswith(":"))
        route.fulfill(response=whole, body=first + "\n\n")

    def count(route: Route) -> None:
        asked.append(route.request.headers.get("last-event-id"))
        route.continue_()

    person.page.route("**/chat", cut)
    person.page.route("**/runs/*/events", count)
    assert person.say("add buy milk") == "Got it! Added 'buy milk' to your list. Anything else?"
    assert len(asked) == 1
    assert asked[0]
    expect(person.page.locator(".reply .step")).to_have_text("Added a task")


def test_many_requests_share_one_refresh_when_the_token_is_over(person: Person) -> None:
    refreshed: list[str] = []
    refused: set[str] = set()
    stale: set[str] = set()

    def refuse_once(route: Route) -> None:
        if route.request.url in refused:
            return route.continue_()
        refused.add(route.request.url)
        stale.add(route.request.headers["authorization"])
        return route.fulfill(status=401, body="{}")

    person.page.on(
        "request",
        lambda request: (
            refreshed.append(request.url) if request.url.endswith("/auth/refresh") else None
        ),
    )
    for path in ("**/tasks", "**/chat"):
        person.page.route(path, refuse_once)
    person.page.get_by_label("New task").fill("From the list")
    person.message_field.fill("add from the chat")
    person.page.evaluate(
        "for (const form of ['#add-task', '#composer']) document.querySelector(form).requestSubmit()"
    )
    assert "Added" in person.reply(0)
    expect(person.task("From the list")).to_be_visible()
    assert len(refused) == 2
    assert len(refreshed) == len(stale), (
        "one for each token that was refused, which is one unless the second request was late"
    )


def test_of_two_conversations_that_are_opened_at_once_the_last_stays(person: Person) -> None:
    person.say("add buy milk")
    person.page.get_by_role("button", name="New conversation").click()
    person.say("add buy bread")
    held: list[Route] = []
    person.page.route(
        "**/conversations/*", lambda route: route.continue_() if held else held.append(route)
    )
    rows = person.page.locator("#conversation-list .open")
    rows.filter(has_text="add buy milk").click()
    rows.filter(has_text="add buy bread").click()
    expect(rows.filter(has_text="add buy bread")).to_have_attribute("aria-current", "true")
    with person.page.expect_response("**/conversations/*") as answered:
        held[0].continue_()
    answered.value.finished()
    person.page.evaluate("new Promise((then) => setTimeout(then))")
    expect(person.page.locator(".message.person")).to_have_text("You: add buy bread")


def test_an_address_that_nobody_can_read_begins_a_conversation(person: Person) -> None:
    person.say("add buy milk")
    person.page.goto(person.url + "/#c/%")
    person.page.reload()
    expect(person.page.locator("#welcome")).to_be_visible()
    assert person.complaints == []


def test_what_is_stopped_before_its_run_is_known_is_stopped_then(person: Person) -> None:
    held: list[Route] = []
    person.page.route("**/chat", lambda route: held.append(route))
    person.message_field.fill("add buy milk")
    with person.page.expect_request("**/chat"):
        person.message_field.press("Enter")
    person.page.get_by_role("button", name="Stop").click()
    with person.page.expect_request("**/runs/*/cancel"):
        held[0].continue_()
