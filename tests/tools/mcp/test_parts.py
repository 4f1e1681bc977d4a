"""Parts of the MCP client by themselves: names, lines, words, questions, what hints may do."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.mcp.conftest import ours
from treadle.messages.message import MediaPart, TextPart
from treadle.tools.mcp import McpServers
from treadle.tools.mcp.content import IMAGES_MOST, output_of
from treadle.tools.mcp.lines import BoundedLine, BoundedLines, answered_id
from treadle.tools.mcp.listing import tool_name
from treadle.tools.mcp.questions import answer_of, question_of
from treadle.tools.mcp.words import one_line, plain

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", fullmatch=True), st.text())
def test_every_name_is_one_that_models_take(server: str, tool: str) -> None:
    name = tool_name(server, tool)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
    assert name == f"{server}_{tool}" or re.search(r"_[0-9a-f]{8}$", name)


@given(st.lists(st.text(min_size=1), unique=True, max_size=20))
def test_two_tools_of_a_server_have_two_names(tools: list[str]) -> None:
    assert len({tool_name("s", tool) for tool in tools}) == len(tools)


@given(st.lists(st.binary(max_size=40)), st.integers(1, 30))
def test_lines_are_the_same_however_they_come(pieces: list[bytes], longest: int) -> None:
    lines = BoundedLines(longest)
    found = [line for piece in pieces for line in lines.feed(piece)]
    whole = b"".join(pieces).split(b"\n")[:-1]
    assert [line.size for line in found] == [len(line) for line in whole]
    assert [line.data for line in found if line.size <= longest] == [
        line for line in whole if len(line) <= longest
    ]


def test_of_a_line_that_is_too_long_both_ends_are_kept() -> None:
    lines = BoundedLines(2_000)
    text = b'{"id": 7, ' + b"x" * 100_000 + b'"id": 8}'
    (line,) = [
        line
        for start in range(0, len(text) + 1, 999)
        for line in lines.feed((text + b"\n")[start : start + 999])
    ]
    assert line.is_cut
    assert len(line.data) == 1024
    assert (line.data[:9], line.data[-8:], line.size) == (b'{"id": 7,', b'"id": 8}', len(text))


@pytest.mark.parametrize(
    ("text", "answered"),
    [
        (b'{"jsonrpc":"2.0","id":5,"result":{"id": 6}}', 5),
        (b'{"result":[{"id": 6}],"id": 5 ,"jsonrpc": "2.0"}\r', 5),
        (b'{"result":{"id": 6}}', None),
        (b'{"result":{"id": 6},"jsonrpc":"2.0","id":5}', 5),
        (b'{"jsonrpc":"2.0","id":"5","result":{}}', None),
        (b"no message", None),
    ],
)
def test_whom_an_unreadable_line_answers_is_guessed_from_the_outside(
    text: bytes, answered: int | None
) -> None:
    assert answered_id(BoundedLine(text, len(text))) == answered


@given(st.text())
def test_words_of_servers_move_no_cursor_and_hide_nothing(text: str) -> None:
    assert all(c.isprintable() or c in "\n\t\u200c\u200d…" or c.isspace() for c in plain(text, 100))
    assert len(plain(text, 100)) <= 101
    assert "\n" not in one_line(text, 100)


@pytest.mark.parametrize(
    ("url", "is_shown"),
    [
        ("https://example.com/login?state=1", True),
        ("file:///etc/passwd", False),
        ("javascript:alert(1)", False),
        ("https://example.com/$(touch x)", False),
        ("https://example.com/a b", False),
        ("https://example.com/`id`", False),
        ("https://bank.example@evil.example/", False),
        ("https://example.com/" + "a" * 2_000, False),
        ("http://[", False),
        ("https://", False),
    ],
)
def test_only_pages_are_shown_to_a_person(url: str, is_shown: bool) -> None:
    asked = question_of(
        "s", mcp_types.ElicitRequestURLParams(message="open", url=url, elicitation_id="1")
    )
    assert (asked is not None and asked.url == url) is is_shown


def test_an_answer_is_accepted_only_in_the_protocols_form() -> None:
    assert answer_of({"name": "Ada", "age": 36}).content == {"name": "Ada", "age": 36}
    assert answer_of({}).action == "accept"
    assert answer_of(None).action == "decline"
    assert answer_of({"deep": {"er": 1}}).action == "decline"


def test_structured_answers_without_words_are_shown_as_json() -> None:
    assert (
        output_of(mcp_types.CallToolResult(content=[], structured_content={"a": [1, 2]}))
        == '{"a":[1,2]}'
    )
    both = mcp_types.CallToolResult(
        content=[mcp_types.TextContent(type="text", text="one")], structured_content={"a": 1}
    )
    assert output_of(both) == "one"
    assert output_of(mcp_types.CallToolResult(content=[])) == "(no output)"


def test_sounds_and_files_are_described_and_images_are_bounded() -> None:
    image = mcp_types.ImageContent(type="image", data=DOT, mime_type="image/png")
    shown = output_of(mcp_types.CallToolResult(content=[image] * 25))
    assert not isinstance(shown, str)
    assert sum(isinstance(part, MediaPart) for part in shown) == IMAGES_MOST
    blob = mcp_types.BlobResourceContents(
        uri="file:///a.bin", mime_type="application/zip", blob="UEsDBA=="
    )
    rest = [
        mcp_types.AudioContent(type="audio", data="AAAA", mime_type="audio/wav"),
        mcp_types.EmbeddedResource(type="resource", resource=blob),
    ]
    assert str(output_of(mcp_types.CallToolResult(content=[*rest]))).splitlines() == [
        "[a sound, audio/wav, 3 bytes: not shown, because models take none of the kind, or none so large]",
        "[the resource file:///a.bin, application/zip, 6 bytes: not shown, because models take none of the kind, or none so large]",
    ]
    blob = blob.model_copy(update={"blob": DOT})
    assert isinstance(
        output_of(
            mcp_types.CallToolResult(
                content=[mcp_types.EmbeddedResource(type="resource", resource=blob)]
            )
        )[0],
        MediaPart,
    )
    broken = output_of(
        mcp_types.CallToolResult(
            content=[mcp_types.ImageContent(type="image", data="???", mime_type="image/png")]
        )
    )
    assert broken == "[an image, image/png: its data is not valid base64]"


def test_pieces_without_end_are_cut() -> None:
    many = output_of(
        mcp_types.CallToolResult(content=[mcp_types.TextContent(type="text", text="x")] * 1_500)
    )
    assert str(many).endswith("[500 more pieces are not shown]")


@pytest.mark.anyio
async def test_hints_count_only_where_the_user_says_so_and_never_for_what_destroys(
    servers: McpServers,
) -> None:
    tools = await servers.tools([ours(), ours(name="trusted", trust_hints=True)], warn=print)
    effects = {tool.name: tool.effect for tool in tools}
    assert {effect for name, effect in effects.items() if name.startswith("ours")} == {"once"}
    assert (effects["trusted_add"], effects["trusted_fail"], effects["trusted_count"]) == (
        "pure",
        "once",
        "once",
    )
    assert [effect for name, effect in effects.items() if "trusted_with_dots" in name] == [
        "idempotent"
    ]
    assert tools[0].touches({}, Path("/")) is None
    assert tools[0].trace == {"mcp.server": "ours", "mcp.tool": "add"}


def test_texts_that_follow_each_other_are_one() -> None:
    texts = [mcp_types.TextContent(type="text", text=text) for text in "ab"]
    image = mcp_types.ImageContent(type="image", data=DOT, mime_type="image/png")
    assert output_of(mcp_types.CallToolResult(content=[*texts, image, *texts])) == [
        TextPart(text="a\nb"),
        MediaPart(media_type="image/png", data=DOT),
        TextPart(text="a\nb"),
    ]


def test_saying_what_a_server_is_costs_no_sdk() -> None:
    import subprocess

    code = "import sys; from treadle.tools.mcp import McpServer, McpServers, Pins; McpServer(name='a', command=['x']); print('mcp' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "False\n"
    )
