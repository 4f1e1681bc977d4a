"""The script that makes the pictures of the chat."""

from __future__ import annotations

import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"


def words(picture: Path) -> str:
    return unescape(picture.read_text(encoding="utf-8")).replace("\xa0", " ")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux on this machine")
def test_the_pictures_can_be_made_again(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, PICTURES / "make.py", "--into", tmp_path, "--only", "dark"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "for this session" in words(tmp_path / "chat-approval.svg")
    assert "All four tests pass." in words(tmp_path / "chat-dark.svg")


@pytest.mark.parametrize("name", ["dark", "light", "approval", "80"])
def test_a_picture_fetches_nothing_and_tells_nothing_of_a_machine(name: str) -> None:
    picture = words(PICTURES / f"chat-{name}.svg")
    assert 'url("http' not in picture
    assert "@font-face" not in picture
    assert "/tmp" not in picture
    assert "/home" not in picture
