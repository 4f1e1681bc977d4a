"""Options of a chat. Entry points: `StartRequest`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from treadle.config import Config

if TYPE_CHECKING:
    from treadle.runtime.runtime import Runtime
    from treadle.tui.conversation import RunSetting


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """Options of a chat from the command line. Its functions are called after the first frame."""

    config: Config
    cwd: Path
    history: Path | None
    """File of the input history, or None."""
    reload: Callable[[], Config]
    """Function that reloads the configuration after the first start has written it."""
    setting: Callable[[Config], tuple[RunSetting, tuple[str, ...]]]
    """Function that returns the settings of the runs, and warnings. Raises AgentError."""
    runtime: Callable[[Config], Runtime]
    """Function that opens the runtime. Raises AgentError."""
    session: Callable[[Runtime], str | None]
    """Function that returns the id of the session to open, or None for a new one. Raises
    AgentError.
    """
