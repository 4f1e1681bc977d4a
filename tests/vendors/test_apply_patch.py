"""Patches over the wires: the built-in tool of the Responses API where OpenAI answers, a function
with one text everywhere else.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import agent, open_runtime
from tests.models.providers.loopback import Answer, stream
from tests.vendors.server import Vendor, call
from treadle.config.model_profile import Abilities
from treadle.models.model import ModelRequest
from treadle.models.providers.known_models import known
from treadle.models.providers.openai_responses.request import RequestEncoder
from treadle.tools.builtin.coding import default_tools
from treadle.types import Outcome, Settings

PATCH = (
    "*** Begin Patch\n*** Update File: a.py\n@@\n-one\n+1\n*** Add File: b.py\n+x\n*** End Patch"
)


@pytest.fixture
async def vendor() -> AsyncGenerator[Vendor]:
    made = Vendor()
    async with made.listening():
        yield made


def patches(*operations: dict[str, Any]) -> Answer:
    """An answer of the Responses API with a call of its tool for each operation."""
    call: dict[str, Any] = {"type": "apply_patch_call", "status": "completed"}
    items = [
        {**call, "id": f"apc_{n}", "call_id": f"call_{n}", "operation": operation}
        for n, operation in enumerate(operations)
    ]
    response = {"id": "resp_1", "model": "gpt-6-astra"}
    events: list[dict[str, Any]] = [
        {
            "type": "response.created",
            "response": {**response, "status": "in_progress", "output": []},
        }
    ]
    for n, item in enumerate(items):
        begun = {**item, "status": "in_progress", "operation": {**item["operation"], "diff": ""}}
        events += [
            {"type": "response.output_item.added", "output_index": n, "item": begun},
            {
                "type": "response.apply_patch_call_operation_diff.delta",
                "output_index": n,
                "item_id": item["id"],
                "delta": "@@",
            },
            {"type": "response.output_item.done", "output_index": n, "item": item},
        ]
    usage = {"input_tokens": 1, "output_tokens": 1}
    events.append(
        {
            "type": "response.completed",
            "response": {**response, "status": "completed", "output": items, "usage": usage},
        }
    )
    return stream(*events)


async def test_calls_of_the_built_in_tool_run_ours_and_their_outputs_say_how_they_ended(
    vendor: Vendor, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\n")
    vendor.script = [
        call("read", path="a.py"),
        patches(
            {"type": "update_file", "path": "a.py", "diff": "@@\n-one\n+1\n two"},
            {"type": "create_file", "path": "b.py", "diff": "+x"},
            {"type": "update_file", "path": "a.py", "diff": "@@\n-three\n+3"},
        ),
        "Done.",
    ]
    async with open_runtime() as runtime:
        result = await runtime.run(
            agent(vendor.model("openai", "gpt-6-astra"), *default_tools()),
            "Go.",
            mode="full",
            cwd=tmp_path,
        )
    assert (result.outcome, vendor.refused) == (Outcome.COMPLETED, [])
    assert (tmp_path / "a.py").read_text() == "1\ntwo\n"
    assert (tmp_path / "b.py").read_text() == "x\n"
    first, last = vendor.bodies[0], vendor.bodies[-1]
    assert [tool.get("name", tool["type"]) for tool in first["tools"]][:4] == [
        "read",
        "write",
        "edit",
        "apply_patch",
    ]
    assert first["tools"][3] == {"type": "apply_patch"}
    calls = [item for item in last["input"] if item.get("type") == "apply_patch_call"]
    assert calls[0] == {
        "type": "apply_patch_call",
        "call_id": "call_0",
        "status": "completed",
        "operation": {"type": "update_file", "path": "a.py", "diff": "@@\n-one\n+1\n two"},
    }
    outputs = [item for item in last["input"] if item.get("type") == "apply_patch_call_output"]
    assert [item["status"] for item in outputs] == ["completed", "completed", "failed"]
    assert outputs[0]["output"].startswith("Updated a.py.\n@@")
    assert "its lines were not found" in outputs[2]["output"]


@pytest.mark.parametrize("wire", ["openai", "openai-chat"])
async def test_elsewhere_the_tool_is_a_function_with_a_whole_patch(
    vendor: Vendor, tmp_path: Path, wire: str
) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\n")
    vendor.script = [call("read", path="a.py"), call("apply_patch", input=PATCH), "Done."]
    model = vendor.model(wire, "gpt-5.4", Abilities(apply_patch=True, tools=True))
    if wire == "openai":
        model._encoder = RequestEncoder("gpt-5.4", Abilities(apply_patch=True))  # type: ignore[attr-defined]  as where a gateway answers
    async with open_runtime() as runtime:
        result = await runtime.run(agent(model, *default_tools()), "Go.", mode="full", cwd=tmp_path)
    assert (result.outcome, vendor.refused) == (Outcome.COMPLETED, [])
    assert (tmp_path / "a.py").read_text() == "1\ntwo\n"
    declared = vendor.bodies[0]["tools"][3]
    declared = declared.get("function", declared)
    assert declared["name"] == "apply_patch"
    assert [*declared["parameters"]["properties"]] == ["input"]


@pytest.mark.parametrize(
    ("wire", "model_id"),
    [
        ("anthropic", "claude-opus-5-5"),
        ("gemini", "gemini-3.8-flash"),
        ("openai", "gpt-4.1"),
        ("openai", "gpt-5"),
    ],
)
async def test_models_that_are_not_trained_on_patches_are_not_offered_any(
    vendor: Vendor, tmp_path: Path, wire: str, model_id: str
) -> None:
    vendor.script = ["Done."]
    async with open_runtime() as runtime:
        await runtime.run(
            agent(vendor.model(wire, model_id), *default_tools()), "Go.", cwd=tmp_path
        )
    assert "apply_patch" not in json.dumps(vendor.bodies[0]["tools"])


def test_every_gpt_from_5_1_on_is_known_to_be_trained_on_patches() -> None:
    assert known("openai", None, "gpt-5.1").apply_patch is True
    assert known("openai", None, "gpt-6.1-sol").apply_patch is True
    assert (
        known("openai-chat", "https://openrouter.ai/api/v1", "openai/gpt-5.4").apply_patch is True
    )
    assert known("anthropic", None, "claude-opus-5-5").apply_patch is None


def test_a_choice_of_the_tool_names_the_built_in_one() -> None:
    tools = tuple(tool.definition for tool in default_tools() if tool.name == "apply_patch")
    from treadle.messages.message import Message

    request = ModelRequest(
        messages=[Message.user("Go.")],
        tools=tools,
        settings=Settings(max_tokens=99, tool_choice="apply_patch"),
    )
    encoder = RequestEncoder("gpt-5.4", known("openai", None, "gpt-5.4"), cache_keys=True)
    body = json.loads(encoder.encode(request))
    assert (body["tools"], body["tool_choice"]) == (
        [{"type": "apply_patch"}],
        {"type": "apply_patch"},
    )
