"""What machines ask: whether it lives, whether it can work, what it has done, and what it offers."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.types import Receive, Scope, Send

from tests.service.at_hand import URL, opened, problem
from treadle.errors import AgentError
from treadle.service.health import FORWARDED


async def test_it_lives_and_is_ready_until_it_is_about_to_end(tmp_path: Path) -> None:
    async with opened(tmp_path) as hand:
        assert (await hand.http.get("/healthz")).json() == {"status": "ok"}
        assert (await hand.http.get("/readyz")).json() == {"status": "ok"}
        hand.service.stopping.set()
        assert (await hand.http.get("/healthz")).status_code == 200
        answer = await hand.http.get("/readyz")
        assert problem(answer, 503) == "Not ready."
        assert answer.headers["retry-after"]


async def test_it_is_not_ready_without_its_database_and_says_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone() -> None:
        raise AgentError("network", "the database at /secret/place does not answer")

    async with opened(tmp_path) as hand:
        monkeypatch.setattr(hand.service.database, "ping", gone)
        assert problem(await hand.http.get("/readyz"), 503) == "Not ready."
        assert (await hand.http.get("/healthz")).status_code == 200


async def test_why_a_request_failed_stands_in_the_log_and_not_in_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def gone(*_: object) -> None:
        raise AgentError("network", "the database does not answer")

    async with opened(tmp_path) as hand:
        headers = await hand.registered()
        for way in ("run", "read", "run_unscoped", "read_unscoped"):
            monkeypatch.setattr(hand.service.database, way, gone, raising=False)
        assert (
            problem(await hand.http.get("/tasks", headers=headers), 503)
            == "I'm having a bit of trouble right now. Please try again."
        )
    assert "a request failed for now: network: the database does not answer" in caplog.text


async def test_what_a_field_must_be_is_said_without_the_librarys_words(tmp_path: Path) -> None:
    async with opened(tmp_path) as hand:
        headers = await hand.registered()
        said = problem(
            await hand.http.post("/tasks", json={"title": "x", "due": "tomorrow"}, headers=headers),
            422,
        )
    assert (
        said == "The request is invalid: body.due: a due date is a valid date in the form "
        "YYYY-MM-DD, like 2026-12-01"
    )


async def test_behind_a_proxy_metrics_and_document_need_a_token(tmp_path: Path) -> None:
    """C7: nginx sends `Host: 127.0.0.1` unless it is configured otherwise."""

    async def statuses(http: httpx2.AsyncClient, **headers: str) -> set[int]:
        paths = ("/metrics", "/openapi.json")
        return {(await http.get(path, headers=headers)).status_code for path in paths}

    async with opened(tmp_path) as hand:
        assert await statuses(hand.http) == {200}
        for name in FORWARDED:
            assert await statuses(hand.http, **{name: "198.51.100.7"}) == {401}, name

        async def older(scope: Scope, receive: Receive, send: Send) -> None:
            await hand.app({**scope, "http_version": "1.0"}, receive, send)

        transport = httpx2.ASGITransport(app=older)
        async with httpx2.AsyncClient(transport=transport, base_url=URL) as http:
            assert await statuses(http) == {401}
            assert await statuses(http, **await hand.registered()) == {200}
    async with opened(tmp_path, proxies=["127.0.0.2"]) as hand:
        assert await statuses(hand.http) == {401}
    async with opened(tmp_path, open_docs=True) as hand:
        assert await statuses(hand.http, Via="1.1 proxy") == {200}


async def test_requests_are_counted_by_route_and_nothing_of_a_person_stands_there(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as hand:
        headers = await hand.registered("adalovelace")
        task = (await hand.http.post("/tasks", json={"title": "canary"}, headers=headers)).json()
        await hand.http.get(f"/tasks/{task['id']}", headers=headers)
        await hand.http.get("/wp-admin/canary")
        text = (await hand.http.get("/metrics")).text
        families = {family.name: family for family in text_string_to_metric_families(text)}
        counted = {
            tuple(sample.labels.values())
            for sample in families["treadle_http_requests"].samples
            if sample.name.endswith("_total")
        }
        assert {
            ("POST", "/auth/register", "201"),
            ("GET", "/tasks/{task_id}", "200"),
            ("GET", "none", "404"),
        } <= counted
        assert {
            "treadle_http_request_seconds",
            "treadle_runs",
            "treadle_streams_open",
            "treadle_tokens",
            "treadle_refusals",
        } <= set(families)
        for word in ("canary", "adalovelace", task["id"]):
            assert word not in text


@pytest.mark.parametrize("path", ["/openapi.json", "/metrics"])
async def test_beyond_the_loopback_the_document_and_the_metrics_need_a_token(
    tmp_path: Path, path: str
) -> None:
    async with opened(tmp_path) as hand:
        headers = await hand.registered()
        assert (await hand.http.get(path)).status_code == 200
    for reached in (
        {"on_loopback": False},
        {"hosts": ("tasks.example",)},
        {"public_url": "https://tasks.example"},
        {"open_docs": False},
    ):
        async with opened(tmp_path, **reached) as hand:  # ht-055
            problem(await hand.http.get(path), 401)
            assert (await hand.http.get(path, headers=headers)).status_code == 200
    async with opened(tmp_path, on_loopback=False, open_docs=True) as hand:
        assert (await hand.http.get(path)).status_code == 200
        for closed in ("/docs", "/redoc", "/debug"):
            problem(await hand.http.get(closed), 404)
