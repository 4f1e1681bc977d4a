"""The public import path of hooks: user code at named points of a run.

The implementation is events/hooks/.
"""

from __future__ import annotations

from treadle.agents.guardrails import CallJudge as CallJudge
from treadle.agents.guardrails import Topics as Topics
from treadle.events.hooks import NO_HOOKS as NO_HOOKS
from treadle.events.hooks import Add as Add
from treadle.events.hooks import AfterModel as AfterModel
from treadle.events.hooks import AfterTool as AfterTool
from treadle.events.hooks import Answer as Answer
from treadle.events.hooks import Ask as Ask
from treadle.events.hooks import BeforeModel as BeforeModel
from treadle.events.hooks import BeforeTool as BeforeTool
from treadle.events.hooks import Hook as Hook
from treadle.events.hooks import HookedRun as HookedRun
from treadle.events.hooks import Hooks as Hooks
from treadle.events.hooks import Stop as Stop
from treadle.events.hooks import checked_hooks as checked_hooks
from treadle.events.hooks.audit import Audit as Audit
from treadle.events.hooks.cache import Cache as Cache
from treadle.events.hooks.guard import Guard as Guard
from treadle.events.hooks.guard import Rule as Rule
from treadle.events.hooks.guard import Secrets as Secrets
from treadle.events.hooks.injection import InjectionMarkers as InjectionMarkers
from treadle.events.hooks.personal_data import PersonalData as PersonalData
