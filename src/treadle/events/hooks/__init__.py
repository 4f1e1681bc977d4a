"""User code at named points of every run.

    before_input                          (the prompt, and each message of a user)
    before_run
      before_model · after_model          (each turn)
      check_input                         (beside the request that shows a message of a user)
      before_tool  · after_tool           (each call)
      before_compaction · after_compaction
      check_output                        (the output)
    after_run                             (always, and last)

hook.py is the contract; checking.py rejects invalid hooks; chain.py calls the hooks of a run, one
after another. Ready-made hooks: guard.py (rules for calls, a mask for secrets), injection.py
(markers of prompt injection), personal_data.py (a mask for personal data), cache.py (cached
responses) and audit.py (a file of all actions). Entry point: `Hook`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treadle.events.hooks.chain import NO_HOOKS as NO_HOOKS
from treadle.events.hooks.chain import Hooks as Hooks
from treadle.events.hooks.chain import RunBlocked as RunBlocked
from treadle.events.hooks.checking import checked_hooks as checked_hooks
from treadle.events.hooks.hook import Add as Add
from treadle.events.hooks.hook import AfterModel as AfterModel
from treadle.events.hooks.hook import AfterTool as AfterTool
from treadle.events.hooks.hook import Answer as Answer
from treadle.events.hooks.hook import Ask as Ask
from treadle.events.hooks.hook import BeforeModel as BeforeModel
from treadle.events.hooks.hook import BeforeTool as BeforeTool
from treadle.events.hooks.hook import Hook as Hook
from treadle.events.hooks.hook import HookedRun as HookedRun
from treadle.events.hooks.hook import Stop as Stop

if TYPE_CHECKING:
    from treadle.events.hooks.audit import Audit as Audit
    from treadle.events.hooks.cache import Cache as Cache
    from treadle.events.hooks.guard import Guard as Guard
    from treadle.events.hooks.guard import Rule as Rule
    from treadle.events.hooks.guard import Secrets as Secrets
    from treadle.events.hooks.injection import InjectionMarkers as InjectionMarkers
    from treadle.events.hooks.personal_data import PersonalData as PersonalData

_SHIPPED = {
    "Audit": "audit",
    "Cache": "cache",
    "Guard": "guard",
    "InjectionMarkers": "injection",
    "PersonalData": "personal_data",
    "Rule": "guard",
    "Secrets": "guard",
}


def __getattr__(name: str) -> Any:
    if name not in _SHIPPED:
        raise AttributeError(f"module 'treadle.hooks' has no attribute {name!r}")
    import importlib  # noqa: PLC0415  needed only for ready-made hooks

    return getattr(importlib.import_module(f"treadle.events.hooks.{_SHIPPED[name]}"), name)
