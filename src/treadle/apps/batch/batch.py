"""What a batch is: prompts, and the terms on which each of them is worked.

How it goes is crew.py's. Entry: `Batch`, `Terms`.
"""

from __future__ import annotations

import hashlib

import msgspec

from treadle.types import Limits, Mode, OnAsk, OnUnknown, Settings, Value

GATE_TIMEOUT_S = 1800.0


class Terms(Value, frozen=True, kw_only=True):
    """The same for every prompt of a batch."""

    model: str
    """Its name, good in any directory."""
    agent: str | None = None
    """Of those that are defined in `cwd`; None: the coding assistant."""
    inputs: dict[str, object] = msgspec.field(default_factory=dict[str, object])
    """Of the agent."""
    output: dict[str, object] | None = None
    """A JSON Schema that each answer fits, in the place of the agent's own."""
    cwd: str
    """Absolute: where the batch was begun."""
    mode: Mode
    settings: Settings = Settings()
    limits: Limits = Limits()
    """Of each prompt, over all its attempts."""
    on_ask: OnAsk = "deny"
    on_unknown: OnUnknown = "tell"
    allow: tuple[str, ...] = ()
    """Rules that a person added to their own for this batch."""
    sandbox: str | None = None
    """`off`: commands are not confined. None: as the configuration says."""
    network: str | None = None
    """What `--network` was given. None: as the configuration says."""
    attached: tuple[str, ...] = ()
    """Absolute paths of files that go with each prompt."""
    worktree: bool = False
    gates: tuple[str, ...] = ()
    """Commands of a shell, in order; the first that fails ends them."""
    gate_timeout_s: float = GATE_TIMEOUT_S
    """Of each gate."""
    retries: int = 0
    """Attempts after the first."""
    parallel: int = 1
    """Prompts that are worked at once; where workers drive them, those whose gates are run at once.
    """
    queue: str | None = None
    """Where its runs wait for workers; None: the process of the batch drives them."""

    @property
    def at_once(self) -> bool:
        """Whether several prompts may be worked at the same time."""
        return self.parallel > 1 or self.queue is not None


class Batch(Value, frozen=True, kw_only=True):
    """What stays as it was begun; only its terms may be others after a resume."""

    id: str
    prompts: tuple[str, ...]
    terms: Terms
    base: str | None = None
    """The commit at which every worktree begins: HEAD when the batch was begun."""

    @property
    def numbers(self) -> range:
        """Of its prompts, from 1."""
        return range(1, len(self.prompts) + 1)

    def prompt(self, number: int) -> str:
        return self.prompts[number - 1]

    def item_id(self, number: int) -> str:
        """Names a prompt of this batch everywhere: its session, its branch, its worktree."""
        return f"{self.id}-{number}"

    def run_id(self, number: int, count: int) -> str:
        """Of the `count`th run of a prompt, where somebody has to know it before it begins: it
        looks like any other.
        """
        made = hashlib.sha256(f"{self.item_id(number)}.{count}".encode()).hexdigest()
        return f"run_{self.id.rpartition('_')[2][:12]}{made[:14]}"

    def number_of(self, item_id: str | None) -> int | None:
        """None for what is no prompt of this batch."""
        start, _, number = (item_id or "").rpartition("-")
        return int(number) if start == self.id and number.isdecimal() else None
