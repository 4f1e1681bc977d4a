"""Runs from a file as data: entries without the authority that they claim. Entry points: `as_data`,
`standing_of`.

An export is untrusted. Its text, results and figures are kept. Everything that would take effect
here is replaced by the importer's values, and every call without a result needs the user's
approval.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec import structs

from treadle.journal.entries import (
    AgentSwitched,
    ApprovalAnswered,
    ApprovalAsked,
    Entry,
    ModelBatched,
    ModelSwitched,
    RunResumed,
    RunStarted,
    ToolStarted,
)
from treadle.journal.run_state import RunState
from treadle.messages.message import JsonText, ToolCall
from treadle.types import Limits, Mode, Settings, Time, now

BEGUN: Final = "imported: it had begun elsewhere and may have taken effect"
NOT_BEGUN: Final = "imported: the file asks for it, and no approval in a file counts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Importer:
    """Settings of the importing installation."""

    mode: Mode
    cwd: str
    model: str
    """Model that replaces models that are files."""
    file_models: Collection[str]
    """Providers whose models are files, such as `script`."""
    limits: Limits
    """Limits that replace the file's."""
    session_id: str
    """Id of the new session."""
    inputs: JsonText = "{}"
    """Inputs that replace the file's, which would reach the system prompt."""
    keeps_parent: bool = False
    """True if the parent run was imported into the same journal."""

    def name(self, model: str) -> str:
        return self.model if model.partition(":")[0].strip() in self.file_models else model


def as_data(entries: Sequence[Entry], importer: Importer) -> list[Entry]:
    """Return the entries of a whole run (`journal.read_run`) with the importer's authority, marked
    as imported.

    Removes places in batches, approvals, edited arguments, modes, directories, file models, users, sessions, limits,
    hosted tools, additions to requests, inputs, and parts of system prompts and of tools. A call
    without a result loses its start and gets an `approval.asked` with the model's arguments, so
    that the run waits for the user.
    """
    state = RunState()
    for entry in entries:
        state.apply(entry)
    still_open = (
        {}
        if state.finished is not None
        else {
            call.id: call for call in state.current.open_calls if call.id not in state.current.late
        }
    )
    kept = [
        changed
        for entry in entries
        if (changed := _changed(entry, importer, still_open)) is not None
    ]
    at = now()
    idle_s = max((at - entries[-1].at).total_seconds(), 0.0)  # no process drove the run meanwhile
    for call in still_open.values():
        reason = BEGUN if call.id in state.current.starts else NOT_BEGUN
        kept.append(
            ApprovalAsked(
                at=at,
                idle_s=idle_s,
                call_id=call.id,
                name=call.name,
                arguments_json=call.arguments_json,
                reason=reason,
            )
        )
        idle_s = 0.0
    return kept


def _changed(entry: Entry, importer: Importer, still_open: dict[str, ToolCall]) -> Entry | None:
    """Return the entry for the importer; None to drop it."""
    match entry:
        case RunStarted():
            return _started(entry, importer)
        case RunResumed():
            asked = None if entry.asked is None else importer.name(entry.asked)
            return structs.replace(
                entry,
                mode=importer.mode,
                cwd=importer.cwd,
                model=importer.name(entry.model),
                asked=asked,
                limits=None,
                evaluated=None,
            )
        case ModelSwitched():
            return structs.replace(
                entry, model=importer.name(entry.model), before=importer.name(entry.before)
            )
        case AgentSwitched():
            settings = _settings(entry.settings)
            return structs.replace(
                entry, passing=(), model=importer.name(entry.model), settings=settings
            )
        case ApprovalAnswered() | ModelBatched():
            return None
        case ApprovalAsked() | ToolStarted():
            return None if entry.call_id in still_open else entry
        case _:
            return entry


def _started(entry: RunStarted, importer: Importer) -> RunStarted:
    stays = importer.keeps_parent
    return structs.replace(
        entry,
        imported=now(),
        mode=importer.mode,
        cwd=importer.cwd,
        model=importer.name(entry.model),
        settings=_settings(entry.settings),
        limits=importer.limits,
        inputs=importer.inputs,
        session_id=None if entry.session_id is None or stays else importer.session_id,
        past=None,
        parent_run_id=entry.parent_run_id if stays else None,
        parent_call_id=entry.parent_call_id if stays else None,
        user_id=None,
        tags=(),
        metadata={},
        passing=(),
        evaluated=None,
        batch="",
        on_ask="wait",
        on_unknown="tell",
    )


def _settings(settings: Settings) -> Settings:
    """Remove settings with which a provider would run or receive more than the conversation."""
    return structs.replace(settings, hosted_tools=None, extra=None, service_tier=None)


# ---------------------------------------------------------------- entering a journal


FENCE_MOST: Final = 1_000_000_000
"""Largest fence of an imported run, far below the limit of a column."""


class Standing(NamedTuple):
    """State in which an imported run enters a journal."""

    fence: int
    """Highest fence in its entries; its next drivers get higher ones."""
    waiting: bool
    """True if a request for approval is open."""
    updated_at: Time | None = None
    """Time of its last entry."""


NEW: Final = Standing(fence=1, waiting=False)


def standing_of(entries: Sequence[Entry]) -> Standing:
    """Return the standing of a whole run (`read_run`)."""
    state, fence = RunState(), 1
    for entry in entries:
        state.apply(entry)
        if isinstance(entry, RunResumed):
            fence = max(fence, entry.fence)
    asked = any(call.id in state.approvals.asked for call in state.current.open_calls)
    return Standing(
        min(fence, FENCE_MOST), asked and state.finished is None, updated_at=entries[-1].at
    )
