"""The page does what it is for: signing in, talking, and a list of tasks beside it."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Route, expect

from tests.apps.assistant.browser.visiting import PASSWORD, Person

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
    person.page.get_by_role("button", name="No, keep it").click()
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


def test_signing_out_leaves_nothing_on_the_screen_of_any_tab(person: Person) -> None:
    other = person.tab()
    person.add("A secret")
    expect(person.task("A secret", other)).to_be_visible()
    person.page.get_by_role("button", name="Sign out").click()
    for page in (person.page, other):
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        expect(page.get_by_text("A secret")).to_have_count(0)
    person.page.reload()
    person.page.locator("[name=username]:visible").fill(person.name)
    person.page.locator("[name=password]:visible").fill("not this one")
    person.page.locator("[name=password]:visible").press("Enter")
    expect(
        person.page.get_by_role("alert").filter(has_text="The name or the password is wrong.")
    ).to_be_visible()
    person.page.locator("[name=password]:visible").fill(PASSWORD)
    person.page.locator("[name=password]:visible").press("Enter")
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


def test_a_step_whose_command_failed_is_red_and_names_the_exit_code(person: Person) -> None:
    step = person.page.evaluate(
        """async () => {
            const { Reply } = await import("/assets/reply.js");
            const reply = new Reply();
            document.getElementById("messages").append(reply.element);
            reply.stepEnds("call_1", "bash", "no such target", false, 2);
            const step = reply.element.querySelector(".step");
            const bad = getComputedStyle(document.documentElement).getPropertyValue("--bad").trim();
            const sample = Object.assign(document.createElement("i"), { style: `color: ${bad}` });
            document.body.append(sample);
            return [step.textContent, getComputedStyle(step).color === getComputedStyle(sample).color];
        }"""
    )
    assert step == ["bash: exit 2", True]


def test_steps_that_are_alike_are_one_line_with_their_number(person: Person) -> None:
    steps = person.page.evaluate(
        """async () => {
            const { Reply } = await import("/assets/reply.js");
            const reply = new Reply();
            const asked = JSON.stringify({ success: false, error: { code: "confirm", message: "" } });
            for (const call of ["a", "b", "c"]) reply.stepEnds(call, "delete_task", asked, false);
            reply.stepEnds("d", "undo", "{}", false);
            return [...reply.element.querySelectorAll(".step")].map((step) => step.textContent);
        }"""
    )
    assert steps == ["Asked for confirmation (3 times)", "Undid the last change"]


def test_nothing_can_be_said_before_the_conversation_is_there(visit: Visit) -> None:
    """A new account at the address of a conversation that it does not have: what is typed meanwhile
    would be lost.
    """
    person = visit()
    held: list[Route] = []
    person.page.route("**/conversations/gone", lambda route: held.append(route))
    person.page.goto(f"{person.url}/#c/gone")
    person.page.reload()
    person.page.get_by_role("button", name="Create an account").click()
    person.page.locator("[name=username]:visible").fill(person.name)
    person.page.locator("[name=password]:visible").fill(PASSWORD)
    person.page.get_by_role("button", name="Create account").click()
    expect(person.message_field).to_be_disabled()
    expect(person.page.get_by_role("button", name="Send", exact=True)).to_be_disabled()
    for route in held:
        route.continue_()
    expect(person.message_field).to_be_enabled()
    expect(person.message_field).to_be_focused()
    assert person.say("add buy milk") == "Got it! Added 'buy milk' to your list. Anything else?"


def test_a_stored_conversation_can_be_gone_on_with_once_it_is_there(person: Person) -> None:
    person.say("add buy milk")
    held: list[Route] = []
    person.page.route(re.compile(r"/conversations/[\w-]+$"), lambda route: held.append(route))
    person.page.reload()
    expect(person.message_field).to_be_disabled()
    for route in held:
        route.continue_()
    expect(person.message_field).to_be_focused()
    person.say("add buy bread")
    expect(person.page.locator(".message.person")).to_have_count(2)
