"""Tasks over HTTP, without words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.service.chatting import serving

pytestmark = pytest.mark.anyio


async def test_a_task_is_made_read_changed_and_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        made = (
            await ada.ask(
                "POST",
                "/tasks",
                json={"title": "Buy milk", "priority": "High", "due": "2026-12-01"},
            )
        ).json()
        assert {k: made[k] for k in ("title", "description", "completed", "priority", "due")} == {
            "title": "Buy milk",
            "description": None,
            "completed": False,
            "priority": "High",
            "due": "2026-12-01",
        }
        path = f"/tasks/{made['id']}"
        assert (await ada.ask("GET", path)).json() == made
        changed = (await ada.ask("PATCH", path, json={"completed": True, "due": None})).json()
        assert (changed["completed"], changed["due"], changed["title"]) == (True, None, "Buy milk")
        assert (await ada.ask("DELETE", path)).status_code == 204
        assert (await ada.ask("GET", path)).status_code == 404
        assert (await ada.ask("POST", "/tasks/undo")).json() == {
            "tool": "delete_task",
            "titles": ["Buy milk"],
        }
        assert (await ada.ask("GET", path)).status_code == 200


async def test_tasks_are_filtered_and_cut(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        for title, completed in [("one", False), ("two", True), ("three", False)]:
            await ada.ask("POST", "/tasks", json={"title": title, "completed": completed})

        async def titles(**wanted: Any) -> list[str]:
            return [
                task["title"] for task in (await ada.ask("GET", "/tasks", params=wanted)).json()
            ]

        assert await titles() == ["one", "two", "three"]
        assert await titles(status="completed") == ["two"]
        assert await titles(search="thr") == ["three"]
        assert await titles(limit=1, offset=1) == ["two"]
        assert (await ada.ask("GET", "/tasks", params={"search": "due:never"})).status_code == 422
        assert (await ada.ask("GET", "/tasks", params={"status": "some"})).status_code == 422


@pytest.mark.parametrize(
    "body",
    [
        {"title": "x", "user_id": "somebody"},
        {"title": "x", "id": "00000000-0000-4000-8000-000000000000"},
        {"title": ""},
        {"title": " "},
        {"title": "a\nb"},
        {"title": "x" * 201},
        {"title": "x", "priority": "urgent"},
        {"title": "x", "due": "2026-02-30"},
        {"title": "x", "due": 7},
        {"title": "x", "completed": "yes"},
    ],
)
async def test_what_no_task_can_be_is_refused(tmp_path: Path, body: dict[str, Any]) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        made = (await ada.ask("POST", "/tasks", json={"title": "there"})).json()
        assert (await ada.ask("POST", "/tasks", json=body)).status_code == 422
        assert (await ada.ask("PATCH", f"/tasks/{made['id']}", json=body)).status_code == 422
        assert (await ada.ask("GET", "/tasks")).json() == [made]


async def test_no_task_of_somebody_else_is_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.person() as ada, served.person("bob") as bob:
        made = (await ada.ask("POST", "/tasks", json={"title": "mine"})).json()
        for method, body in [("GET", {}), ("PATCH", {"json": {"title": "his"}}), ("DELETE", {})]:
            foreign = await bob.ask(method, f"/tasks/{made['id']}", **body)
            unknown = await bob.ask(method, "/tasks/00000000-0000-4000-8000-000000000000", **body)
            assert (foreign.status_code, foreign.content) == (404, unknown.content)
        assert (await bob.ask("GET", "/tasks")).json() == []
        assert (await bob.ask("POST", "/tasks/undo")).status_code == 404
        assert await ada.titles() == ["mine"]


@pytest.mark.parametrize(
    "title", ["<img src=x onerror=alert(1)>", "'; drop table task; --", "🎉", "مهمة", "e\u0301"]
)
async def test_a_title_is_a_text_and_nothing_else(tmp_path: Path, title: str) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        assert (await ada.ask("POST", "/tasks", json={"title": title})).json()["title"] == title
        assert await ada.titles() == [title]
