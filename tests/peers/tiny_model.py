"""A model file for llama.cpp that says what stands in SPEECHES: a table of which token follows
which, as a network without randomness.

Embeddings are one-hot and attention and feed-forward are zero, so what comes out of the network is
the last token itself, and the output matrix is the table. The chat template chooses the speech, by
ending the prompt with its name. Serving it is llama_server.py's. Entry: `write_model`.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

END = "<|im_end|>"
SPEECHES: dict[str, tuple[str, ...]] = {
    "<|hi|>": ("Hello", " from", " a tiny", " model."),
    "<|call|>": (
        "<tool_call>",
        "\n",
        '{"name"',
        ': "get_weather"',
        ', "arguments"',
        ': {"city"',
        ': "Par',
        "is",
        '", "days"',
        ": 1",
        "}}",
        "\n</tool_call>",
    ),
    "<|calls|>": (
        *(
            "<tool",
            "_call>\n",
            '{"name":',
            ' "get_weather",',
            ' "arguments":',
            ' {"city":',
            ' "Oslo"',
            "}",
            "}\n",
            "</tool_call>\n",
        ),
        *(
            "<too",
            "l_call>\n{",
            '"name":',
            ' "get_weather", "arguments":',
            ' {"city": "Rome"',
            "} }",
            "\n</tool_call> ",
        ),
    ),
    "<|answer|>": ("It is", " 18C", " in Paris", " today."),
    "<|think|>": (
        "<think>",
        "Somebody asks",
        " for a thought.",
        "</think>",
        "A thought",
        " it was.",
    ),
    "<|ponder|>": (
        *(
            "<thi",
            "nk>",
            "Bergen is",
            " what they",
            " mean.",
            "</th",
            "ink>",
            "<tool_",
            "call>\n",
            '{ "name": "get_weather",',
            ' "arguments": {',
        ),
        *('"city": ', '"Bergen"', " }}", "\n</tool_", "call>"),
    ),
    "<|judge|>": ('{"verdict":', ' "', "maybe", '"}'),
    "<|sing|>": ("la ", "la "),
    "<|stutter|>": ("<0xE2>", "<0x82>", "<0xAC>", " then ", "<0xFF>", " and on."),
}
"""Each piece is a token of its own, and none stands in two places: a token tells by itself which
one follows.
"""

TEMPLATE = """\
{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}# Tools

You may call one or more functions. Their signatures stand within <tools></tools>:
<tools>
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}</tools>

For each call, return a json object within <tool_call></tool_call>:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == 'user' %}<|im_start|>user
{{ message.content }}<|im_end|>
{% elif message.role == 'assistant' %}<|im_start|>assistant
{% if message.reasoning_content %}<think>
{{ message.reasoning_content }}
</think>

{% endif %}{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% elif message.role == 'tool' %}<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% set last = messages[-1] %}{% set words = last.content | string %}
{%- if last.role == 'tool' %}<|answer|>
{%- elif 'both cities' in words %}<|calls|>
{%- elif 'Think and look' in words %}<|ponder|>
{%- elif 'Think' in words %}<|think|>
{%- elif 'Judge' in words %}<|judge|>
{%- elif 'Sing' in words %}<|sing|>
{%- elif 'Stutter' in words %}<|stutter|>
{%- elif tools %}<|call|>
{%- else %}<|hi|>
{%- endif %}
{%- endif %}"""

CONTEXT = 65_536
"""Tokens, which are bytes where a prompt has no piece of a speech."""
NARROW = 32
"""The width of all that is zero."""


SPECIAL = ("<unk>", "<s>", "</s>", END, "<|im_start|>", *SPEECHES)
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))


def write_model(path: Path) -> None:
    """About 1 MB, always the same bytes. Needs the wheels `gguf` and `numpy`."""
    import gguf
    import numpy as np

    tokens = vocabulary()
    width = -(-len(tokens) // 32) * 32
    follows = np.zeros((len(tokens), width))
    for token, following in successors().items():
        follows[tokens.index(following), tokens.index(token)] = 10

    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(NARROW)
    writer.add_head_count(1)
    writer.add_key_length(NARROW)
    writer.add_value_length(NARROW)
    writer.add_rope_dimension_count(NARROW)
    writer.add_layer_norm_rms_eps(1e-5)
    _add_tokenizer(writer, tokens)

    def add(name: str, values: Any) -> None:
        writer.add_tensor(f"{name}.weight", values.astype(np.float32))

    add("token_embd", np.eye(len(tokens), width))
    add("output", follows)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        add(name, np.ones(width))
    for name in ("attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up"):
        add(f"blk.0.{name}", np.zeros((NARROW, width)))
    for name in ("attn_output", "ffn_down"):
        add(f"blk.0.{name}", np.zeros((width, NARROW)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def vocabulary() -> list[str]:
    pieces = dict.fromkeys(
        piece for speech in SPEECHES.values() for piece in speech if piece not in BYTES
    )
    return [*SPECIAL, *BYTES, *pieces]


def successors() -> dict[str, str]:
    """Of each piece the one that follows it.

    A speech whose last piece stands in it before never ends.
    """
    found: dict[str, str] = {}
    for name, speech in SPEECHES.items():
        end = () if speech[-1] in speech[:-1] else (END,)
        for token, following in pairwise((name, *speech, *end)):
            assert found.setdefault(token, following) == following, (
                f"{token!r} stands in two places"
            )
    return found


def _add_tokenizer(writer: Any, tokens: list[str]) -> None:
    from gguf import TokenType

    kinds = [TokenType.CONTROL] * len(SPECIAL) + [TokenType.BYTE] * len(BYTES)
    kinds[0] = TokenType.UNKNOWN
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds + [TokenType.USER_DEFINED] * (len(tokens) - len(kinds)))
    writer.add_unk_token_id(tokens.index("<unk>"))
    writer.add_bos_token_id(tokens.index("<s>"))
    writer.add_eos_token_id(tokens.index(END))
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)
