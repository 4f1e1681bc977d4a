"""The page does what it is for: signing in, talking, and a list of tasks that is always as the server has it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Route, expect

from tests.service.browser.visiting import PASSWORD, Person

Visit = Callable[..., Person]


def test_what_is_said_changes_the_list_without_a_reload(person: Person) -> None:
    person.page.evaluate("window.isTheSame = true")
    assert person.say("add buy milk") == "Got it! Added 'buy milk' to your list. Anything else?"
    expect(person.task("buy milk")).to_be_visible()
    expect(person.page.locator(".reply .step")).to_have_text("Added a task")
    assert person.page.evaluate("window.isTheSame")


def test_a_deletion_is_confirmed_by_its_button(person: Person) -> None:
    person.add("Sell the car")
    assert "Reply 'yes delete' to confirm." in person.say("delete sell the car")
    person.page.get_by_role("button", name="Yes, delete").click()
    assert person.reply(1) == "I've removed 'Sell the car' from your tasks."
    expect(person.page.locator(".message.person").last).to_contain_text("yes delete")
    expect(person.task("Sell the car")).to_have_count(0)
    expect(person.page.get_by_role("button", name="Yes, delete")).to_have_count(0)


def test_a_deletion_is_cancelled_by_the_other_button(person: Person) -> None:
    person.add("Sell the car")
    person.say("delete sell the car")
    person.page.get_by_role("button", name="No, keep it as it is").click()
    person.reply(1)
    expect(person.task("Sell the car")).to_be_visible()
    person.say("yes delete")
    expect(person.task("Sell the car")).to_be_visible()


def test_many_at_once_are_confirmed_by_a_button_that_says_how_many(person: Person) -> None:
    for title in ("One", "Two", "Three"):
        person.add(title)
    assert "Confirm with 'yes complete all 3'." in person.say("complete all my tasks")
    person.page.get_by_role("button", name="Yes, complete all 3").click()
    person.reply(1)
    expect(person.page.get_by_text("Nothing to do.")).to_be_visible()
    expect(person.page.locator("#done-count")).to_have_text("3")


def test_tasks_are_checked_off_and_back(person: Person) -> None:
    person.add("Water the plants")
    person.page.get_by_role("checkbox", name="Water the plants").check()
    expect(person.page.locator("#open-tasks .task")).to_have_count(0)
    person.page.get_by_role("button", name="Undo").click()
    expect(person.page.get_by_role("checkbox", name="Water the plants")).not_to_be_checked()
    assert person.open_titles == ["Water the plants"]


def test_a_deletion_by_hand_can_be_taken_back_and_else_happens(person: Person) -> None:
    for title in ("Keep", "Drop"):
        person.add(title)
        person.page.get_by_role("button", name=f"Delete {title}").click()
        expect(person.task(title)).to_have_count(0)
        if title == "Keep":
            person.page.get_by_role("button", name="Undo").click()
            expect(person.task(title)).to_be_visible()
    assert "Drop" not in person.say("list my tasks"), "what was deleted a moment ago is deleted before anything is said"
    person.page.reload()
    expect(person.task("Keep")).to_be_visible()
    expect(person.task("Drop")).to_have_count(0)


def test_title_priority_and_due_date_are_edited_in_place(person: Person) -> None:
    person.add("Rent")
    person.page.get_by_role("button", name="Edit Rent").click()
    person.page.get_by_label("Title").fill("Pay the rent")
    person.page.get_by_label("Priority").select_option("High")
    person.page.get_by_label("Due").fill("2031-05-02")
    person.page.get_by_role("button", name="Save").click()
    expect(person.task("Pay the rent").locator(".facts")).to_have_text(re.compile("High priority.*2 May 2031"))
    person.page.reload()
    expect(person.task("Pay the rent").locator(".facts")).to_have_text(re.compile("High priority.*2 May 2031"))


def test_a_change_elsewhere_leaves_what_is_typed_into_an_editor(person: Person) -> None:
    person.add("Rent")
    other = person.tab()
    person.page.get_by_role("button", name="Edit Rent").click()
    person.page.get_by_label("Title").fill("Half typed")
    other.get_by_label("New task").fill("From the other tab")
    other.get_by_label("New task").press("Enter")
    expect(person.task("From the other tab")).to_be_visible()
    expect(person.page.get_by_label("Title")).to_have_value("Half typed")


def test_a_second_tab_changes_with_the_first(person: Person) -> None:
    other = person.tab()
    person.say("add call mum tomorrow")
    expect(person.task("call mum", other)).to_be_visible()
    other.get_by_role("checkbox", name="call mum").check()
    expect(person.page.locator("#open-tasks .task")).to_have_count(0)


def test_a_reload_keeps_who_is_signed_in_what_was_said_and_what_was_typed(person: Person) -> None:
    person.say("add buy milk")
    person.message_field.fill("half a sentence")
    person.page.reload()
    expect(person.page.locator(".message.person")).to_contain_text("add buy milk")
    expect(person.page.locator(".reply .step")).to_have_text("Added a task")
    expect(person.message_field).to_have_value("half a sentence")
    assert person.context.cookies(person.url + "/auth/")[0].get("httpOnly")
    assert "eyJ" not in person.page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")


def test_signing_out_leaves_nothing_on_the_screen_of_any_tab(person: Person) -> None:
    other = person.tab()
    person.add("A secret")
    expect(person.task("A secret", other)).to_be_visible()
    person.page.get_by_role("button", name="Sign out").click()
    for page in (person.page, other):
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        expect(page.get_by_text("A secret")).to_have_count(0)
    person.page.reload()
    person.page.get_by_label("Username").fill(person.name)
    person.page.get_by_label("Password", exact=True).fill("not this one")
    person.page.get_by_label("Password", exact=True).press("Enter")
    expect(person.page.get_by_role("alert").filter(has_text="The name or the password is wrong.")).to_be_visible()
    person.page.get_by_label("Password", exact=True).fill(PASSWORD)
    person.page.get_by_label("Password", exact=True).press("Enter")
    expect(person.task("A secret")).to_be_visible()


def test_two_people_see_only_their_own(visit: Visit) -> None:
    ann, bob = visit().register(), visit().register()
    ann.say("add ann's birthday cake")
    bob.say("add bob's bicycle")
    expect(ann.page.locator("#open-tasks .task")).to_have_count(1)
    expect(bob.page.locator("#open-tasks .task")).to_have_count(1)
    assert "bicycle" not in ann.say("list my tasks")
    assert "birthday" not in bob.page.content()


def test_conversations_are_opened_begun_and_deleted_after_a_question(person: Person) -> None:
    person.say("add the first thing")
    person.page.get_by_role("button", name="New conversation").click()
    expect(person.page.locator(".message")).to_have_count(0)
    person.say("add the second thing")
    conversations = person.page.locator("#conversation-list .open")
    expect(conversations).to_have_count(2)
    conversations.filter(has_text="first").click()
    expect(person.page.locator(".message.person")).to_contain_text("add the first thing")
    person.page.go_back()
    expect(person.page.locator(".message.person")).to_contain_text("add the second thing")
    person.page.get_by_role("button", name="Delete the conversation add the second thing").click()
    person.page.get_by_role("button", name="Keep it").click()
    expect(conversations).to_have_count(2)
    person.page.get_by_role("button", name="Delete the conversation add the second thing").click()
    person.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(conversations).to_have_count(1)
    expect(person.task("the second thing")).to_be_visible()


@pytest.mark.parametrize("title", ["<img src=x onerror=alert(1)>", "<script src=//elsewhere.test></script>", "[a](https://elsewhere.test) ![b](https://elsewhere.test/i.png)"])
def test_markup_stays_text_and_asks_no_server(person: Person, title: str) -> None:
    person.add(title)
    person.say(f"add {title}")
    person.say("list my tasks")
    expect(person.page.locator("#open-tasks .title").first).to_have_text(title)
    assert person.page.locator("main img, main script, main a, section img, section script, section a").count() == 0


def test_right_to_left_text_turns_only_itself(person: Person) -> None:
    person.add("לקנות חלב ‮ abc")
    title = person.page.locator("#open-tasks .title")
    assert title.evaluate("e => getComputedStyle(e).direction") == "rtl"
    assert title.evaluate("e => getComputedStyle(e).unicodeBidi") == "isolate"
    assert person.page.locator(".face").evaluate("e => getComputedStyle(e).direction") == "ltr"


def test_a_message_that_does_not_get_through_goes_back_to_its_field(person: Person) -> None:
    def refuse(route: Route) -> None:
        route.fulfill(status=429, headers={"Retry-After": "30", "Content-Type": "application/problem+json"}, body='{"detail": "That is too much."}')

    person.page.route("**/chat", refuse)
    person.message_field.fill("add something long\nwith two lines")
    person.message_field.press("Enter")
    expect(person.page.locator("#alarm")).to_contain_text(re.compile(r"That is too much\. Try again in 30 seconds, at \d\d:\d\d"))
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
    """The stream ends behind the first event: the rest comes by another request, which names that event."""
    asked: list[str | None] = []

    def cut(route: Route) -> None:
        whole = route.fetch()
        first, _, _ = whole.text().partition("\n\n")
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
    person.page.on("request", lambda request: refreshed.append(request.url) if request.url.endswith("/auth/refresh") else None)
    refused: set[str] = set()

    def expire(route: Route) -> None:
        token = route.request.headers.get("authorization", "")
        if route.request.url.endswith("/auth/refresh") or token not in over:
            return route.continue_()
        refused.add(route.request.url)
        return route.fulfill(status=401, body="{}")

    over: set[str] = set()
    person.page.on("request", lambda request: over.add(request.headers.get("authorization", "")) if not refreshed and "authorization" in request.headers else None)
    person.page.route("**/tasks", expire)
    person.page.route("**/chat", expire)
    person.page.evaluate("document.querySelector('#new-task').value = 'From the list'; document.querySelector('#add-task').requestSubmit()")
    assert "Added" in person.say("add from the chat")
    expect(person.task("From the list")).to_be_visible()
    assert len(refused) >= 1
    assert len(refreshed) == 1
