"""`treadle run` against servers of others, as a person would use them: a configuration file and
`--model`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import in_process
from tests.cli.conftest import Answer
from tests.peers.aimock import Aimock
from tests.peers.tiny_model import CONTEXT
from tests.peers.wires import MODEL, write_config

Treadle = Callable[..., Answer]


@pytest.fixture
def treadle(tmp_path: Path) -> Treadle:
    """Runs it in a workspace where NOTES.md says something, under the configuration that stands in
    `home`.
    """
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    (work / "NOTES.md").write_text("The bridge opens at noon.\n", encoding="utf-8")

    def run(*arguments: str) -> Answer:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TREADLE_HOME": str(home),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
        }
        code, out, err = in_process.run(arguments, work, env, None)
        done = Answer(code, out.decode(), err.decode())
        assert "Traceback" not in done.out + done.err, done
        assert "key-of-the-test" not in done.out + done.err, done
        return done

    return run


def test_a_file_is_read_for_the_mock_server_and_the_answer_is_all_that_stdout_holds(
    treadle: Treadle, aimock: Aimock, wire: str, tmp_path: Path
) -> None:
    write_config(tmp_path / "home", wire, aimock.url, aimock.headers)
    done = treadle("run", "--ephemeral", "--model", MODEL, "When does the bridge open?")
    assert (done.code, done.out) == (0, "At noon, says NOTES.md.\n"), done.err
    (result,) = [message for message in aimock.bodies()[1]["messages"] if message["role"] == "tool"]
    assert "The bridge opens at noon." in result["content"]


def test_a_refused_key_is_told_in_one_sentence_with_what_to_do(
    treadle: Treadle, aimock: Aimock, wire: str, tmp_path: Path
) -> None:
    write_config(tmp_path / "home", wire, aimock.url, aimock.headers)
    done = treadle("run", "--ephemeral", "--model", MODEL, "Refuse the key")
    assert (done.code, done.out) == (1, "")
    assert "invalid key. Check the key" in done.err


def test_a_llama_server_answers(treadle: Treadle, llama_url: str, tmp_path: Path) -> None:
    write_config(tmp_path / "home", "openai-chat", llama_url, {})
    done = treadle("run", "--ephemeral", "--model", MODEL, "--output", "json", "Think about it")
    assert done.code == 0, done.err
    assert json.loads(done.out)["output"] == "A thought it was."


@pytest.mark.parametrize("wire", ["openai-chat", "openai", "anthropic"])
def test_the_models_of_a_llama_server_are_listed(
    treadle: Treadle, llama_url: str, wire: str, tmp_path: Path
) -> None:
    write_config(tmp_path / "home", wire, llama_url, {})
    done = treadle("models", "--provider", "local", "--json")
    assert done.code == 0, done.err
    (listed,) = json.loads(done.out)["providers"]
    assert [(model["id"], model["context_tokens"]) for model in listed["models"]] == [
        ("tiny", CONTEXT)
    ]
