"""The programs of examples/ run as they stand, each in a process of its own, without a key."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.fork_server import ForkServer, command, command_of

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
BOUNDARIES = range(1, 25)
"""More than the transfer passes."""


_STARTED: set[str] = set()
"""Programs that this process has run in an interpreter of their own, as a reader would."""
LOADED = ("anyio._backends._asyncio", "treadle.runtime.runtime", "treadle.testing")


@cache
def warned() -> ForkServer:
    """One whose children end with an error where they warn, as it does itself."""
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONWARNINGS": "error"}
    server = ForkServer(environment, arguments=LOADED)
    atexit.register(server.close)
    return server


def run(
    name: str, *options: str, home: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    clean = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("TREADLE_", "ANTHROPIC_", "OPENAI_", "GEMINI_", "GOOGLE_"))
    }
    environment = (
        clean | {"TREADLE_HOME": str(home / "treadle"), "PYTHONWARNINGS": "error"} | environment
    )
    program = str(EXAMPLES / f"{name}.py")
    forks = name in _STARTED and sys.platform == "linux"
    _STARTED.add(name)
    words = command_of(warned(), program) if forks else [sys.executable, program]
    return subprocess.run(
        [*words, *options],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=200,
        check=False,
    )


def said(name: str, *options: str, home: Path) -> list[str]:
    done = run(name, *options, home=home)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()


def test_a_booking_is_a_value_of_its_type_and_grows_before_that(tmp_path: Path) -> None:
    lines = said("extract", home=tmp_path)
    assert lines[-1] == "Ada: 2 on Friday at 20:00, one vegan menu"
    growing = lines[:-1]
    assert len(growing) > 2
    assert all(line.startswith("so far: {'guest': {") for line in growing)
    assert "vegan" not in growing[0]
    assert "vegan" in growing[-1]


def test_three_researchers_work_side_by_side_for_one_answer(tmp_path: Path) -> None:
    lines = said("research", home=tmp_path)
    assert lines[:3] == ["costs begins", "rules begins", "practice begins"]
    assert lines[3:6] == ["a researcher is completed"] * 3
    assert lines[-1].startswith("Yes. ")


def test_a_transfer_that_is_not_cut_moves_the_money(tmp_path: Path) -> None:
    assert said("bank", "--folder", "b", home=tmp_path) == [
        "Done: Bob has the 30 €.",
        "Ada has 70 €, Bob has 30 €",
    ]
    assert said("bank", "--folder", "b", home=tmp_path)[-1] == "Ada has 70 €, Bob has 30 €"


def bank(home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """As `run`, without the start of an interpreter."""
    return subprocess.run(
        command(str(EXAMPLES / "bank.py"), "--folder", "b"),
        cwd=home,
        env=os.environ | {"TREADLE_HOME": str(home / "treadle")} | environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=200,
        check=False,
    )


@pytest.mark.parametrize("part", range(4))
def test_money_moves_once_wherever_the_process_is_killed(part: int, tmp_path: Path) -> None:
    killed = 0
    for at in list(BOUNDARIES)[part::4]:
        home = tmp_path / str(at)
        home.mkdir()
        cut = bank(home, TREADLE_CRASH_AT=str(at))
        assert cut.returncode in (0, -signal.SIGKILL), cut.stderr
        killed += cut.returncode != 0
        again = bank(home)
        assert (again.returncode, again.stderr) == (0, "")
        assert again.stdout.splitlines()[-2:] == [
            "Done: Bob has the 30 €.",
            "Ada has 70 €, Bob has 30 €",
        ]
    assert killed


@pytest.mark.parametrize("answer", ["approve", "deny"])
def test_a_mail_waits_for_a_person_over_restarts(answer: str, tmp_path: Path) -> None:
    asked = [
        "approval_needed",
        "send_mail waits for --approve or --deny: {'to': 'Bob', 'text': 'We take the blue one.'}",
        "I write to Bob.",
    ]
    assert said("approval", "--folder", "m", home=tmp_path) == asked
    assert said("approval", "--folder", "m", home=tmp_path) == asked
    sent = tmp_path / "m" / "sent.txt"
    assert not sent.exists()
    options = ["--approve"] if answer == "approve" else ["--deny", "not now"]
    assert said("approval", "--folder", "m", *options, home=tmp_path) == [
        "completed",
        "That is settled.",
    ]
    assert sent.exists() is (answer == "approve")
    assert not sent.exists() or sent.read_text() == "to Bob: We take the blue one.\n"


def test_a_tool_of_an_mcp_server_is_asked_about_and_called(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    assert said("mcp_tool", home=tmp_path) == [
        "planner wants to call calendar_free",
        "calendar_free: eleven, three",
        "Friday at three would do.",
    ]


def test_a_budget_ends_a_run_with_an_answer(tmp_path: Path) -> None:
    assert said("budget", home=tmp_path) == [
        "looked: atlases",
        "looked: poems",
        "looked: cookbooks",
        "the limit of turns is near: 1 left",
        "completed after 4 turns: I got as far as shelf 3: atlases, poems, cookbooks.",
    ]


def test_every_example_is_run_here() -> None:
    here = Path(__file__).read_text()
    assert [
        name
        for name in sorted(file.stem for file in EXAMPLES.glob("*.py"))
        if f'"{name}"' not in here and not name.endswith("calendar")
    ] == []


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("batch", ["100 of 100 textile", "100 of 100 textile"]),
        ("checked_output", ["Order(article='tea', count=5)"]),
        ("coding", ["write: {'path': 'answer.txt', 'content': '42\\n'}", "Done.", "42"]),
        ("costs", ["cost_limit", "ada $0.0150", "bob $0.0075"]),
        ("dependencies", ["You ordered tea."]),
        (
            "evaluate",
            ["2 and 1 of 2", "✗ norway fails now: Exact: expected 'Oslo', not 'Bergen'"],
        ),
        ("fastapi_sse", ["1 text, 1 end"]),
        ("final_tool", ["2 people on Friday (1 turn)"]),
        ("hooks", ["['Ada, card [card]', 'Not run: nothing is deleted here']"]),
        ("images", ["A loom of 1805.", "['image/png']"]),
        ("local_server", ["office:qwen3-32b at http://10.0.0.5:8000/v1"]),
        ("many_prompts", ["200 of 200", "200 of 200"]),
        ("memory", ["ada 2 messages", "bob 2 messages", "ada 4 messages"]),
        ("own_model", ["OVER AND UNDER "]),
        (
            "own_store",
            [
                "Noted. ['I am Ada, and I like tea.', 'Noted.']",
                "Tea. ['I am Ada, and I like tea.', 'Noted.', 'What do I like?', 'Tea.']",
            ],
        ),
        ("stream", ["[stock]", "Yes, three copies.", "2 turns"]),
        ("tested_agent", ["2 passed"]),
        ("toolsets", ["ada ['crm_find', 'crm_delete']", "bob ['crm_find']"]),
        ("weather", ["Take sunglasses: Lisbon has sun."]),
        ("workflow", ["sent: One. Two.", "9 characters", "9 characters"]),
    ],
)
def test_a_small_program_says_what_it_shows(name: str, lines: list[str], tmp_path: Path) -> None:
    assert said(name, home=tmp_path) == lines


def test_there_are_as_many_programs_as_the_readme_says() -> None:
    assert len([*EXAMPLES.glob("*.py")]) == 27
