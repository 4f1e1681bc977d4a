"""`treadle mcp` before a client that is broken or hostile: each line has a clean answer or none,
and the server goes on.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import KEY, Cli
from tests.cli.test_mcp import PROMPT, Session, bash, listed, only_run, serving

ATTACKS = Path(__file__).resolve().parents[3] / "shared" / "attacks"
PARSE, INVALID, UNKNOWN, PARAMS = -32700, -32600, -32601, -32602


def request(method: Any = "tools/call", params: Any = None, **more: Any) -> bytes:
    return json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 7,
            "method": method,
            **({} if params is None else {"params": params}),
            **more,
        }
    ).encode()


def called(arguments: Any, **more: Any) -> bytes:
    return request(params={"name": "treadle", "arguments": arguments, **more})


def note(method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


LINES: dict[str, tuple[bytes, int | str | None, int | str | None]] = {
    "garbage": (b"hello", None, PARSE),
    "a megabyte": (b"x" * (1 << 20), None, PARSE),
    "no UTF-8": (b"\xff\xfe\xc3\x28", None, PARSE),
    "NUL": (b"\0\0\0", None, PARSE),
    "two in a line": (request("ping") * 2, None, PARSE),
    "half a message": (request("ping")[:-5], None, PARSE),
    "deep": (
        b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":'
        + b"[" * 100_000
        + b"]" * 100_000
        + b"}}",
        None,
        PARSE,
    ),
    "deep, but JSON": (
        b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":' + b"[" * 400 + b"]" * 400 + b"}}",
        7,
        INVALID,
    ),
    "half a pair": (
        b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"\\ud800"}}',
        7,
        INVALID,
    ),
    "a batch": (b"[" + request("ping") + b"," + request("ping") + b"]", None, INVALID),
    "an empty batch": (b"[]", None, INVALID),
    "a number": (b"4711", None, INVALID),
    "params that are a list": (request("tools/call", ["treadle"]), 7, INVALID),
    "params that are a text": (request("tools/call", "treadle"), 7, INVALID),
    "another version": (request("ping", jsonrpc="1.0"), 7, INVALID),
    "a method that is a number": (request(5), 7, INVALID),
    "an id that is null": (request("ping", id=None), None, INVALID),
    "an id that is a fraction": (request("ping", id=1.5), None, INVALID),
    "an id that is an object": (request("ping", id={"a": 1}), None, INVALID),
    "an id that is true": (request("ping", id=True), None, INVALID),
    "an unknown method": (request("no/such"), 7, UNKNOWN),
    "a method that is not offered": (request("resources/list"), 7, UNKNOWN),
    "no params": (request("tools/call"), 7, PARAMS),
    "a name that is a number": (request("tools/call", {"name": 5}), 7, PARAMS),
    "an unknown tool": (request("tools/call", {"name": KEY}), 7, PARAMS),
    "arguments that are a list": (called([1]), 7, PARAMS),
    "a token that is an object": (called(PROMPT, _meta={"progressToken": {}}), 7, PARAMS),
    "a state that nobody sealed": (called(PROMPT, requestState="forged"), 7, PARAMS),
    "a state that is a number": (called(PROMPT, requestState=5), 7, PARAMS),
    "no arguments": (called(None), 7, "needs the argument 'prompt'"),
    "a prompt that is a number": (called({"prompt": 5}), 7, "needs the argument 'prompt'"),
    "a prompt that is empty": (called({"prompt": " \n"}), 7, "needs the argument 'prompt'"),
    "a prompt that is deep": (
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"treadle","arguments":{"prompt":'
        + b"[" * 100
        + b"]" * 100
        + b"}}}",
        7,
        "needs",
    ),
    "a strange argument": (called({**PROMPT, KEY: 1}), 7, "takes no argument"),
    "a long argument": (called({**PROMPT, "x" * (1 << 20): 1}), 7, "takes no argument"),
    "an answer that nobody waits for": (b'{"jsonrpc":"2.0","id":4711,"result":{}}', None, None),
    "an answer with a strange id": (b'{"jsonrpc":"2.0","id":[],"result":{}}', None, None),
    "an error that nobody waits for": (
        b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}',
        None,
        None,
    ),
    "an unknown note": (note("notifications/none"), None, None),
    "a note in a wrong form": (
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}',
        None,
        None,
    ),
    "cancelling what is not there": (note("notifications/cancelled", requestId=4711), None, None),
    "cancelling nothing": (note("notifications/cancelled"), None, None),
    "cancelling an object": (note("notifications/cancelled", requestId={"a": []}), None, None),
    "progress of nothing": (
        note("notifications/progress", progressToken={}, progress="x"),
        None,
        None,
    ),
    "an empty line": (b" \r", None, None),
}
"""By what it is: the line, the id of its answer, and the answer's code or words; None where there
is none.
"""


def until(session: Session, number: object) -> list[dict[str, Any]]:
    """What came before its answer, and that."""
    replies = [session.read()]
    while replies[-1].get("id") != number:
        replies.append(session.read())
    return replies


def is_answer(reply: dict[str, Any], code: int | str | None) -> bool:
    return (
        reply["error"]["code"] == code
        if "error" in reply
        else isinstance(code, str) and reply["result"]["isError"] and code in str(reply["result"])
    )


def test_every_line_has_its_own_clean_answer_or_none(cli: Cli):
    with serving(
        cli, "--model", cli.script({"text": "still here"}), ANTHROPIC_API_KEY=KEY
    ) as session:
        for what, (line, number, code) in LINES.items():
            session.write_raw(line + b"\n")
            before = (
                [session.read()] if code is not None else until(session, session.ask("ping"))[:-1]
            )
            assert [reply.get("id") for reply in before] == ([] if code is None else [number]), what
            assert all(is_answer(reply, code) for reply in before), (what, before)
            assert len(json.dumps(before)) < 4_000, what
            assert KEY not in json.dumps(before), what
        assert "still here" in str(
            until(session, session.ask("tools/call", name="treadle", arguments=PROMPT))[-1]
        )
        code, out, err = session.end()
    assert (code, out) == (0, "")
    assert "Traceback" not in err
    assert KEY not in err
    assert [run["outcome"] for run in listed(cli)] == ["completed"]


def test_lines_that_were_spoilt_anywhere_do_no_harm(cli: Cli):
    """Valid messages, each with bytes replaced, left out or put in, in an order that is the same
    each time.
    """
    chance = random.Random(4711)
    good = [
        called(PROMPT),
        request("ping"),
        request("tools/list"),
        note("notifications/cancelled", requestId=7),
        *(line for line, *_ in LINES.values() if len(line) < 1000),
    ]
    with serving(cli, "--model", cli.script({"text": "still here"})) as session:
        for _ in range(40):
            for _ in range(25):
                line = bytearray(chance.choice(good))
                for _ in range(chance.randrange(4)):
                    place = chance.randrange(len(line) or 1)
                    line[place : place + chance.randrange(3)] = chance.randbytes(
                        chance.randrange(3)
                    )
                session.write_raw(bytes(line).replace(b"\n", b" ") + b"\n")
            session.write_raw(request("ping", id="still there") + b"\n")
            until(session, "still there")
        code, _, err = session.end()
    assert code == 0
    assert "Traceback" not in err
    assert {run["outcome"] for run in listed(cli, "--limit", "1000")} <= {"completed", "cancelled"}


@pytest.mark.skipif(
    not ATTACKS.is_dir(), reason="the corpora of attacks are not beside the checkout"
)
def test_the_lines_of_the_corpora_are_names_of_no_tool_and_no_messages(cli: Cli):
    lines = [
        line
        for file in sorted(ATTACKS.glob("*.jsonl"))
        for line in file.read_bytes().splitlines()
        if line.strip()
    ]
    assert len(lines) > 400
    with serving(cli, "--model", cli.script({"text": "still here"})) as session:
        for line in lines:
            session.write_raw(line + b"\n")
            number = session.ask(
                "tools/call", name=str(json.loads(line)["input"]), arguments=PROMPT
            )
            *before, answer = until(session, number)
            assert [reply["error"]["code"] for reply in (*before, answer)] == [INVALID] * len(
                before
            ) + [PARAMS]
        code, out, err = session.end()
    assert (code, out) == (0, "")
    assert "Traceback" not in err
    assert listed(cli) == []


def test_calls_before_the_handshake_run_nothing(cli: Cli):
    with serving(cli, "--model", cli.script({"text": "never"}), handshake=False) as session:
        for line in (
            called(PROMPT),
            request("tools/list"),
            note("notifications/initialized"),
            note("notifications/cancelled", requestId=7),
        ):
            session.write_raw(line + b"\n")
        assert [session.read()["error"]["code"], session.read()["error"]["code"]] == [
            PARAMS,
            PARAMS,
        ]
        session.begin()
        code, _, err = session.end()
    assert (code, listed(cli)) == (0, [])
    assert "Traceback" not in err


def test_two_requests_of_one_id_are_two_runs_and_both_end_with_the_input(cli: Cli):
    model = cli.script(bash("sleep 60"), {"text": "never"})
    with serving(cli, "--model", model, "--mode", "full", "--no-sandbox") as session:
        for token in ("a", "b"):
            session.write_raw(called(PROMPT, _meta={"progressToken": token}) + b"\n")
        begun: set[str] = set()
        while begun < {"a", "b"}:
            told = session.read()["params"]
            begun |= {told["progressToken"]} if "bash" in told["message"] else set()
        session.write_raw(called(PROMPT)[:-9])  # the input ends in the middle of a line
        code, out, err = session.end()
    assert (code, err) == (0, "")
    assert Counter(run["outcome"] for run in listed(cli)) == {"cancelled": 2}
    assert all("result" not in json.loads(line) for line in out.splitlines())


def test_an_answer_that_utf_8_has_no_place_for_ends_nothing(cli: Cli):
    with serving(cli, "--model", cli.script({"text": "half \ud800 a pair"})) as session:
        for _ in range(2):
            reply = until(session, session.ask("tools/call", name="treadle", arguments=PROMPT))[-1]
            assert reply["result"]["content"][0]["text"] == "half � a pair"
        assert session.end()[0] == 0


def test_a_line_longer_than_any_message_is_let_go(cli: Cli):
    with serving(cli, "--model", cli.script({"text": "still here"})) as session:
        for _ in range(65):
            session.write_raw(b"x" * (1 << 20))
        session.write_raw(b"\n")
        assert "longer than 64 MiB" in session.read()["error"]["message"]
        assert "still here" in str(
            until(session, session.ask("tools/call", name="treadle", arguments=PROMPT))[-1]
        )
    assert only_run(cli)["outcome"] == "completed"
