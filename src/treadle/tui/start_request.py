"""What the command line asks of a chat. Entry: `StartRequest`."""

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
    """What the command line says. Its functions are called once the first frame stands."""

    config: Config
    cwd: Path
    history: Path | None
    """The file of what was typed; None: none is kept."""
    reload: Callable[[], Config]
    """The configuration again, once the first start has written it."""
    setting: Callable[[Config], tuple[RunSetting, tuple[str, ...]]]
    """The agent and all that its runs begin with, and what is to be told of it. Raises AgentError.
    """
    runtime: Callable[[Config], Runtime]
    """Raises AgentError."""
    session: Callable[[Runtime], str | None]
    """Which conversation is opened; None: a new one. Raises AgentError."""
