"""Everybody can use the page: by keyboard alone, read aloud, in the dark, on the narrowest phone;
checked by hand-written rules in the browser.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.apps.assistant.browser.visiting import Person

Visit = Callable[..., Person]

CONTRAST = """
() => {
  const parse = (colour) => {
    const found = colour.match(/[\\d.]+/g).map(Number);
    return colour.startsWith("color(srgb") ? [...found.slice(0, 3).map((c) => c * 255), found[3] ?? 1] : [found[0], found[1], found[2], found[3] ?? 1];
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3]));
  const light = (rgb) => rgb.map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    const chain = [];
    for (let at = element; at; at = at.parentElement) chain.push(parse(getComputedStyle(at).backgroundColor));
    return chain.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
  };
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const faint = [];
  for (const element of document.querySelectorAll("body *")) {
    const says = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== "") || (element.placeholder && element.value === "");
    if (!says || !element.checkVisibility({ checkVisibilityCSS: true }) || element.closest(".unseen, .skip, noscript, option")) continue;
    const style = getComputedStyle(element, element.placeholder && element.value === "" ? "::placeholder" : null);
    const found = ratio(over(parse(style.color), behind(element)), behind(element));
    if (found < 4.5) faint.push(`${element.tagName}.${element.className} ${element.textContent.slice(0, 30)}: ${found.toFixed(2)}`);
  }
  for (const element of document.querySelectorAll("input, select, textarea, .secondary")) {
    if (!element.checkVisibility()) continue;
    const found = ratio(parse(getComputedStyle(element).borderTopColor).slice(0, 3), behind(element.parentElement));
    if (found < 3) faint.push(`edge of ${element.tagName}#${element.id}: ${found.toFixed(2)}`);
  }
  return faint;
}
"""
UNNAMED = """
() => [...document.querySelectorAll("button, input, select, textarea, a, summary, dialog, nav, section, [role=region]")].filter((element) => {
  if (!element.checkVisibility()) return false;
  const labelled = (element.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join("");
  const labels = [...(element.labels ?? [])].map((label) => label.textContent).join("");
  const content = element.matches("button, a, summary") ? element.textContent : "";
  return !(labelled + labels + content + (element.getAttribute("aria-label") ?? "")).trim();
}).map((element) => element.outerHTML.slice(0, 120))
"""
TWICE = "() => { const ids = [...document.querySelectorAll('[id]')].map((e) => e.id); return ids.filter((id, i) => ids.indexOf(id) !== i); }"
SMALL = """
() => [...document.querySelectorAll("button, input, select, textarea, summary, .check")].filter((element) => {
  if (!element.checkVisibility() || element.matches(".check input, .link, .skip")) return false;
  const { width, height } = element.getBoundingClientRect();
  return width < 44 || height < 44;
}).map((element) => `${element.outerHTML.slice(0, 80)} ${JSON.stringify(element.getBoundingClientRect())}`)
"""
ZOOMING = "() => [...document.querySelectorAll('input, select, textarea')].filter((e) => parseFloat(getComputedStyle(e).fontSize) < 16).map((e) => e.id)"
WIDE = """
() => document.documentElement.scrollWidth > innerWidth
  || [...document.querySelectorAll(".tasks, .transcript, .conversations, .views")].some((e) => e.scrollWidth > e.clientWidth)
"""


def filled(person: Person) -> Person:
    person.add("Pay the rent")
    person.say("add buy milk tomorrow with high priority")
    person.add("A title of one word: " + "Donaudampfschifffahrtsgesellschaft" * 4)
    person.page.get_by_role("checkbox", name="Pay the rent").check()
    person.say("delete buy milk")
    return person


def faults(page: Page) -> dict[str, Any]:
    found = {
        name: page.evaluate(rule)
        for name, rule in {"contrast": CONTRAST, "unnamed": UNNAMED, "twice": TWICE}.items()
    }
    return {name: value for name, value in found.items() if value}


@pytest.mark.parametrize("dark", [False, True])
def test_everything_has_a_name_and_can_be_read(visit: Visit, dark: bool) -> None:
    person = visit(dark=dark)
    assert faults(person.page) == {}
    person.page.get_by_role("button", name="Sign in").click()
    assert faults(person.page) == {}, "with an error"
    filled(person.register())
    assert faults(person.page) == {}
    person.page.get_by_role("button", name="Edit buy milk").click()
    person.page.locator("#done summary").click()
    assert faults(person.page) == {}
    person.page.get_by_role("button", name="Delete the conversation").click()
    assert faults(person.page) == {}


def test_the_page_is_used_by_keyboard_alone(person: Person) -> None:
    keyboard, page = person.page.keyboard, person.page
    keyboard.type("add buy milk")
    keyboard.press("Shift+Enter")
    keyboard.press("Backspace")
    keyboard.press("Enter")
    person.reply(0)
    keyboard.type("delete buy milk")
    keyboard.press("Enter")
    person.reply(1)
    keyboard.press("Shift+Tab")
    expect(page.get_by_role("button", name="No, keep it")).to_be_focused()
    keyboard.press("Shift+Tab")
    keyboard.press("Enter")
    assert "removed" in person.reply(2)
    expect(person.task("buy milk")).to_have_count(0)
    expect(person.message_field).to_be_focused()
    keyboard.press("Tab")
    keyboard.press("Tab")
    expect(page.get_by_label("New task")).to_be_focused()
    keyboard.type("Water the plants")
    keyboard.press("Enter")
    expect(person.task("Water the plants")).to_be_visible()
    for _ in range(2):
        keyboard.press("Tab")
    expect(page.get_by_role("checkbox", name="Water the plants")).to_be_focused()
    keyboard.press("Tab")
    keyboard.press("Enter")
    expect(page.get_by_label("Title")).to_be_focused()
    keyboard.press("Escape")
    expect(page.get_by_role("button", name="Edit Water the plants")).to_be_focused()
    keyboard.press("/")
    expect(person.message_field).to_be_focused()
    expect(person.message_field).to_have_value("")


def test_the_focus_is_seen_and_the_first_key_can_skip_to_the_message(person: Person) -> None:
    person.page.reload()
    expect(person.message_field).to_be_focused()
    assert person.message_field.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"
    person.page.locator("body").evaluate("() => document.activeElement.blur()")
    person.page.get_by_role("link", name="Skip to the message field").focus()
    expect(person.page.get_by_role("link", name="Skip to the message field")).to_be_in_viewport()
    person.page.keyboard.press("Enter")
    expect(person.message_field).to_be_focused()


def test_replies_are_read_aloud_politely_and_errors_at_once(person: Person) -> None:
    person.say("add buy milk")
    expect(person.page.locator("#spoken")).to_have_text(
        "Got it! Added 'buy milk' to your list. Anything else?"
    )
    assert person.page.locator("#spoken").get_attribute("aria-live") == "polite"
    person.context.set_offline(True)
    person.message_field.fill("add more")
    person.message_field.press("Enter")
    expect(
        person.page.get_by_role("alert").filter(has_text="There is no connection")
    ).to_be_visible()


@pytest.mark.parametrize("width", [320, 390])
def test_it_fits_a_phone(visit: Visit, width: int) -> None:
    person = visit(width=width, height=700)
    assert not person.page.evaluate(WIDE)
    assert person.page.evaluate(SMALL) == []
    person.register()
    views = person.page.get_by_role("navigation", name="Views")
    views.get_by_role("button", name="Tasks").click()
    person.add("A title of one word: " + "Donaudampfschifffahrtsgesellschaft" * 4)
    views.get_by_role("button", name="Chat").click()
    person.say("add " + "verylongword" * 12)
    person.say("delete verylong")
    for view in ("Chat", "Tasks", "Conversations"):
        views.get_by_role("button", name=view).click()
        assert not person.page.evaluate(WIDE), view
        assert person.page.evaluate(SMALL) == [], view
        assert person.page.evaluate(ZOOMING) == []
    views.get_by_role("button", name="Tasks").click()
    person.page.get_by_role("button", name="Edit A title").click()
    assert not person.page.evaluate(WIDE), "an open editor"


def test_who_wants_no_motion_gets_none(person: Person) -> None:
    assert person.page.evaluate("() => document.getAnimations().length") == 0
    rule = """() => {
        const step = Object.assign(document.createElement("li"), { className: "step under-way" });
        document.querySelector("#messages").append(step);
        return getComputedStyle(step, "::before").animationName;
    }"""
    assert person.page.evaluate(rule) == "none"
