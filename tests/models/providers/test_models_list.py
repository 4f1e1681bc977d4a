"""What providers tell of their models, over each wire, in whatever form; and what is remembered of
it.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.providers.loopback import Answer, Server, Step, document, serving
from treadle._internal.redaction import Secret
from treadle.config.endpoint import Endpoint
from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.errors import AgentError, ErrorKind
from treadle.models.providers import anthropic, gemini
from treadle.models.providers.compatible_list import compatible
from treadle.models.providers.connection import Connection
from treadle.models.providers.http import HttpConnection
from treadle.models.providers.listing import Listed, entries
from treadle.models.providers.told_models import AGE_MAX, FILE, remember, told
from treadle.models.providers.wires import models_at

KEY = "key-of-the-test"
NOW = datetime(2026, 11, 20, tzinfo=UTC)
YES, NO = {"supported": True}, {"supported": False}


def endpoint(kind: str, url: str | None, name: str = "there") -> Endpoint:
    return Endpoint(
        name=name,
        type=kind,
        base_url=url,
        api_key=Secret(KEY),
        auth_token=None,
        key_origin="ANTHROPIC_API_KEY",
        preamble="",
        timeout_s=10,
        headers={},
    )


async def told_by(kind: str, *answers: Answer, path: str = "") -> tuple[list[Listed], Server]:
    async with serving(*answers) as server:
        with anyio.fail_after(20):
            return await models_at(endpoint(kind, server.url + path)), server


async def refused_by(kind: str, answer: Answer) -> AgentError:
    async with serving(answer) as server:
        with anyio.fail_after(20), pytest.raises(AgentError) as refused:
            await models_at(endpoint(kind, server.url))
    return refused.value


def openai_list(*models: Mapping[str, Any]) -> Answer:
    return document({"object": "list", "data": [{"object": "model", **model} for model in models]})


# ---------------------------------------------------------------- Anthropic

OPUS = {
    "id": "claude-opus-5-5",
    "type": "model",
    "lifecycle": "active",
    "max_input_tokens": 1_000_000,
    "max_tokens": 128_000,
    "capabilities": {
        "image_input": YES,
        "pdf_input": NO,
        "context_management": {**YES, "compact_20260112": YES, "clear_tool_uses_20250919": NO},
        "structured_outputs": YES,
        "thinking": {**YES, "types": {"adaptive": YES, "enabled": NO}},
        "effort": {**YES, "low": YES, "medium": YES, "high": YES, "xhigh": None, "max": YES},
    },
}
OF_OPUS = Abilities(
    context_tokens=1_000_000,
    output_tokens=128_000,
    images=True,
    documents=False,
    reasoning=True,
    efforts=("low", "medium", "high", "max"),
    compaction=True,
    structured_output="native",
)
HAIKU = {
    "id": "claude-haiku-4-5",
    "type": "model",
    "capabilities": {"effort": {**NO, "low": NO}, "structured_outputs": NO, "image_input": NO},
}


@pytest.fixture(params=["own", "sdk"])
async def connected(
    request: pytest.FixtureRequest,
) -> AsyncIterator[Callable[[Server], Connection]]:
    """Both kinds of connection that the wire has."""
    opened = list[Any]()

    def connect(server: Server) -> Connection:
        if request.param == "own":
            opened.append(anthropic.connect(api_key=KEY, base_url=server.url))
            return opened[-1]
        sdk = pytest.importorskip("anthropic")
        from treadle.models.providers.anthropic.sdk import SdkConnection

        opened.append(sdk.AsyncAnthropic(api_key=KEY, base_url=server.url))
        return SdkConnection(opened[-1], 10)

    yield connect
    for each in opened:
        await (each.aclose() if isinstance(each, HttpConnection) else each.close())


async def test_a_list_is_read_to_its_last_page(connected: Callable[[Server], Connection]):
    first = document(
        {
            "data": [OPUS],
            "has_more": True,
            "first_id": "claude-opus-5-5",
            "last_id": "claude-opus-5-5",
        }
    )
    second = document(
        {
            "data": [HAIKU, {**OPUS, "id": "claude-2", "lifecycle": "retired"}, OPUS],
            "has_more": False,
            "last_id": "claude-2",
        }
    )
    async with serving(first, second) as server:
        connection = connected(server)  # which may import the SDK
        with anyio.fail_after(20):
            models = await anthropic.list_models(connection, endpoint("anthropic", server.url))
    assert models == [
        Listed(id="claude-opus-5-5", abilities=OF_OPUS),
        Listed(
            id="claude-haiku-4-5",
            abilities=Abilities(images=False, efforts=(), structured_output="tool"),
        ),
    ]
    assert [(seen.method, seen.target) for seen in server.seen] == [
        ("GET", "/v1/models?limit=1000"),
        ("GET", "/v1/models?limit=1000&after_id=claude-opus-5-5"),
    ]
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.seen[0].body == b""


async def test_pages_that_never_end_are_read_up_to_a_bound():
    page = document({"data": [OPUS], "has_more": True, "last_id": "claude-opus-5-5"})
    models, server = await told_by("anthropic", *[page] * 30)
    assert (len(models), len(server.seen)) == (1, 20)


async def test_a_key_that_is_refused_is_named(connected: Callable[[Server], Connection]):
    async with serving(
        document(
            {"type": "error", "error": {"type": "authentication_error", "message": "invalid"}},
            status=401,
        )
    ) as server:
        connection = connected(server)
        with (
            anyio.fail_after(20),
            pytest.raises(AgentError, match="the key of ANTHROPIC_API_KEY") as refused,
        ):
            await anthropic.list_models(connection, endpoint("anthropic", server.url))
    assert refused.value.kind is ErrorKind.AUTH


async def test_a_server_of_claudes_wire_may_have_openais_list():
    props = document(
        {
            "default_generation_settings": {"n_ctx": 8192},
            "modalities": {"vision": False},
            "chat_template_caps": {"supports_tools": True},
        }
    )
    models, server = await told_by(
        "anthropic",
        openai_list({"id": "tiny", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131072}}),
        props,
    )
    assert models == [
        Listed(id="tiny", abilities=Abilities(context_tokens=8192, images=False, tools=True))
    ]
    assert [seen.target for seen in server.seen] == ["/v1/models?limit=1000", "/props"]


# ---------------------------------------------------------------- Google


async def test_googles_list_is_read_to_its_last_page_without_what_makes_no_text():
    flash = {
        "name": "models/gemini-3.5-flash",
        "inputTokenLimit": 1048576,
        "outputTokenLimit": 65536,
        "thinking": True,
        "supportedGenerationMethods": ["generateContent"],
    }
    embedding = {
        "name": "models/gemini-embedding-001",
        "supportedGenerationMethods": ["embedContent"],
    }
    first, second = (
        document({"models": [flash, embedding], "nextPageToken": "a/b=="}),
        document({"models": [{"name": "models/gemma"}]}),
    )
    models, server = await told_by("gemini", first, second)
    assert models == [
        Listed(
            id="gemini-3.5-flash",
            abilities=Abilities(context_tokens=1048576, output_tokens=65536, reasoning=True),
        ),
        Listed(id="gemma"),
    ]
    assert [seen.target for seen in server.seen] == [
        "/v1beta/models?pageSize=1000",
        "/v1beta/models?pageSize=1000&pageToken=a%2Fb%3D%3D",
    ]
    assert server.seen[0].headers["x-goog-api-key"] == KEY
    assert gemini.list_models is not None


# ---------------------------------------------------------------- compatible servers


@pytest.mark.parametrize("kind", ["openai", "openai-chat"])
async def test_openai_tells_ids_and_nothing_else(kind: str):
    models, server = await told_by(
        kind, openai_list({"id": "gpt-6-sol", "owned_by": "openai", "created": 1}), path="/v1"
    )
    assert models == [Listed(id="gpt-6-sol")]
    assert (
        server.seen[0].method,
        server.seen[0].target,
        server.seen[0].headers["authorization"],
    ) == ("GET", "/v1/models", f"Bearer {KEY}")


async def test_a_llama_cpp_server_is_asked_how_much_it_was_started_with():
    models, server = await told_by(
        "openai-chat",
        openai_list({"id": "tiny.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131072}}),
        document({"default_generation_settings": {"n_ctx": 4096}, "modalities": {"vision": True}}),
        path="/v1",
    )
    assert models == [Listed(id="tiny.gguf", abilities=Abilities(context_tokens=4096, images=True))]
    assert [seen.target for seen in server.seen] == ["/v1/models", "/props"]


async def test_lm_studio_is_asked_for_its_own_list():
    own = document(
        {
            "data": [
                {
                    "id": "a",
                    "type": "vlm",
                    "state": "loaded",
                    "max_context_length": 131072,
                    "loaded_context_length": 4096,
                    "capabilities": ["tool_use"],
                },
                {"id": "b", "type": "llm", "state": "not-loaded", "max_context_length": 131072},
                {"id": "c", "type": "embeddings", "state": "not-loaded"},
            ]
        }
    )
    models, server = await told_by(
        "openai-chat",
        openai_list(*({"id": x, "owned_by": "organization_owner"} for x in "abc")),
        own,
        path="/v1",
    )
    assert models == [
        Listed(id="a", abilities=Abilities(context_tokens=4096, images=True, tools=True)),
        Listed(id="b", abilities=Abilities(images=False)),
    ]
    assert [seen.target for seen in server.seen] == ["/v1/models", "/api/v0/models"]


async def test_a_list_stands_where_what_is_beside_it_cannot_be_had():
    models, _ = await told_by(
        "openai-chat",
        openai_list({"id": "tiny", "owned_by": "llamacpp"}),
        Answer(status=404, steps=(b"no",), type="text/plain"),
        path="/v1",
    )
    assert models == [Listed(id="tiny")]


@pytest.mark.parametrize(
    ("entry", "listed"),
    [
        (
            {"max_model_len": 32768, "owned_by": "vllm"},
            Listed(id="m", abilities=Abilities(context_tokens=32768)),
        ),
        (
            {"context_window": 131072, "max_completion_tokens": 8192},
            Listed(id="m", abilities=Abilities(context_tokens=131072, output_tokens=8192)),
        ),
        (
            {
                "max_context_length": 262144,
                "capabilities": {
                    "completion_chat": True,
                    "function_calling": True,
                    "vision": False,
                },
            },
            Listed(id="m", abilities=Abilities(context_tokens=262144, images=False, tools=True)),
        ),
        ({"capabilities": {"completion_chat": False}}, None),
        (
            {"context_length": 4096, "type": "chat", "pricing": {"input": 0.2, "output": 0.6}},
            Listed(id="m", abilities=Abilities(context_tokens=4096), input_usd=0.2, output_usd=0.6),
        ),
        ({"type": "embedding"}, None),
        (
            {"supports_chat": True, "supports_tools": False, "supports_image_input": True},
            Listed(id="m", abilities=Abilities(images=True, tools=False)),
        ),
        (
            {"supports_image_in": True, "supports_reasoning": True},
            Listed(id="m", abilities=Abilities(images=True, reasoning=True)),
        ),
        (
            {
                "context_length": 200000,
                "architecture": {
                    "input_modalities": ["text", "image", "file"],
                    "output_modalities": ["text"],
                },
                "top_provider": {"context_length": 131072, "max_completion_tokens": 8192},
                "supported_parameters": ["tools", "temperature", "structured_outputs", "reasoning"],
                "pricing": {"prompt": "0.0000002", "completion": "0.0000006"},
            },
            Listed(
                id="m",
                abilities=Abilities(
                    context_tokens=131072,
                    output_tokens=8192,
                    images=True,
                    documents=True,
                    tools=True,
                    temperature=True,
                    reasoning=True,
                    structured_output="native",
                ),
                input_usd=0.2,
                output_usd=0.6,
            ),
        ),
        (
            {
                "architecture": {"input_modalities": ["text"]},
                "supported_parameters": [],
                "pricing": {"prompt": "-1", "completion": "-1"},
            },
            Listed(
                id="m",
                abilities=Abilities(
                    images=False,
                    documents=False,
                    tools=False,
                    temperature=False,
                    reasoning=False,
                    structured_output="prompt",
                ),
            ),
        ),
        ({"architecture": {"output_modalities": ["image"]}}, None),
        (
            {
                "context_length": "131072",
                "top_provider": None,
                "pricing": [],
                "meta": "x",
                "capabilities": 3,
            },
            Listed(id="m", abilities=Abilities(context_tokens=131072)),
        ),
        (
            {
                "context_length": -5,
                "max_model_len": True,
                "context_window": 1e400,
                "max_context_length": {},
            },
            Listed(id="m"),
        ),
    ],
)
def test_what_a_server_adds_is_read(entry: dict[str, Any], listed: Listed | None):
    assert compatible("m", entry) == listed


async def test_a_list_without_an_envelope_is_one():
    models, _ = await told_by(
        "openai-chat",
        document(
            [
                {"id": "a"},
                {"id": "a"},
                {"id": ""},
                {"id": 7},
                "b",
                {"id": "x\x1b[2J"},
                {"id": "y" * 300},
            ]
        ),
    )
    assert models == [Listed(id="a")]


@pytest.mark.parametrize(
    "answer",
    [
        document({"error": "no such page"}),
        document("models"),
        document({"data": {"id": "a"}}),
        Answer(steps=(b"{",), type="application/json", chunked=False),
        Answer(steps=(b"\xff\xfe",), type="application/json", chunked=False),
        Answer(steps=(b"[" * 100_000,), type="application/json", chunked=False),
    ],
)
async def test_an_answer_that_is_no_list_is_an_error(answer: Answer):
    assert (await refused_by("openai-chat", answer)).kind is ErrorKind.NETWORK


async def test_a_page_of_a_proxy_is_told_as_one():
    page = Answer(steps=(b"<html><title>Sign in</title>",), type="text/html", chunked=False)
    assert "check base_url" in (await refused_by("openai-chat", page)).message


async def test_a_list_that_is_too_large_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("treadle.models.providers.listing.PAGE_BYTES_MAX", 1000)
    refused = await refused_by(
        "openai-chat", openai_list(*({"id": f"model-{n}"} for n in range(100)))
    )
    assert "larger than 1000 bytes" in refused.message


async def test_asking_can_be_given_up_at_any_time():
    async with serving(Answer(steps=(b"[", Step.HANG))) as server:
        with anyio.fail_after(20), anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(models_at, endpoint("openai-chat", server.url))
                await server.asked.wait()
                scope.cancel()
        with anyio.fail_after(20):
            await server.gone.wait()


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = (
    "context_length",
    "max_model_len",
    "meta",
    "pricing",
    "architecture",
    "supported_parameters",
    "capabilities",
    "top_provider",
    "type",
    "state",
    "props",
)


@given(st.dictionaries(st.sampled_from(FIELDS), ANYTHING))
def test_whatever_a_server_adds_breaks_nothing(entry: dict[str, Any]):
    found = compatible("m", entry)
    assert found is None or found.id == "m"


@given(ANYTHING)
def test_whatever_a_page_is_it_is_a_list_or_an_error(page: object):
    with suppress(AgentError):
        assert all(isinstance(entry, dict) for entry in entries(page))


# ---------------------------------------------------------------- what is remembered


def test_what_was_told_is_remembered_for_its_owner_alone(tmp_path: Path):
    there, other = (
        endpoint("anthropic", None),
        endpoint("openai-chat", "http://127.0.0.1:1/v1", "local"),
    )
    remember(tmp_path, there, {"claude-opus-5-5": OF_OPUS}, NOW)
    remember(tmp_path, other, {"tiny": Abilities(context_tokens=8192)}, NOW)
    assert told(tmp_path, there, NOW) == {"claude-opus-5-5": OF_OPUS}
    assert told(tmp_path, other, NOW + timedelta(days=29)) == {
        "tiny": Abilities(context_tokens=8192)
    }
    file = tmp_path / FILE
    assert os.name != "posix" or file.stat().st_mode & 0o777 == 0o600
    assert KEY not in file.read_text()
    assert "127.0.0.1" not in file.read_text()
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_a_provider_that_is_asked_again_forgets_what_it_told_before(tmp_path: Path):
    there = endpoint("anthropic", None)
    remember(tmp_path, there, {"a": OF_OPUS}, NOW)
    remember(tmp_path, there, {"b": OF_OPUS}, NOW)
    assert list(told(tmp_path, there, NOW)) == ["b"]


def test_what_is_old_or_was_told_elsewhere_counts_no_more(tmp_path: Path):
    there = endpoint("anthropic", None)
    remember(tmp_path, there, {"a": OF_OPUS}, NOW)
    assert told(tmp_path, there, NOW + AGE_MAX)
    assert not told(tmp_path, there, NOW + AGE_MAX + timedelta(seconds=1))
    assert not told(tmp_path, there, NOW - timedelta(days=2)), "told in the future"
    assert not told(tmp_path, endpoint("anthropic", "http://127.0.0.1:1"), NOW)
    assert not told(tmp_path, endpoint("openai", None), NOW)
    assert not told(tmp_path, endpoint("anthropic", None, "another"), NOW)
    remember(tmp_path, endpoint("openai", None, "next"), {}, NOW + timedelta(days=40))
    assert list(json.loads((tmp_path / FILE).read_text())["providers"]) == ["next"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"providers": {}}',
        '{"schema": 2, "providers": {}}',
        '{"schema": 1, "providers": {"there": {"at": "x"}}}',
        '{"schema":1,"providers":{"there":{"at":"2026-11-20T00:00:00","address":"","models":{}}}}',
    ],
)
def test_a_broken_file_is_as_good_as_none_and_is_replaced(tmp_path: Path, text: str):
    there, file = endpoint("anthropic", None), tmp_path / FILE
    file.write_text(text)
    file.chmod(0o600)
    assert told(tmp_path, there, NOW) == {}
    remember(tmp_path, there, {"a": UNKNOWN}, NOW)
    assert told(tmp_path, there, NOW) == {"a": UNKNOWN}


@pytest.mark.skipif(os.name != "posix", reason="permission bits")
def test_a_file_that_others_may_write_is_not_believed(tmp_path: Path):
    there = endpoint("anthropic", None)
    remember(tmp_path, there, {"a": OF_OPUS}, NOW)
    (tmp_path / FILE).chmod(0o622)
    assert told(tmp_path, there, NOW) == {}


def test_where_nothing_can_be_written_the_reason_is_told(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(AgentError, match="cannot be written"):
        remember(tmp_path / "file", endpoint("anthropic", None), {}, NOW)


def test_a_list_that_would_never_be_read_again_is_not_written(tmp_path: Path):
    there, huge = (
        endpoint("anthropic", None),
        endpoint("openai-chat", "http://127.0.0.1:1/v1", "huge"),
    )
    remember(tmp_path, there, {"a": OF_OPUS}, NOW)
    remember(tmp_path, huge, {f"{n:0200}": OF_OPUS for n in range(5000)}, NOW)
    assert told(tmp_path, there, NOW) == {"a": OF_OPUS}
