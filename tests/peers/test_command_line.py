"""`treadle run` against servers of others, as a person would use them: a real process, a
configuration file, `--model`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.peers.aimock import Aimock
from tests.peers.tiny_model import CONTEXT
from tests.peers.wires import MODEL, write_config

Treadle = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def treadle(tmp_path: Path) -> Treadle:
    """Runs it in a workspace where NOTES.md says something, under the configuration that stands in
    `home`.
    """
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    (work / "NOTES.md").write_text("The bridge opens at noon.\n", encoding="utf-8")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TREADLE_HOME": str(home),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
        }
        command = [sys.executable, "-m", "treadle", *arguments]
        done = subprocess.run(
            command,
            cwd=work,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=50,
        )
        assert "Traceback" not in done.stdout + done.stderr, done
        assert "key-of-the-test" not in done.stdout + done.stderr, done
        return done

    return run


def test_a_file_is_read_for_the_mock_server_and_the_answer_is_all_that_stdout_holds(
    treadle: Treadle, aimock: Aimock, wire: str, tmp_path: Path
) -> None:
    write_config(tmp_path / "home", wire, aimock.url, aimock.headers)
    done = treadle("run", "--ephemeral", "--model", MODEL, "When does the bridge open?")
    assert (done.returncode, done.stdout) == (0, "At noon, says NOTES.md.\n"), done.stderr
    (result,) = [message for message in aimock.bodies()[1]["messages"] if message["role"] == "tool"]
    assert "The bridge opens at noon." in result["content"]


def test_a_refused_key_is_told_in_one_sentence_with_what_to_do(
    treadle: Treadle, aimock: Aimock, wire: str, tmp_path: Path
) -> None:
    write_config(tmp_path / "home", wire, aimock.url, aimock.headers)
    done = treadle("run", "--ephemeral", "--model", MODEL, "Refuse the key")
    assert (done.returncode, done.stdout) == (1, "")
    assert "invalid key. Check the key" in done.stderr


def test_a_llama_server_answers(treadle: Treadle, llama_url: str, tmp_path: Path) -> None:
    write_config(tmp_path / "home", "openai-chat", llama_url, {})
    done = treadle("run", "--ephemeral", "--model", MODEL, "--output", "json", "Think about it")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["output"] == "A thought it was."


@pytest.mark.parametrize("wire", ["openai-chat", "openai", "anthropic"])
def test_the_models_of_a_llama_server_are_listed(
    treadle: Treadle, llama_url: str, wire: str, tmp_path: Path
) -> None:
    write_config(tmp_path / "home", wire, llama_url, {})
    done = treadle("models", "--provider", "local", "--json")
    assert done.returncode == 0, done.stderr
    (listed,) = json.loads(done.stdout)["providers"]
    assert [(model["id"], model["context_tokens"]) for model in listed["models"]] == [
        ("tiny", CONTEXT)
    ]
