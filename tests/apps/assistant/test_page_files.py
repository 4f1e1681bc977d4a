"""The page's files as they are served: which there are, how they are kept, what they may do."""

from __future__ import annotations

import re
from importlib.resources import files

import anyio
import httpx2
import pytest
from fastapi import FastAPI

from treadle.apps.assistant.application import PAGE
from treadle.service.page import CONTENT_POLICY, page_router

FOLDER = files(PAGE.package).joinpath(PAGE.folder)


def get(path: str, method: str = "GET", **headers: str) -> httpx2.Response:
    app = FastAPI()
    app.include_router(page_router(PAGE))

    async def ask() -> httpx2.Response:
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app), base_url="http://page"
        ) as client:
            return await client.request(
                method,
                path,
                headers={name.replace("_", "-"): value for name, value in headers.items()},
            )

    return anyio.run(ask)


def test_every_file_of_the_folder_is_served_and_no_other() -> None:
    assert {file.name for file in FOLDER.iterdir()} == {"index.html", *PAGE.assets}
    for name in ("index.html", "page.py", "%2e%2e%2fpage.py", "..%2fpage.py", ""):
        assert get(f"/assets/{name}").status_code == 404, name


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html"),
        ("/assets/app.js", "text/javascript"),
        ("/assets/style.css", "text/css"),
        ("/assets/icon.svg", "image/svg+xml"),
    ],
)
def test_a_file_has_its_type_and_is_not_sent_twice(path: str, kind: str) -> None:
    first = get(path)
    assert first.status_code == 200
    assert first.headers["content-type"].startswith(kind)
    assert first.headers["cache-control"] == "no-cache"
    again = get(path, if_none_match=f'"another", W/{first.headers["etag"]}')
    assert (again.status_code, again.content, again.headers["etag"]) == (
        304,
        b"",
        first.headers["etag"],
    )
    assert get(path, "HEAD").status_code == 200


def test_nothing_inline_stands_in_the_page_and_nothing_of_others_is_named() -> None:
    page = get("/").text
    assert get("/").headers["content-security-policy"] == CONTENT_POLICY
    assert "unsafe" not in CONTENT_POLICY
    assert (
        re.findall(r"<script(?![^>]* src=)[^>]*>|<style|\sstyle=|\son\w+=|javascript:", page) == []
    )
    named = re.findall(r'(?:src|href|action)="([^"]*)"', page)
    assert named
    assert [one for one in named if not re.match(r"/(assets|auth)/|#", one)] == []


def test_no_code_of_the_page_reads_html() -> None:
    code = {
        name: FOLDER.joinpath(name).read_text(encoding="utf-8")
        for name in PAGE.assets
        if name.endswith(".js")
    }
    assert [
        name
        for name, text in code.items()
        if re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|DOMParser",
            text,
        )
    ] == []
    imported = {
        name for text in code.values() for name in re.findall(r'from "/assets/([\w.]+)"', text)
    }
    assert imported == set(code) - {"app.js"}


def test_the_files_of_the_page_are_as_small_as_any() -> None:
    assert [
        name
        for name in PAGE.assets
        if name.endswith(".js")
        and len(FOLDER.joinpath(name).read_text(encoding="utf-8").splitlines()) > 360
    ] == []
