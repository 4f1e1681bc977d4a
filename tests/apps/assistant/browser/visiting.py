"""A person with a browser: what the tests of the page and the pictures for the docs share. Entry:

`served`, `browsing`, `Person`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Error,
    Locator,
    Page,
    Request,
    expect,
    sync_playwright,
)

from tests.fork_server import command

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--process-per-site",  # tabs of one person share a process
)
CHROMIUM = (
    shutil.which("chromium-headless-shell")  # has no window to draw, and needs half the time
    or shutil.which("chromium")
    or shutil.which("chromium-browser")
)
PATIENCE_MS = 60_000
"""For what shall appear: a busy machine needs more than Playwright's five seconds."""
expect.set_options(timeout=PATIENCE_MS)
PASSWORD = "a loom has two treadles"
_NAMES = count(1)
_ANSWERS_OF_THE_SERVER = re.compile(
    r"Failed to load resource: (the server responded with a status of|net::ERR_)"
)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a `treadle serve` of its own, with the embedded model."""
    home = folder / "home"
    home.mkdir(parents=True)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TREADLE_HOME": str(home / ".treadle"),
        "LANG": "C.UTF-8",
    }
    with (
        (folder / "server.log").open("w") as log,
        subprocess.Popen(
            command("treadle", "serve", "--port", "0"),
            cwd=home,
            env=env,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as server,
    ):
        assert server.stdout is not None
        try:
            first = server.stdout.readline().strip()
            assert first.startswith("http://"), f"{first}\n{(folder / 'server.log').read_text()}"
            yield first
        finally:
            server.terminate()
            server.communicate(timeout=200)


@contextmanager
def browsing() -> Iterator[Browser]:
    """Debian's chromium, with an empty profile of its own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


class Person:
    """Somebody with a browser of their own.

    `complaints`: what a browser said against the page; `elsewhere`: what it asked other servers
    for.
    """

    def __init__(
        self,
        browser: Browser,
        url: str,
        *,
        width: int = 1280,
        height: int = 800,
        dark: bool = False,
        page: Page | None = None,
    ) -> None:
        """`page`: one that an earlier person has left; by default a new one, with a process of its
        own.
        """
        self.url = url
        self.name = f"person-{next(_NAMES)}"
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        page = page or browser.new_context(reduced_motion="reduce").new_page()
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme="dark" if dark else "light")
        self.context = page.context
        self.page = self._at_the_service(page)

    def tab(self) -> Page:
        """Another page of the same browser, at the service."""
        return self._at_the_service(self.context.new_page())

    def _at_the_service(self, page: Page) -> Page:
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", self._heard)
        page.on("pageerror", self._failed)
        page.on("request", self._asked)
        page.goto(self.url)
        return page

    def leave(self) -> Page:
        """Close the other tabs, and return the page with nothing of this person in its browser."""
        for page in self.context.pages:
            if page is not self.page:
                page.close()
        self.context.set_offline(False)
        self.page.unroute_all(behavior="ignoreErrors")
        self.page.remove_listener("console", self._heard)
        self.page.remove_listener("pageerror", self._failed)
        self.page.remove_listener("request", self._asked)
        self.page.goto(f"{self.url}/left")  # a page of the same origin, without a script
        self.page.evaluate("localStorage.clear(); sessionStorage.clear()")
        self.context.clear_cookies()
        return self.page

    def _failed(self, error: Error) -> None:
        self.complaints.append(str(error))

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not _ANSWERS_OF_THE_SERVER.match(message.text):
            self.complaints.append(message.text)

    def _asked(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.url).netloc:
            self.elsewhere.append(request.url)

    # ------------------------------------------------------------ what people do

    def register(self) -> Self:
        self.page.get_by_role("button", name="Create an account").click()
        self.page.locator("[name=username]:visible").fill(self.name)
        self.page.locator("[name=password]:visible").fill(PASSWORD)
        self.page.get_by_role("button", name="Create account").click()
        expect(self.message_field).to_be_focused()
        return self

    def say(self, text: str) -> str:
        """The reply to it, once it is whole."""
        replies = self.page.locator(".message.reply")
        before = replies.count()
        self.message_field.fill(text)
        self.message_field.press("Enter")
        return self.reply(before)

    def reply(self, index: int) -> str:
        """The one at that place, once it is whole."""
        reply = self.page.locator(".message.reply").nth(index)
        expect(reply).to_be_visible()
        expect(self.page.get_by_role("button", name="Send", exact=True)).to_be_visible()
        return reply.locator(".words").inner_text()

    def add(self, title: str) -> None:
        self.page.get_by_label("New task").fill(title)
        self.page.get_by_label("New task").press("Enter")
        expect(self.task(title)).to_be_visible()

    def task(self, title: str, page: Page | None = None) -> Locator:
        return (
            (page or self.page)
            .locator("#tasks .task")
            .filter(
                has=(page or self.page).locator(
                    ".title", has_text=re.compile(f"^{re.escape(title)}$")
                )
            )
        )

    @property
    def message_field(self) -> Locator:
        return self.page.get_by_label("Message", exact=True)

    @property
    def open_titles(self) -> list[str]:
        return self.page.locator("#open-tasks .title").all_inner_texts()
