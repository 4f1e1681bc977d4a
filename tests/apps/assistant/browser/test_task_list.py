"""The list of tasks is as the server has it, is changed by hand, and shows whatever stands in it as
text.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.apps.assistant.browser.visiting import Person


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
    assert "Drop" not in person.say("list my tasks"), (
        "what was deleted a moment ago is deleted before anything is said"
    )
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
    expect(person.task("Pay the rent").locator(".facts")).to_have_text(
        re.compile("High priority.*2 May 2031")
    )
    person.page.reload()
    expect(person.task("Pay the rent").locator(".facts")).to_have_text(
        re.compile("High priority.*2 May 2031")
    )


def test_a_change_elsewhere_leaves_what_is_typed_into_an_editor(person: Person) -> None:
    person.add("Rent")
    other = person.tab()
    person.page.get_by_role("button", name="Edit Rent").click()
    person.page.get_by_label("Title").fill("Half typed")
    other.get_by_label("New task").fill("From the other tab")
    other.get_by_label("New task").press("Enter")
    expect(person.task("From the other tab")).to_be_visible()
    expect(person.page.get_by_label("Title")).to_have_value("Half typed")
    other.get_by_role("button", name="Delete Rent").click()
    with other.expect_response(lambda response: response.request.method == "DELETE"):
        other.get_by_role("button", name="Close").click()
    person.page.get_by_role("button", name="Save").click()
    expect(person.page.locator("#alarm")).to_contain_text("That task is gone")
    expect(person.page.get_by_label("Title")).to_have_value("Half typed")
    person.page.get_by_role("button", name="Cancel").click()
    expect(person.task("Rent")).to_have_count(0)


def test_a_second_tab_changes_with_the_first(person: Person) -> None:
    other = person.tab()
    person.say("add call mum tomorrow")
    expect(person.task("call mum", other)).to_be_visible()
    other.get_by_role("checkbox", name="call mum").check()
    expect(person.page.locator("#open-tasks .task")).to_have_count(0)


@pytest.mark.parametrize(
    "title",
    [
        "<img src=x onerror=alert(1)>",
        "<script src=//elsewhere.test></script>",
        "[a](https://elsewhere.test) ![b](https://elsewhere.test/i.png)",
    ],
)
def test_markup_stays_text_and_asks_no_server(person: Person, title: str) -> None:
    person.add(title)
    person.say(f"add {title}")
    person.say("list my tasks")
    expect(person.page.locator("#open-tasks .title").first).to_have_text(title)
    assert (
        person.page.locator(
            "main img, main script, main a, section img, section script, section a"
        ).count()
        == 0
    )


def test_right_to_left_text_turns_only_itself(person: Person) -> None:
    person.add("לקנות חלב ‮ abc")
    title = person.page.locator("#open-tasks .title")
    assert title.evaluate("e => getComputedStyle(e).direction") == "rtl"
    assert title.evaluate("e => getComputedStyle(e).unicodeBidi") == "isolate"
    assert person.page.locator(".face").evaluate("e => getComputedStyle(e).direction") == "ltr"
