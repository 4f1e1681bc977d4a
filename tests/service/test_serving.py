"""`treadle serve` as a process: how it starts, what it does with bad clients, how it ends, and that
no run is half done then.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.fork_server import command
from tests.service.at_hand import PASSWORD

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it is ended by signals")


class Process:
    def __init__(self, home: Path, *options: str, **env: str) -> None:
        whole = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("TREADLE_", "ANTHROPIC_"))},
            "HOME": str(home),
            "TREADLE_HOME": str(home / "treadle"),
            **env,
        }
        self.process = subprocess.Popen(
            command("treadle", "serve", "--port", "0", *options),
            cwd=home,
            env=whole,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        self.port = int(self.url.rpartition(":")[2] or 0) if self.url else 0

    def ended(self) -> tuple[int, str]:
        _, err = self.process.communicate(timeout=200)
        return self.process.returncode, err

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        return self.ended()

    @contextmanager
    def registered(self) -> Iterator[httpx2.Client]:
        """A client of somebody who is signed in."""
        with httpx2.Client(base_url=self.url, timeout=30) as http:
            answer = http.post("/auth/register", json={"username": "ada", "password": PASSWORD})
            if answer.status_code == 409:
                answer = http.post("/auth/login", json={"username": "ada", "password": PASSWORD})
            http.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
            yield http


@contextmanager
def served(home: Path, *options: str, **env: str) -> Iterator[Process]:
    process = Process(home, *options, **env)
    try:
        yield process
    finally:
        process.process.kill()
        process.process.communicate()


def script(folder: Path, *entries: dict[str, Any]) -> str:
    path = folder / "script.json"
    path.write_text(json.dumps(entries), encoding="utf-8")
    return f"script:{path}"


# ---------------------------------------------------------------- start and end


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_command_serves_without_a_key_and_ends_in_peace(tmp_path: Path, number: int) -> None:
    with served(tmp_path) as process:
        assert process.url.startswith("http://127.0.0.1:")
        with process.registered() as http:
            assert http.post("/chat", json={"message": "add buy milk"}).status_code == 200
            assert [task["title"].lower() for task in http.get("/tasks").json()] == ["buy milk"]
        code, err = process.stop(number)
    assert code == 0, err
    told = [line.split(maxsplit=1) for line in err.splitlines()]
    assert [name for name, _ in told] == ["database", "journal", "model", "agents", "stop"]
    assert str(tmp_path / "treadle" / "tasks.db") in err
    assert "embedded" in err
    assert "Traceback" not in err


def test_what_was_there_is_there_at_the_next_start_and_tokens_stay_good(tmp_path: Path) -> None:
    with served(tmp_path) as process, process.registered() as http:
        http.post("/tasks", json={"title": "milk"})
        process.stop()
    with served(tmp_path) as process:
        again = httpx2.get(
            f"{process.url}/tasks", headers={"Authorization": http.headers["Authorization"]}
        )
    assert [task["title"] for task in again.json()] == ["milk"]


def test_a_port_that_is_taken_is_told_in_a_sentence(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        served(tmp_path, "--port", str(taken.getsockname()[1])) as process,
    ):
        code, err = process.ended()
    assert code == 2
    assert err.startswith("treadle: cannot listen on 127.0.0.1 port")
    assert "another --port" in err
    assert len(err.splitlines()) == 1


def test_an_address_that_is_not_this_machines_is_told_by_its_own_way_out(tmp_path: Path) -> None:
    with served(tmp_path, "--host", "192.0.2.1") as process:
        code, err = process.ended()
    assert code == 2
    assert err.splitlines()[-1].startswith("treadle: cannot listen on 192.0.2.1")
    assert err.endswith("give --host an address or a name of this machine\n")


def test_naming_the_task_assistant_serves_it_once(tmp_path: Path) -> None:
    with served(tmp_path, "--agent", "tasks") as process, process.registered() as http:
        assert [model["id"] for model in http.get("/v1/models").json()["data"]] == ["tasks"]


@pytest.mark.parametrize(
    ("options", "env", "said"),
    [
        (("--database", "sqlite:////dev/null/tasks.db"), {}, "database file"),
        (("--database", "postgresql://ada:secretword@127.0.0.1:1/x"), {}, "database"),
        (("--database", "mysql://x/y"), {}, "sqlite:///FILE"),
        (("--journal", "sqlite:////dev/null/journal.db"), {}, "/dev/null"),
        (("--model", "anthropic:x"), {}, "key"),
        (("--model", "nobody:x"), {}, "nobody"),
        (("--agent", "nobody"), {}, "nobody"),
        (("--host", "no.such.host.invalid"), {}, "no.such.host.invalid"),
        ((), {"TREADLE_SERVICE_SECRET": "short"}, "TREADLE_SERVICE_SECRET"),
        ((), {"TREADLE_HOME": "/dev/null"}, "/dev/null"),
    ],
)
def test_what_keeps_it_from_starting_is_told_in_a_sentence(
    tmp_path: Path, options: tuple[str, ...], env: dict[str, str], said: str
) -> None:
    with served(tmp_path, *options, **env) as process:
        code, err = process.ended()
    assert code == 2, err
    assert said in err
    assert "Traceback" not in err
    assert "bug" not in err
    assert "secretword" not in err


def test_an_address_that_others_reach_is_said_to_need_names(tmp_path: Path) -> None:
    with served(tmp_path, "--host", "0.0.0.0") as process:
        assert httpx2.get(f"http://127.0.0.1:{process.port}/healthz").status_code == 200
        assert httpx2.get(f"http://127.0.0.1:{process.port}/openapi.json").status_code == 401
        _, err = process.stop()
    assert "service.hosts" in err


# ---------------------------------------------------------------- a run that is under way


def test_a_run_that_is_cut_by_the_end_goes_on_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "treadle").mkdir()
    (tmp_path / "treadle" / "config.yaml").write_text("service: {grace_s: 0}\n", encoding="utf-8")
    add = {"tool_calls": [{"name": "add_task", "arguments": {"title": "milk"}}]}
    slow = script(tmp_path, add, {"text": "It is there.", "delay_ms": 600_000})
    with served(tmp_path, "--model", slow) as process, process.registered() as http:
        with http.stream(
            "POST", "/chat", json={"message": "add milk"}, headers={"Accept": "text/event-stream"}
        ) as stream:
            lines = stream.iter_lines()
            assert next(line for line in lines if line == "event: tool_call_end")
            begun = time.monotonic()
            process.process.send_signal(signal.SIGTERM)
            left = [line for line in lines if line.startswith("event:")]
        assert "event: run_end" not in left
        code, err = process.ended()
        assert code == 0, err
        assert time.monotonic() - begun < 10
    script(tmp_path, add, {"text": "It is there."})
    with served(tmp_path, "--model", slow) as process, process.registered() as http:
        (conversation,) = http.get("/conversations").json()
        replies: list[Any] = []
        until = time.monotonic() + 20
        while not replies and time.monotonic() < until:
            messages = http.get(f"/conversations/{conversation['id']}").json()["messages"]
            replies = [message for message in messages if message["role"] == "assistant"]
        assert len(replies) == 1
        assert "milk" in replies[0]["content"]
        assert [task["title"] for task in http.get("/tasks").json()] == ["milk"]


def test_a_run_that_ends_within_the_grace_is_waited_for(tmp_path: Path) -> None:
    quick = script(tmp_path, {"text": "Here I am.", "delay_ms": 300})
    with served(tmp_path, "--model", quick) as process, process.registered() as http:
        with http.stream(
            "POST", "/chat", json={"message": "hello"}, headers={"Accept": "text/event-stream"}
        ) as stream:
            lines = stream.iter_lines()
            assert next(line for line in lines if line == "event: run_start")
            process.process.send_signal(signal.SIGTERM)
            assert [line for line in lines if line == "event: reply"]
        assert process.ended()[0] == 0


# ---------------------------------------------------------------- bad clients


def said_to(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        line.sendall(data)
        answer = b""
        while piece := line.recv(65_536):
            answer += piece
        return answer


def test_what_is_no_http_and_heads_without_end_are_shown_out(tmp_path: Path) -> None:
    with served(tmp_path) as process:
        for wrong in (
            b"hello\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + b"x" * 100,
        ):
            assert said_to(process.port, wrong).startswith(b"HTTP/1.1 400 ")
        endless = said_to(
            process.port, b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * 70_000
        )
        assert endless.startswith(b"HTTP/1.1 431 ")
        assert b"application/problem+json" in endless
        without = said_to(process.port, b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")
        twice = said_to(
            process.port,
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        )
        assert without.startswith(b"HTTP/1.1 400 ")
        assert twice.startswith(b"HTTP/1.1 400 ")
        smuggled = said_to(
            process.port,
            b"POST /auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        )
        assert smuggled.startswith(b"HTTP/1.1 400 ")
        large = said_to(
            process.port,
            b"POST /chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1073741824\r\n\r\n",
        )
        assert large.startswith(b"HTTP/1.1 413 ")  # ht-022


def test_a_target_that_names_another_host_than_the_host_header_is_refused(tmp_path: Path) -> None:
    def status(target: bytes, host: bytes = b"localhost", method: bytes = b"GET") -> bytes:
        return said_to(
            process.port,
            b"%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (method, target, host),
        ).split(b" ", 2)[1]

    with served(tmp_path) as process:
        port = str(process.port).encode()
        same = (
            b"/healthz",
            b"http://localhost/healthz",
            b"HTTP://LOCALHOST:80/healthz?a=//evil.example/",
            b"https://localhost:443/healthz",
        )
        assert [status(target) for target in same] == [b"200"] * len(same)
        assert status(b"http://localhost:%s/healthz" % port, b"localhost:" + port) == b"200"
        others = [
            b"http://evil.example/metrics",
            b"http://evil.example",
            b"http://localhost@evil.example/metrics",
            b"http://localhost.evil.example/metrics",
        ]
        others += [
            b"http://localhost:81/metrics",
            b"http://127.0.0.1/metrics",
            b"http:///metrics",
            b"https://evil.example/metrics",
            b"ftp://localhost/metrics",
        ]
        assert {target: status(target) for target in others} == {
            target: status(target) for target in others if status(target) in (b"400", b"421")
        }
        assert status(b"http://evil.example/metrics") == b"421"
        assert status(b"http://localhost/metrics", b"evil.example") == b"421"
        assert status(b"evil.example:443", method=b"CONNECT") in (b"400", b"405", b"421")


def test_two_hundred_slow_clients_hinder_nobody_and_are_shown_out(tmp_path: Path) -> None:  # ht-030
    with served(tmp_path) as process:
        slow = [socket.create_connection(("127.0.0.1", process.port)) for _ in range(200)]
        try:
            for line in slow:
                line.sendall(b"GET / HTTP/1.1\r\nHost: local")
            assert httpx2.get(f"{process.url}/readyz", timeout=5).status_code == 200
            slow[0].settimeout(20)
            assert slow[0].recv(1) == b""
        except ConnectionResetError:
            pass
        finally:
            for line in slow:
                line.close()
        assert httpx2.get(f"{process.url}/readyz", timeout=5).status_code == 200
