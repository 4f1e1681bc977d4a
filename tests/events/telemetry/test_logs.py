"""Each event is one line, without secrets and without what was said; whoever reads them slowly
misses some, and is told.
"""

from __future__ import annotations

import io
import json
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import structlog
from structlog.testing import CapturingLogger

from tests.doubles import PlayedModel, agent, asks, call, fails, gives, open_runtime, says, watch
from tests.events.telemetry.traces import Watched
from treadle.config import load
from treadle.errors import AgentError
from treadle.events.hub import Hub
from treadle.events.telemetry import log_events
from treadle.events.telemetry.files import LogFile
from treadle.events.telemetry.logs import EventLog, structured
from treadle.messages.events import Warned
from treadle.types import now

SCRIPT = [
    fails("rate_limit"),
    asks(call("look", "k1", at="the door"), reasoning="I should look."),
    says("A cat."),
]


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def warned(text: str) -> Warned:
    return Warned(run_id="run_1", session_id=None, seq=1, at=now(), text=text)


async def logged(**options: Any) -> list[dict[str, Any]]:
    rt, out = open_runtime(), io.StringIO()
    with log_events(rt.hub, file=out, **options):
        await rt.run(agent(SCRIPT, gives("look", "fur")), "Who is there?", session="ada")
    return lines(out.getvalue())


async def test_each_event_is_a_line_with_the_run_and_its_session() -> None:
    told = await logged()
    kinds = "run_start turn_start retry usage message tool_call tool_call_start tool_call_end turn_end turn_start usage message turn_end output run_end"
    assert [line["event"] for line in told] == kinds.split()
    assert {(line["run_id"][:4], line["session_id"]) for line in told} == {("run_", "ada")}
    assert [line["seq"] for line in told] == sorted(line["seq"] for line in told)
    assert [line["level"] for line in told[:4]] == ["info", "info", "warning", "info"]
    assert all(line["at"].endswith("Z") for line in told)
    ended = next(line for line in told if line["event"] == "tool_call_end")
    assert (ended["call_id"], ended["name"], ended["is_error"], ended["result_chars"]) == (
        "k1",
        "look",
        False,
        3,
    )


async def test_what_was_said_is_only_measured_by_default() -> None:
    told = await logged()
    text = json.dumps(told)
    assert not any(words in text for words in ("the door", "fur", "A cat.", "I should look."))
    assert told[-1]["text_chars"] == 6
    assert next(line["message_id"] for line in told if line["event"] == "message").startswith(
        "msg_"
    )


async def test_what_was_said_stands_there_where_it_is_wanted() -> None:
    told = await logged(content=True)
    assert told[-1]["text"] == "A cat."
    assert next(line["arguments"] for line in told if line["event"] == "tool_call") == {
        "at": "the door"
    }
    assert (
        next(line["message"]["role"] for line in told if line["event"] == "message") == "assistant"
    )


async def test_the_pieces_of_responses_are_left_out_unless_they_are_wanted() -> None:
    pieces = {
        "text_delta",
        "reasoning_start",
        "reasoning_delta",
        "reasoning_end",
        "tool_call_delta",
    }
    assert not pieces & {line["event"] for line in await logged()}
    told = await logged(deltas=True)
    assert pieces <= {line["event"] for line in told}
    assert {line["level"] for line in told if line["event"].endswith("_delta")} == {"debug"}


async def test_no_secret_stands_in_a_line() -> None:
    known, unknown = "a-very-secret-value", "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
    rt, out = open_runtime(config=load({"ANTHROPIC_API_KEY": known}, files=False)), io.StringIO()
    with log_events(rt.hub, file=out, content=True):
        await rt.run(
            agent(
                [asks(call("look", "k1", key=known)), says(f"{known} {unknown}")],
                gives("look", unknown),
            ),
            known,
        )
    assert known not in out.getvalue()
    assert unknown not in out.getvalue()
    assert "[redacted]" in out.getvalue()


async def test_the_librarys_own_words_stand_among_them_without_secrets() -> None:
    known, before = "a-very-secret-value", list(logging.getLogger("treadle").handlers)
    rt, out = open_runtime(config=load({"ANTHROPIC_API_KEY": known}, files=False)), io.StringIO()
    with log_events(rt.hub, file=out):
        await rt.run(agent(PlayedModel([ValueError(f"{known} is no key")])), "go")
        await rt.aclose()
    (word,) = [line for line in lines(out.getvalue()) if line.get("logger") == "treadle"]
    assert (word["level"], word["event"].startswith("run run_")) == ("error", True)
    assert "ValueError: [redacted] is no key" in word["exception"]
    assert known not in out.getvalue()
    assert logging.getLogger("treadle").handlers == before, "nothing of a closed log stays behind"


async def test_lines_carry_the_ids_of_the_trace_that_they_belong_to() -> None:
    watched, out = Watched(), io.StringIO()
    rt = open_runtime(tracer=watched.tracer)
    with log_events(rt.hub, file=out):
        await rt.run(agent([asks(call("look")), says("hi")], gives("look")), "go")
    told = lines(out.getvalue())
    run = watched.named("invoke_agent tester").context
    assert run is not None
    assert {line["trace_id"] for line in told} == {f"{run.trace_id:032x}"}
    assert told[0]["span_id"] == told[-1]["span_id"] == f"{run.span_id:016x}"


async def test_lines_without_a_trace_have_no_ids() -> None:
    assert not any("trace_id" in line for line in await logged())


async def test_lines_for_people_write_control_characters_out() -> None:
    rt, out = open_runtime(), io.StringIO()
    with log_events(rt.hub, form="text", file=out, content=True):
        await rt.run(agent([says("\x1b[31mred\x07 \u202e")]), "go")
    assert "run_end" in out.getvalue()
    assert "\\x1b[31mred\\x07" in out.getvalue()
    assert "\x1b" not in out.getvalue()


async def test_an_application_may_give_a_logger_of_its_own() -> None:
    rt, mine = open_runtime(), CapturingLogger()
    with log_events(
        rt.hub,
        writer=structlog.wrap_logger(
            mine, processors=[structlog.processors.KeyValueRenderer(key_order=["event", "seq"])]
        ),
    ):
        await rt.run(agent([says("hi")]), "go")
    assert [call.method_name for call in mine.calls] == ["info"] * len(mine.calls)
    assert mine.calls[0].args[0].startswith("event='run_start' seq=1")


# ---------------------------------------------------------------- slow and broken sinks


@pytest.fixture
def pipe() -> Iterator[tuple[LogFile, int]]:
    """A log that goes to a pipe, and the pipe's other end."""
    reader, writer = os.pipe()
    sink = LogFile(os.devnull)
    os.dup2(writer, sink._fd)  # pyright: ignore[reportPrivateUsage]  a real pipe without a name
    os.close(writer)
    yield sink, reader
    os.close(reader)


def drained(reader: int) -> str:
    pieces: list[bytes] = []
    while piece := os.read(reader, 1 << 16):
        pieces.append(piece)
    return b"".join(pieces).decode()


async def test_a_sink_that_takes_nothing_holds_up_no_run_and_is_told_what_it_missed(
    pipe: tuple[LogFile, int],
) -> None:
    sink, reader = pipe
    rt = open_runtime()
    log = EventLog(rt.hub, structured("json", sink), waiting_max=5, content=True)
    script = [*(asks(call("look", "", text="x" * 8_000, at=i)) for i in range(30)), says("done")]
    with anyio.fail_after(10):
        result = await rt.run(agent(script, gives("look")), "go")
    assert result.success, "nobody has read a line of it"
    log.close()
    text: list[str] = []
    reading = threading.Thread(target=lambda: text.append(drained(reader)))
    reading.start()
    log.wait()
    sink.close()
    reading.join()
    told = lines(text[0])
    missed = sum(line["count"] for line in told if line["event"] == "missed")
    events = [line for line in told if line["event"] != "missed"]
    seen = await watch(script, gives("look"))
    assert missed > 0
    assert len(events) + missed == len(
        [e for e in seen.events if "delta" not in str(e.__struct_config__.tag)]
    )


class Failing:
    """A sink whose disk is full for a while."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.full = True
        self.tried = threading.Semaphore(0)

    def write(self, text: str) -> int:
        if self.full:
            self.tried.release()
            raise OSError(28, "No space left on device")
        self.written.append(text)
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return False


def test_a_sink_that_fails_is_told_later_what_it_missed() -> None:
    hub, sink = Hub(), Failing()
    with log_events(hub, file=sink):  # pyright: ignore[reportArgumentType]  as much of a file as is used
        for i in range(3):
            hub.publish(warned(str(i)))
            assert sink.tried.acquire(timeout=5)
        sink.full = False
        hub.publish(warned("3"))
    told = lines("".join(sink.written))
    assert [(line["event"], line.get("count"), line.get("text")) for line in told] == [
        ("missed", 3, None),
        ("warning", None, "3"),
    ]


async def test_a_sink_that_never_takes_anything_is_left_behind(
    pipe: tuple[LogFile, int], caplog: pytest.LogCaptureFixture
) -> None:
    sink, reader = pipe
    hub = Hub()
    log = log_events(hub, file=sink)
    for _ in range(300):
        hub.publish(warned("x" * 8_000))
    log.close()
    log.wait(0.01)
    assert any("could not write its last" in record.message for record in caplog.records)
    reading = threading.Thread(target=drained, args=(reader,))
    reading.start()
    log.wait()
    reading.join()  # its file is closed where its last line is written


def test_a_closed_hub_ends_the_log() -> None:
    hub, out = Hub(), io.StringIO()
    log = log_events(hub, file=out)
    hub.publish(warned("one"))
    hub.close()
    log.wait()
    assert [line["text"] for line in lines(out.getvalue())] == ["one"]
    assert not hub.heard


# ---------------------------------------------------------------- files


def test_a_log_file_is_private_and_is_added_to(tmp_path: Path) -> None:
    path = tmp_path / "events.log"
    for word in ("one", "two"):
        file = LogFile(str(path))
        file.write(word + "\n")
        file.close()
    assert path.read_text() == "one\ntwo\n"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kind", ["folder", "nowhere", "fifo"])
def test_a_log_file_that_cannot_be_one_is_told_at_once(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x" / "events.log" if kind == "nowhere" else tmp_path / "log"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    with pytest.raises(AgentError, match="cannot be written"):
        LogFile(str(path))
