"""The data file of models: its form, what it says where, and that it says nothing else."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from datetime import date
from pathlib import Path

import msgspec
import pytest

from treadle.config import Config
from treadle.config.model_profile import EFFORTS, UNKNOWN, Abilities
from treadle.models.providers import known_models as module
from treadle.models.providers.known_models import known, known_ids, known_models

FILE = Path(module.__file__).with_suffix(".json")
MODELS = [
    (vendor, model_id)
    for vendor, models in known_models().vendors.items()
    for model_id in models.models
]


def test_the_file_has_a_date_and_only_fields_that_an_ability_has() -> None:
    document = json.loads(FILE.read_text(encoding="utf-8"))
    assert date.fromisoformat(document["as_of"]) >= date(2026, 11, 20)
    for vendor in document["vendors"].values():
        assert len(vendor["models"]) == len({name.lower() for name in vendor["models"]})
        for abilities in vendor["models"].values():
            assert set(abilities) <= set(Abilities.__struct_fields__)
            assert None not in abilities.values(), "what nobody knows is left out"


@pytest.mark.parametrize(
    ("vendor", "model_id"), MODELS, ids=[f"{vendor} {model_id}" for vendor, model_id in MODELS]
)
def test_what_it_says_of_a_model_makes_sense(vendor: str, model_id: str) -> None:
    said = known_models().vendors[vendor].models[model_id]
    assert model_id == model_id.lower()
    assert re.fullmatch(r"[a-z0-9.-]+\*?", model_id)
    assert said != UNKNOWN
    assert said.context_tokens is None or 4096 <= said.context_tokens <= 10_000_000
    assert (
        said.output_tokens is None
        or said.context_tokens is None
        or said.output_tokens <= said.context_tokens
    )
    assert said.efforts is None or list(said.efforts) == [
        effort for effort in EFFORTS if effort in said.efforts
    ]
    assert not (said.reasoning is False and said.efforts), "effort is how much a model thinks"
    if model_id.endswith("*"):
        assert (said.context_tokens, said.output_tokens) == (None, None), (
            "how much each of a family takes is not known from its name"
        )


def test_the_default_models_are_in_it() -> None:
    for name in (Config().models.large, Config().models.small):
        provider, _, model_id = name.partition(":")
        assert known(provider, None, model_id).context_tokens


def test_an_id_stands_for_its_versions_and_for_nothing_else() -> None:
    haiku = known("anthropic", None, "claude-haiku-4-5")
    assert haiku.efforts == ()
    assert known("anthropic", None, "claude-haiku-4-5-20251001") == haiku
    assert known("anthropic", None, "claude-haiku-4-5-latest") == haiku
    assert known("gemini", None, "gemini-2.5-flash-001") == known(
        "gemini", None, "gemini-2.5-flash"
    )
    assert known("openai", None, "gpt-4o-2024-08-06") == known("openai", None, "gpt-4o")
    assert known("openai", None, "gpt-4o-2024-05-13") != known("openai", None, "gpt-4o"), (
        "a version of its own goes before"
    )
    for unknown in (
        "claude-haiku-4-5-fast",
        "claude-haiku-9",
        "claude",
        "",
        "20251001",
        "-20251001",
    ):
        assert known("anthropic", None, unknown) == UNKNOWN


def test_the_longest_beginning_counts() -> None:
    assert (
        known("openai-chat", "https://api.moonshot.ai/v1", "kimi-k2-thinking-turbo").reasoning
        is True
    )
    assert (
        known("openai-chat", "https://api.moonshot.ai/v1", "kimi-k2-0905-preview").reasoning
        is False
    )


def test_how_much_a_model_takes_is_known_where_its_vendor_answers() -> None:
    at_home = known("openai-chat", "https://api.deepseek.com/v1", "deepseek-v4-pro")
    assert (at_home.context_tokens, at_home.efforts) == (1_000_000, ("low", "high", "max"))
    elsewhere = known("openai-chat", "http://127.0.0.1:8000/v1", "deepseek-ai/DeepSeek-V4-Pro")
    assert elsewhere == Abilities(images=False, tools=True, forced_tools=False, reasoning=True)


@pytest.mark.parametrize(
    "name", ["gpt-oss:20b", "openai/gpt-oss-120b", "unsloth/gpt-oss-20b-GGUF", "GPT-OSS-20B"]
)
def test_what_lies_in_the_weights_is_known_under_any_name(name: str) -> None:
    assert known("openai-chat", "http://127.0.0.1:11434/v1", name) == Abilities(
        images=False, tools=True, forced_tools=False, reasoning=True
    )


def test_a_router_names_claude_with_dots() -> None:
    assert known(
        "openai-chat", "https://openrouter.ai/api/v1", "anthropic/claude-opus-4.6"
    ) == Abilities(images=True, tools=True, reasoning=True)


def test_a_gateway_that_speaks_the_vendors_wire_has_the_vendors_models() -> None:
    gateway = "https://gateway.example.com"
    assert known("anthropic", gateway, "claude-opus-5-5") == known(
        "anthropic", None, "claude-opus-5-5"
    )
    assert known("anthropic", gateway, "qwen3-32b") == Abilities(
        images=False, tools=True, reasoning=True
    )
    assert known("openai-chat", gateway, "gpt-6-sol").context_tokens is None


def test_openai_takes_the_highest_effort_over_one_of_its_wires_alone() -> None:
    assert "max" in (known("openai", None, "gpt-6-sol").efforts or ())
    assert (known("openai-chat", None, "gpt-6-sol").efforts or ())[-1] == "xhigh"
    assert known("openai-chat", None, "gpt-4.1").efforts == ()


def test_which_models_a_vendor_has_is_known_only_of_the_vendor() -> None:
    assert "claude-opus-5-5" in known_ids("anthropic", None)
    assert not [model_id for model_id in known_ids("gemini", None) if model_id.endswith("*")]
    assert known_ids("openai-chat", "http://127.0.0.1:8080/v1") == []
    assert "kimi-k3" in known_ids("openai-chat", "https://api.moonshot.ai/v1")


def test_every_type_of_provider_has_a_vendor_in_it() -> None:
    for endpoint_type in ("anthropic", "openai", "openai-chat", "gemini"):
        assert known_ids(endpoint_type, None)


def test_a_play_reads_none_of_it() -> None:
    import subprocess

    play = (
        "import sys, treadle\nfrom treadle.testing import ScriptedModel\n"
        "treadle.run_sync(treadle.Agent(name='a', model=ScriptedModel([{'text': 'x'}])), 'hi')\n"
        "sys.exit('treadle.models.providers.known_models' in sys.modules or 'treadle.models.providers.told_models' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", play], check=False).returncode == 0


def test_a_field_that_is_misspelt_in_the_file_would_be_noticed() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(
            b'{"as_of":"2026-01-01","vendors":{"x":{"hosts":[],"models":{},"sizes":1}}}',
            type=module.KnownModels,
        )


def test_the_documentation_has_a_section_for_every_known_model_of_the_vendors() -> None:
    text = (Path(__file__).parents[3] / "docs" / "models.md").read_text()
    families = text.partition("## Families of models")[2].partition("\n## ")[0]
    named = Counter(re.findall(r"`((?:claude|gpt|o\d|gemini|gemma)[\w.-]*)`", families))
    vendors = known_models().vendors
    known = {
        model_id
        for vendor in ("anthropic", "openai", "google")
        for model_id in vendors[vendor].models
        if not model_id.endswith("*")
    }
    assert set(named) == known
    assert max(named.values()) == 1
