"""The document says everything: which routes there are, what they take, and every answer that they
give.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastapi.routing import iter_route_contexts

from tests.service.at_hand import AtHand, opened

NOT_IN_IT = {"/openapi.json", "/", "/assets/{name}", "/mcp"}
"""The document itself, the page, and what has a protocol of its own."""
BODY = '{"username": "nobody", "password": "12345678"}'
JSON = {"Content-Type": "application/json"}

HEADERS: dict[str, tuple[dict[str, str], str]] = {
    "nothing": ({}, ""),
    "an empty object": (JSON, "{}"),
    "a list": (JSON, "[]"),
    "an unknown member": (JSON, '{"unknown": 1}'),
    "something that fits somewhere": (JSON, BODY),
    "no JSON": (JSON, "{"),
    "a NUL": (JSON, r'{"username": "\u0000"}'),
    "a form": ({"Content-Type": "application/x-www-form-urlencoded"}, "a=b"),
    "something packed": ({**JSON, "Content-Encoding": "gzip"}, "x"),
    "something large": ({**JSON, "Content-Length": "1073741824"}, ""),
    "a strange length": ({**JSON, "Content-Length": "x"}, ""),
    "another name": ({"Host": "evil.example"}, ""),
    "another page": ({"Origin": "https://evil.example"}, ""),
    "a forged token": ({"Authorization": "Bearer a.b.c"}, ""),
    "an odd place": ({"Last-Event-ID": "-1 OR 1=1"}, ""),
}


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


async def document_of(hand: AtHand) -> dict[str, Any]:
    return (await hand.http.get("/openapi.json")).json()


async def test_every_route_is_in_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as hand:
        listed = {(method, path) for method, path, _ in operations(await document_of(hand))}
        there = {
            (method, route.path)
            for route in iter_route_contexts(hand.app.routes)
            if route.path
            for method in route.methods or ()
            if method != "HEAD"
        }
        assert {(method, path) for method, path in there - listed if path not in NOT_IN_IT} == set()
        assert listed <= there


async def test_what_needs_somebody_says_so_and_what_does_not_is_known(tmp_path: Path) -> None:
    async with opened(tmp_path, on_loopback=False, open_docs=None) as hand:
        headers = await hand.registered()
        document = (await hand.http.get("/openapi.json", headers=headers)).json()
        unasked = {
            path for _, path, operation in operations(document) if not operation.get("security")
        }
        assert unasked == {"/auth/register", "/auth/login", "/auth/logout", "/healthz", "/readyz"}
        assert document["components"]["securitySchemes"]["bearer"] == {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": "The access_token of POST /auth/login.",
        }
        hand.http.cookies.clear()
        for method, path, operation in operations(document):
            if operation.get("security"):
                answer = await hand.http.request(method, path)
                assert answer.status_code == 401, (method, path)


async def test_bodies_are_closed_and_no_text_in_them_takes_a_nul(tmp_path: Path) -> None:
    async with opened(tmp_path) as hand:
        document = await document_of(hand)
        bodies = [
            operation["requestBody"]["content"]
            for _, _, operation in operations(document)
            if "requestBody" in operation
        ]
        assert all(set(body) == {"application/json"} for body in bodies)
        wrong = [
            where
            for body in bodies
            for where in loose(body["application/json"]["schema"], document, "")
        ]
        assert wrong == []


def loose(schema: dict[str, Any], document: dict[str, Any], where: str) -> Iterator[str]:
    """Objects that take unknown members, and texts that take anything."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        yield from loose(document["components"]["schemas"][name], document, name)
    for key in ("anyOf", "oneOf", "allOf"):
        for one in schema.get(key, ()):
            yield from loose(one, document, where)
    if schema.get("type") == "object" and "properties" in schema:
        if schema.get("additionalProperties") is not False:
            yield f"{where} is open"
        for name, inner in schema["properties"].items():
            yield from loose(inner, document, f"{where}.{name}")
    if schema.get("type") == "array":
        yield from loose(schema.get("items", {}), document, f"{where}[]")
    if schema.get("type") == "string" and not {"pattern", "enum", "const", "format"} & set(schema):
        yield f"{where} takes any text"


async def test_every_answer_that_is_seen_stands_in_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as hand:
        token = await hand.registered()
        for method, path, operation in operations(await document_of(hand)):
            if path.endswith("/events"):
                continue  # an answer without an end, where it is not refused
            for said, (headers, content) in HEADERS.items():
                for signed in ({}, token):
                    answer = await hand.http.request(
                        method,
                        path.replace("{", "").replace("}", ""),
                        headers={**signed, **headers},
                        content=content.encode(),
                    )
                    at = (method, path, said, answer.status_code)
                    assert (
                        str(answer.status_code) in operation["responses"]
                        or answer.status_code == 429
                    ), at
                    described = operation["responses"].get(str(answer.status_code), {})
                    kinds = set(described.get("content", {}))
                    kind = answer.headers.get("content-type", "").partition(";")[0]
                    assert (kind in kinds) if answer.content else not kinds or kind == "", (
                        *at,
                        kind,
                        kinds,
                    )
                    for name in described.get("headers", {}):
                        assert name.lower() in answer.headers, (*at, name)


async def test_a_document_has_answers_for_what_the_border_refuses(tmp_path: Path) -> None:
    async with opened(tmp_path) as hand:
        for method, path, operation in operations(await document_of(hand)):
            for status in (
                "400",
                "403",
                "413",
                "415",
                "421",
                "422",
                "429",
                "500",
                "503",
                *(["401"] if operation.get("security") else []),
            ):
                assert "application/problem+json" in operation["responses"][status]["content"], (
                    method,
                    path,
                    status,
                )
