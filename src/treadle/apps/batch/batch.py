"""Definition of a batch: its prompts, and the terms on which each is worked on.

Execution is in crew.py. Entry points: `Batch`, `Terms`.
"""

from __future__ import annotations

import hashlib

import msgspec

from treadle.types import Limits, Mode, OnAsk, OnUnknown, Settings, Value

GATE_TIMEOUT_S = 1800.0


class Terms(Value, frozen=True, kw_only=True):
    """Terms that apply to every prompt of a batch."""

    model: str
    """Name of the model, resolved so that it is valid in any directory."""
    agent: str | None = None
    """Agent defined in `cwd`; None: the coding assistant."""
    inputs: dict[str, object] = msgspec.field(default_factory=dict[str, object])
    """Inputs of the agent."""
    output: dict[str, object] | None = None
    """JSON Schema for the answers, which replaces the agent's own."""
    cwd: str
    """Absolute path of the directory in which the batch was started."""
    mode: Mode
    settings: Settings = Settings()
    limits: Limits = Limits()
    """Limits of each prompt, over all of its attempts."""
    on_ask: OnAsk = "deny"
    on_unknown: OnUnknown = "tell"
    allow: tuple[str, ...] = ()
    """Rules that a person added to their own for this batch."""
    sandbox: str | None = None
    """`off` if commands run without a sandbox; None: as configured."""
    network: str | None = None
    """Value of `--network`; None: as configured."""
    attached: tuple[str, ...] = ()
    """Absolute paths of files attached to each prompt."""
    worktree: bool = False
    gates: tuple[str, ...] = ()
    """Shell commands, in order. After the first failure the rest are skipped."""
    gate_timeout_s: float = GATE_TIMEOUT_S
    """Timeout of each gate, in seconds."""
    retries: int = 0
    """Maximum number of attempts after the first."""
    parallel: int = 1
    """Maximum number of concurrent prompts; with workers, of prompts whose gates run
    concurrently.
    """
    queue: str | None = None
    """Queue of its runs for workers; None if the batch's process drives them."""

    @property
    def at_once(self) -> bool:
        """True if several prompts may be worked on concurrently."""
        return self.parallel > 1 or self.queue is not None


class Batch(Value, frozen=True, kw_only=True):
    """Batch with its original options; a resume may change only its terms."""

    id: str
    prompts: tuple[str, ...]
    terms: Terms
    base: str | None = None
    """Commit at which every worktree begins: HEAD when the batch was started."""

    @property
    def numbers(self) -> range:
        """Numbers of its prompts, from 1."""
        return range(1, len(self.prompts) + 1)

    def prompt(self, number: int) -> str:
        return self.prompts[number - 1]

    def item_id(self, number: int) -> str:
        """Return the name of a prompt's session, branch and worktree."""
        return f"{self.id}-{number}"

    def run_id(self, number: int, count: int) -> str:
        """Return the id of the `count`th run of a prompt, for cases in which it must be known in
        advance. It looks like any other run id.
        """
        made = hashlib.sha256(f"{self.item_id(number)}.{count}".encode()).hexdigest()
        return f"run_{self.id.rpartition('_')[2][:12]}{made[:14]}"

    def number_of(self, item_id: str | None) -> int | None:
        """Return the number of the prompt with this id, or None for an id outside this batch."""
        start, _, number = (item_id or "").rpartition("-")
        return int(number) if start == self.id and number.isdecimal() else None
