"""What tests leave behind in a workspace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Leave = Callable[[], list[str]]
EVIL = "[core]\n\tfsmonitor = ./evil\n"
PLAIN = "[core]\n\tbare = false\n"


def make(root: Path, *files: str, text: str = "x\n") -> None:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)


def repository(folder: Path, config: str = "[core]\n\tbare = false\n") -> None:
    for name in ("objects", "refs"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text(config)


def moved(said: list[str]) -> set[str]:
    return {text.split("'")[1] for text in said}
