"""What the command line shows holds no known secret, whoever said it, and its JSON stays JSON."""

from __future__ import annotations

import pytest

from tests.cli.conftest import KEY, Cli
from treadle._internal.secret_patterns import MASK

SAYS_IT = {
    "reasoning": f"Is {KEY} secret?",
    "text": f"It is {KEY}, I think.",
    "tool_calls": [{"name": "ls", "arguments": {"path": f"./{KEY}"}}],
}


def test_a_key_that_the_model_says_is_in_no_line_of_stream_json_and_not_across_them(cli: Cli):
    answer = cli(
        "run",
        f"Say {KEY}",
        "--output",
        "stream-json",
        "--model",
        cli.script(SAYS_IT, {"text": KEY}),
        ANTHROPIC_API_KEY=KEY,
    )
    assert KEY not in answer.out + answer.err
    for kind, field in (
        ("text_delta", "text"),
        ("reasoning_delta", "text"),
        ("tool_call_delta", "arguments"),
    ):
        said = "".join(event[field] for event in answer.events if event["type"] == kind)
        assert MASK in said
        assert KEY not in said
        assert KEY[-8:] not in said
    texts = [
        "".join(p["text"] for p in e["message"]["parts"] if p["type"] == "text")
        for e in answer.events
        if e["type"] == "message"
    ]
    assert texts == [f"It is {MASK}, I think.", MASK]
    assert answer.events[-1]["text"] == MASK


@pytest.mark.parametrize("secret", ["text_delta", "message_id", "20260000"])
def test_a_secret_that_is_a_word_of_the_format_does_not_break_it(cli: Cli, secret: str):
    entry = {"text": f"It is {secret}.", "usage": {"input_tokens": 20260000}}
    answer = cli(
        "run", "x", "--output", "stream-json", "--model", cli.script(entry), SOME_TOKEN=secret
    )
    assert answer.code == 0
    assert answer.events[-1]["text"] == f"It is {MASK}."
    assert (
        "".join(event["text"] for event in answer.events if event["type"] == "text_delta")
        == f"It is {MASK}."
    )


def test_where_titles_and_excerpts_are_cut_no_half_of_a_key_is_shown(cli: Cli):
    key = "AbCdEfGh" + "0123456789" * 8
    assert (
        cli(
            "run",
            f"Say {key}, please.",
            "--model",
            cli.script({"text": f"word {key}"}),
            SOME_TOKEN=key,
        ).code
        == 0
    )
    for command in (
        ["runs", "list"],
        ["runs", "show", "last"],
        ["sessions", "list"],
        ["sessions", "show", "last"],
        ["sessions", "search", "word"],
    ):
        for flags in ([], ["--json"]):
            answer = cli(*command, *flags, SOME_TOKEN=key)
            assert answer.code == 0
            assert MASK in answer.out
            assert key[:8] not in answer.out, (command, flags)
