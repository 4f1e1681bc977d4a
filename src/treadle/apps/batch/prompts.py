"""Sources of prompts other than arguments: lines of a text, files of a folder. Entry points:
`prompts_of`, `lines_of`.
"""

from __future__ import annotations

from pathlib import Path

from treadle.errors import AgentError

BYTES_MAX = 10 * 1024 * 1024
"""Maximum size of one file."""


def prompts_of(path: Path) -> list[str]:
    """Return the prompts in a file, one per line, or those in a folder, one per file, sorted by
    name and without hidden files and folders.

    Raises AgentError(invalid).
    """
    if not path.is_dir():
        return lines_of(_read(path))
    try:
        files = sorted(
            file for file in path.iterdir() if not file.name.startswith(".") and not file.is_dir()
        )
    except OSError as e:
        raise AgentError(
            "invalid", f"cannot read the folder {str(path)!r}: {e.strerror or e}"
        ) from e
    found = [(file, _read(file).strip()) for file in files]
    if empty := [str(file) for file, text in found if not text]:
        raise AgentError("invalid", f"{empty[0]!r} is empty: each file of the folder is a prompt")
    return [text for _, text in found]


def lines_of(text: str) -> list[str]:
    """Return the lines that are not blank."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as e:
        raise AgentError("invalid", f"cannot read {str(path)!r}: {e.strerror or e}") from e
    if len(data) > BYTES_MAX:
        raise AgentError(
            "invalid",
            (
                f"{str(path)!r} is larger than {BYTES_MAX // 1024 // 1024} MiB: too large for a "
                "list of prompts"
            ),
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise AgentError("invalid", f"{str(path)!r} is not UTF-8 text, as prompts must be") from e
