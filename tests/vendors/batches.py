"""A server with the batch APIs of three vendors, on loopback. It enforces what they document about
batches; the rules of server.py check each request.

A batch is over after `looks` questions. Entry: `BatchServer`, `batch_server`.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.models.providers.loopback import GONE, Answer, Server, Step, document, listening
from tests.models.providers.speech import Call, Said, Text
from tests.vendors.gemini import signed_for
from tests.vendors.rules import Asked, Json
from tests.vendors.server import PLACEHOLDERS, RULES, SPEECHES
from treadle._internal.redaction import Secret
from treadle.config import Config, Price, Provider
from treadle.types import StopReason

MODELS = {
    "anthropic": "claude-haiku-5-5",
    "openai": "gpt-6.1-terra",
    "openai-chat": "gpt-4.1-mini",
    "gemini": "gemini-3.8-flash",
}
WIRES = tuple(MODELS)
LIMITS = {"anthropic": 100_000, "openai": 50_000, "openai-chat": 50_000, "gemini": 50_000}
ENDPOINTS = {"/v1/responses": "openai", "/v1/chat/completions": "openai-chat"}
CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")

Reply = Callable[[str], str | Said]
"""What the model says to the last text of a request."""


@dataclass
class Held:
    """A batch at the vendor."""

    id: str
    wire: str
    requests: dict[str, Json]
    key: str
    at: datetime
    looks: int
    state: str = "in_progress"
    fate: str = ""
    """What becomes of the requests in it: empty, or expired, cancelled, lost."""


class Refused(Exception):
    """An answer of 400."""


@dataclass
class BatchServer(Server):
    reply: Reply = lambda text: f"Echo: {text}"
    looks: int = 2
    """Questions until a new batch is over."""
    fate: str = ""
    """Of new batches."""
    fails: list[Answer] = field(default_factory=list[Answer])
    """Answers to the next requests instead of the vendor's own."""
    loses_answer: bool = False
    """Whether the next batch is created, and the connection cut before the answer."""
    on_created: Callable[[], object] = lambda: None
    """Called between the creation of a batch and its answer."""

    def __post_init__(self) -> None:
        super().__init__("http")
        self.held: list[Held] = []
        self.files: dict[str, bytes] = {}
        self.issued: dict[str, object] = {}
        self.ordinary: list[Json] = []
        """Requests that were sent outside of a batch."""

    def config(self, wire: str) -> Config:
        base = self.url if wire in ("anthropic", "gemini") else f"{self.url}/v1"
        server = "openai" if wire == "openai-chat" else ""
        provider = Provider(type=wire, api_key=Secret("test-key-1"), base_url=base, server=server)
        prices = {f"{wire}:*": Price(input=1_000_000, output=0)}
        return Config(providers={wire: provider}, prices=prices)

    @property
    def custom_ids(self) -> list[str]:
        return [custom_id for held in self.held for custom_id in held.requests]

    async def handle(self, stream: Any) -> None:
        self.answers = _Each(self)  # pyright: ignore[reportAttributeAccessIssue]  an answer for each request
        try:
            await super().handle(stream)
        except GONE:
            return

    def answer(self) -> Answer:
        if self.fails:
            return self.fails.pop(0)
        seen = self.seen[-1]
        try:
            return self._routed(seen.method, seen.target, seen.body, seen.headers)
        except Refused as e:
            wire = "anthropic" if "/messages" in seen.target else "openai"
            return document(SPEECHES[wire].error(400, str(e)), status=400)

    def _routed(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        path, _, query = target.partition("?")
        match method, path.strip("/").split("/"):
            case "POST", ["v1", "messages", "batches"]:
                return self._created("anthropic", _items(json.loads(body)["requests"], "params"))
            case "GET", ["v1", "messages", "batches"]:
                return self._listed("anthropic", "data", query)
            case "GET", ["v1", "messages", "batches", batch_id, "results"]:
                held = self._held(batch_id)
                if held.state != "ended":
                    raise Refused("the results of a batch in progress cannot be read")
                return _lines(self._claude_results(held))
            case "POST", ["v1", "files"]:
                return self._uploaded(body, headers)
            case "GET", ["v1", "files", file_id, "content"]:
                return Answer(steps=_cut(self.files[file_id]), type="application/octet-stream")
            case "POST", ["v1", "batches"]:
                return self._of_file(json.loads(body))
            case "GET", ["v1", "batches"]:
                return self._listed("openai", "data", query)
            case "GET", ["v1beta", "batches"]:
                return self._listed("gemini", "operations", query)
            case "POST", ["v1beta", "models", _] if path.endswith(":batchGenerateContent"):
                batch = json.loads(body)["batch"]
                items = batch["inputConfig"]["requests"]["requests"]
                found = [(item["metadata"]["key"], item["request"]) for item in items]
                return self._created("gemini", found, batch["displayName"])
            case "POST", [*_, last] if last == "cancel" or last.endswith(":cancel"):
                return self._cancelled(path)
            case "GET", [*_, batch_id]:
                return document(self._shown(self._looked_at(batch_id)))
            case _:
                self.ordinary.append(request := json.loads(body))
                wire = next(w for w, speech in SPEECHES.items() if path.endswith(speech.target))
                return document(SPEECHES[wire].body(Text((f"Echo: {last_text(request)}",))))

    # ------------------------------------------------------------ creation

    def _created(self, wire: str, items: list[tuple[str, Json]], key: str = "") -> Answer:
        ids = [custom_id for custom_id, _ in items]
        if not 1 <= len(ids) <= LIMITS[wire]:
            raise Refused("requests: too few or too many")
        if len(set(ids)) < len(ids):
            raise Refused("custom_id: must be unique within a batch")
        if wrong := [one for one in ids if not CUSTOM_ID.fullmatch(one)]:
            raise Refused(f"custom_id: {wrong[0]!r} does not match {CUSTOM_ID.pattern}")
        if any("stream" in body or "stream_options" in body for _, body in items):
            raise Refused("stream: not supported in a batch")
        if len({body.get("model") for _, body in items}) > 1 and wire.startswith("openai"):
            raise Refused("a batch takes requests to one model only")
        number = len(self.held) + 1
        batch_id = f"batches/b{number}" if wire == "gemini" else f"batch_{number}"
        at = datetime.now(UTC) + timedelta(milliseconds=number)
        held = Held(batch_id, wire, dict(items), key, at, self.looks, fate=self.fate)
        self.held.append(held)
        self.on_created()
        if self.loses_answer:
            self.loses_answer = False
            return Answer(steps=(Step.CUT,), status=0)
        return document(self._shown(held))

    def _uploaded(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        kind, _, boundary = headers["content-type"].partition("; boundary=")
        assert kind == "multipart/form-data"
        parts = [part.split(b"\r\n\r\n", 1) for part in body.split(f"--{boundary}".encode())[1:-1]]
        fields = {
            re.findall(rb'; name="(\w+)"', head)[0]: content.removesuffix(b"\r\n")
            for head, content in parts
        }
        if fields[b"purpose"] != b"batch":
            raise Refused("purpose: must be batch")
        file_id = f"file-{len(self.files) + 1}"
        self.files[file_id] = fields[b"file"]
        return document({"id": file_id, "object": "file"})

    def _of_file(self, body: Json) -> Answer:
        if body["completion_window"] != "24h" or body["endpoint"] not in ENDPOINTS:
            raise Refused("endpoint or completion_window: not supported")
        lines = [json.loads(line) for line in self.files[body["input_file_id"]].split(b"\n")]
        for line in lines:
            if line["method"] != "POST" or line["url"] != body["endpoint"]:
                raise Refused("the url of a line must match the endpoint of the batch")
        wire = ENDPOINTS[body["endpoint"]]
        return self._created(wire, _items(lines, "body"), body["metadata"].get("treadle", ""))

    # ------------------------------------------------------------ states

    def _held(self, batch_id: str) -> Held:
        return next(held for held in self.held if held.id.removeprefix("batches/") == batch_id)

    def _looked_at(self, batch_id: str) -> Held:
        held = self._held(batch_id)
        held.looks -= 1
        if held.looks <= 0:
            held.state = "ended"
        return held

    def _cancelled(self, path: str) -> Answer:
        batch_id = path.removesuffix("/cancel").removesuffix(":cancel").rpartition("/")[2]
        held = self._held(batch_id)
        held.state, held.fate = "ended", "cancelled"
        return document({} if held.wire == "gemini" else self._shown(held))

    def _listed(self, vendor: str, name: str, query: str) -> Answer:
        """The newest first, in pages of one, so that a client that stops early misses some."""
        for held in self.held:
            self._looked_at(held.id.removeprefix("batches/"))
        found = [held for held in reversed(self.held) if held.wire.startswith(vendor)]
        after = re.findall(r"(?:after|after_id|pageToken)=([^&]+)", query)
        ids = [held.id for held in found]
        start = ids.index(after[0].replace("%2F", "/")) + 1 if after else 0
        page, rest = found[start : start + 1], found[start + 1 :]
        shown = [self._shown(held) for held in page]
        if vendor == "gemini":
            return document({name: shown, **({"nextPageToken": page[-1].id} if rest else {})})
        last = page[-1].id if page else None
        return document({name: shown, "has_more": bool(rest), "last_id": last})

    def _shown(self, held: Held) -> Json:
        is_over, count = held.state == "ended", len(held.requests)
        match held.wire:
            case "anthropic":
                counts = {"processing": 0 if is_over else count, "succeeded": count * is_over}
                return {
                    "id": held.id,
                    "type": "message_batch",
                    "processing_status": held.state,
                    "request_counts": counts,
                    "created_at": held.at.isoformat(),
                    "results_url": f"{self.url}/elsewhere" if is_over else None,
                }
            case "gemini":
                words = {"": "SUCCEEDED", "expired": "EXPIRED", "cancelled": "CANCELLED"}
                state = words.get(held.fate, "SUCCEEDED") if is_over else "RUNNING"
                metadata = {
                    "displayName": held.key,
                    "createTime": held.at.isoformat().replace("+00:00", "Z"),
                    "state": f"BATCH_STATE_{state}",
                    "batchStats": {"requestCount": str(count)},
                }
                shown: Json = {"name": held.id, "metadata": metadata}
                if is_over and state == "SUCCEEDED":
                    results = [self._google_result(held, one) for one in held.requests]
                    shown |= {"done": True, "response": {"inlinedResponses": {}}}
                    shown["response"]["inlinedResponses"]["inlinedResponses"] = results
                return shown
            case _:
                return self._shown_by_openai(held, is_over=is_over)

    def _shown_by_openai(self, held: Held, *, is_over: bool) -> Json:
        ends = {"": "completed", "lost": "completed"}
        shown: Json = {
            "id": held.id,
            "object": "batch",
            "status": ends.get(held.fate, held.fate) if is_over else "in_progress",
            "created_at": int(held.at.timestamp()),
            "metadata": {"treadle": held.key} if held.key else None,
            "request_counts": {"total": len(held.requests), "completed": 0, "failed": 0},
        }
        if is_over and held.fate == "":
            lines = [self._openai_result(held, one) for one in held.requests]
            good = [line for line in lines if line["response"]["status_code"] == 200]
            bad = [line for line in lines if line not in good]
            for name, part in (("output_file_id", good), ("error_file_id", bad)):
                if part:
                    self.files[f"{name}-{held.id}"] = _jsonl(part)
                    shown[name] = f"{name}-{held.id}"
        return shown

    # ------------------------------------------------------------ results

    def _said(self, held: Held, custom_id: str) -> tuple[int, Json]:
        """Status and body with which the vendor would have answered the request alone."""
        body, wire = held.requests[custom_id], held.wire
        asked = Asked(MODELS[wire], body, self.issued, {}, "")
        if broken := RULES[wire].broken(asked):
            return 400, SPEECHES[wire].error(400, broken[0][1])
        said = self.reply(last_text(body))
        if isinstance(said, str) and said.startswith("HTTP "):
            status = int(said.split()[1])
            return status, SPEECHES[wire].error(status, said)
        part = Text((said,)) if isinstance(said, str) else said
        end = StopReason.TOOL_USE if isinstance(part, Call) else StopReason.COMPLETE
        answer = SPEECHES[wire].body(part, end=end)
        if wire != "gemini" or not isinstance(part, Call):
            return 200, answer
        signature = f"c2lnbmVk{len(self.issued):04}"
        args = json.loads("".join(part.pieces))
        self.issued[signature] = signed_for({"functionCall": {"name": part.name, "args": args}})
        signed = json.dumps(answer).replace(PLACEHOLDERS[wire], json.dumps(signature))
        return 200, json.loads(signed)

    def _claude_results(self, held: Held) -> list[Json]:
        lines = list[Json]()
        for custom_id in reversed(held.requests):  # in any order
            if held.fate == "lost":
                break
            result: Json = {"type": "canceled" if held.fate == "cancelled" else held.fate}
            if not held.fate:
                status, body = self._said(held, custom_id)
                good = {"type": "succeeded", "message": body}
                result = good if status == 200 else {"type": "errored", "error": body}
            lines.append({"custom_id": custom_id, "result": result})
        return lines

    def _openai_result(self, held: Held, custom_id: str) -> Json:
        status, body = self._said(held, custom_id)
        response = {"status_code": status, "request_id": "req_1", "body": body}
        return {"id": "r", "custom_id": custom_id, "response": response, "error": None}

    def _google_result(self, held: Held, custom_id: str) -> Json:
        if held.fate == "lost":
            return {"metadata": {"key": "of-another"}, "response": {}}
        status, body = self._said(held, custom_id)
        metadata = {"metadata": {"key": custom_id}}
        if status == 200:
            return {**metadata, "response": body}
        code = {400: 3, 429: 8}.get(status, 13)
        return {**metadata, "error": {**body["error"], "code": code}}


class _Each:
    def __init__(self, server: BatchServer) -> None:
        self._server = server

    def pop(self, _: int) -> Answer:
        return self._server.answer()


def last_text(body: Json) -> str:
    """The last text of a request, in any wire; of a result, its text."""
    texts = re.findall(r'"(?:text|content|output|result)": ?"((?:[^"\\]|\\.)*)"', json.dumps(body))
    return json.loads(f'"{texts[-1]}"')


def _items(lines: list[Json], name: str) -> list[tuple[str, Json]]:
    return [(line["custom_id"], line[name]) for line in lines]


def _jsonl(lines: list[Json]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _lines(lines: list[Json]) -> Answer:
    return Answer(steps=_cut(_jsonl(lines)), type="application/x-jsonl")


def _cut(body: bytes) -> tuple[bytes, ...]:
    """In pieces that end within lines."""
    return tuple(body[at : at + 700] for at in range(0, len(body), 700))


@asynccontextmanager
async def batch_server(**fields: Any) -> AsyncGenerator[BatchServer]:
    server = BatchServer(**fields)
    async with listening(server.handle) as port:
        server.port = port
        yield server
