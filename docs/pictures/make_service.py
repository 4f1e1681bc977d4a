"""The pictures of the web page: a real `treadle serve` with the embedded model, looked at with
chromium.

    python -m docs.pictures.make_service            # writes service-*.png beside itself; needs
                                                    chromium
    python -m docs.pictures.make_service --into DIR

Entry: `main`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, expect
from tests.apps.assistant.browser.visiting import CHROMIUM, Person, browsing, served

HERE = Path(__file__).resolve().parent
SAID = (
    "Remind me to call the dentist tomorrow",
    "add pay the rent next friday with high priority, and buy milk",
    "I bought milk",
    "delete call the dentist",
)


def talked(browser: Browser, url: str, *, name: str = "ann", **looks: int | bool) -> Person:
    person = Person(browser, url, **looks)  # pyright: ignore[reportArgumentType]  sizes are numbers, and dark is not
    person.name = name
    person.register()
    for sentence in SAID:
        person.say(sentence)
    return person


def keep(person: Person, into: Path, name: str) -> None:
    person.page.evaluate("document.activeElement.blur()")
    expect(person.page.locator("#open-tasks .task")).to_have_count(2)
    person.page.screenshot(path=into / f"service-{name}.png")
    person.context.close()


def main() -> None:
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    asked.add_argument("--into", type=Path, default=HERE)
    into: Path = asked.parse_args().into
    if CHROMIUM is None:
        sys.exit("no chromium on this machine: install it to make these pictures")
    into.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder)) as url,
        browsing() as browser,
    ):
        keep(talked(browser, url, name="ann", width=1180, height=720), into, "light")
        keep(talked(browser, url, name="bea", width=1180, height=720, dark=True), into, "dark")
        keep(talked(browser, url, name="cleo", width=390, height=720), into, "phone")


if __name__ == "__main__":
    main()
